#include "gate/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/log.h"
#include "gate/confine.h"
#include "gate/state.h"
#include "wire/gate.h"

enum {
	REQUEST_MAX = 1024,   /* of a door */
	KEPT_TOLD_MAX = 4096, /* states, to a new door, that wait */
	STATES_MORE = 1024,   /* beyond two of each possible sandbox */
};

/* A door that was asked for; the process may be on its way. */
struct kept_door {
	struct list node;
	struct keeper *k;
	char name[NAME_CAP];
	struct io io;
	struct outbox out;
	int state_fd; /* directory of its sandboxes' states */
	bool told;    /* which of them there are */
	uint64_t n_states;
	struct deferred gone;
};

/* A connection that has not said which door it means. */
struct greeting {
	struct list node;
	struct keeper *k;
	struct io io;
	struct timer timer;
	struct deferred gone;
};

/* "gate", "gate.PROJECT": in the log, and of its files. */
static void door_label(const char *name, char out[NAME_CAP + 8])
{
	snprintf(out, NAME_CAP + 8, "gate%s%s", *name ? "." : "", name);
}

/* --- resolv.conf and hosts --- */

/* What is too long is cut after its last whole line. True: it is another. */
static bool look_at(const struct watched *w, size_t max, struct buf *b)
{
	AUTO(buf_done) struct buf now = { 0 };
	AUTO_CLOSE int fd = -1;
	ssize_t n = 0;
	struct buf old;

	if (w->dir_fd >= 0)
		fd = openat(w->dir_fd, w->name,
			    O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0)
		n = read_full(fd, buf_room(&now, max), max);
	if (fd < 0 || n < 0)
		return false; /* between two versions, or there is none */
	while (n == (ssize_t)max && n > 0 && now.p[n - 1] != '\n')
		n--, max--;
	if (memchr(now.p, '\0', (size_t)n))
		return false; /* no text */
	buf_fill(&now, (size_t)n);
	if (buf_len(b) == buf_len(&now) &&
	    memcmp(buf_data(b), buf_data(&now), buf_len(b)) == 0)
		return false;
	old = *b;
	*b = now;
	now = old;
	return true;
}

static bool look(struct keeper *k)
{
	bool a =
		look_at(&k->setup->resolv, WITHIN_RESOLV_MAX, &k->files.resolv);
	bool b = look_at(&k->setup->hosts, WITHIN_HOSTS_MAX, &k->files.hosts);

	return a || b;
}

/* --- doors --- */

static void door_free(struct deferred *d)
{
	free(container_of(d, struct kept_door, gone));
}

/* It ends when its link does. */
static void door_close(struct kept_door *d)
{
	if (d->io.fd < 0)
		return;
	io_close(&d->k->loop, &d->io);
	outbox_clear(&d->out);
	auto_close(&d->state_fd);
	list_del(&d->node);
	d->k->n_doors--;
	loop_defer(&d->k->loop, &d->gone, door_free);
}

static void door_tell(struct kept_door *d, const struct within_msg *m, int fd)
{
	struct buf b = { 0 };
	int r;

	/* At once: what a growing buffer leaves behind is not wiped. */
	buf_room(&b, within_size(m));
	within_put(&b, m);
	r = outbox_send(&d->out, buf_data(&b), buf_len(&b), &fd, fd >= 0);
	sodium_memzero(b.p, b.cap);
	buf_done(&b);
	if (r < 0) {
		log_err("door '%s' does not listen: %s", d->name, strerror(-r));
		door_close(d);
	}
}

static void tell_keys(struct kept_door *d, const char *project)
{
	struct within_msg m = { .op = WITHIN_KEYS, .name = project };
	/* A door of others opens nothing that is sealed. */
	const bool own = *d->name != '\0';
	unsigned char pair[2 * PAIR_KEY];
	struct keys keys;
	struct err e = { 0 };

	if (own && strcmp(d->name, project) != 0) {
		log_err("door '%s' asks for the keys of %s", d->name, project);
		door_close(d);
		return;
	}
	if (keys_get(&d->k->vault, project, &keys, &e) < 0) {
		log_err("%s", e.msg);
		m.one = e.msg;
		door_tell(d, &m, -1);
		return;
	}
	memcpy(pair, keys.public, PAIR_KEY);
	memcpy(pair + PAIR_KEY, keys.private, PAIR_KEY);
	m.one = buf_str(&keys.cert);
	m.two = buf_str(&keys.key);
	m.bytes = pair;
	m.n_bytes = own ? 2 * PAIR_KEY : PAIR_KEY;
	door_tell(d, &m, -1);
	sodium_memzero(pair, sizeof(pair));
	keys_done(&keys);
}

static bool take_from(struct kept_door *d, const char *label, const char *id)
{
	char path[NAME_CAP + 8 + ID_CAP + 1];

	snprintf(path, sizeof(path), "%.*s/%s", NAME_CAP + 7, label, id);
	return renameat(d->k->setup->state_fd, path, d->state_fd, id) == 0;
}

/*
 * A project that gets a door of its own, or has none any more, takes along what
 * its sandboxes have used so far. Ids are known to nobody else.
 */
static void move_here(struct kept_door *d, const char *id)
{
	char shared[NAME_CAP + 8];
	AUTO_DIR DIR *dir = NULL;
	struct dirent *x;
	int fd;

	door_label("", shared);
	if (*d->name) {
		(void)take_from(d, shared, id);
		return;
	}
	fd = openat(d->k->setup->state_fd, ".",
		    O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		auto_close(&fd);
		return;
	}
	while ((x = readdir(dir)))
		if (*x->d_name != '.' && strcmp(x->d_name, shared) != 0 &&
		    take_from(d, x->d_name, id))
			return;
}

/* A door that was taken over must not fill the disk. */
static int create_state(struct kept_door *d, const char *id)
{
	uint64_t max = 2 * d->k->setup->conf.max_sandboxes + STATES_MORE;
	int fd;

	move_here(d, id);
	if (d->n_states >= max) {
		errno = EDQUOT;
		return -1;
	}
	fd = openat(d->state_fd, id, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	if (fd >= 0)
		d->n_states++;
	return fd;
}

/* With all of its bytes: a page without a place on the disk is a SIGBUS. */
static int open_state(struct kept_door *d, const char *id, struct err *e)
{
	AUTO_CLOSE int fd =
		openat(d->state_fd, id, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		fd = create_state(d, id);
	if (fd < 0)
		return err_sys(e, "open the state of %s", id);
	if (fallocate(fd, 0, 0, sizeof(struct box_state)) < 0 &&
	    (errno != EOPNOTSUPP ||
	     ftruncate(fd, sizeof(struct box_state)) < 0))
		return err_sys(e, "make room for the state of %s", id);
	return take_fd(&fd);
}

static void tell_state(struct kept_door *d, const char *id)
{
	struct within_msg m = { .op = WITHIN_STATE, .name = id };
	struct err e = { 0 };
	AUTO_CLOSE int fd = open_state(d, id, &e);

	if (fd < 0)
		log_err("%s", e.msg);
	door_tell(d, &m, fd);
}

static void drop_state(struct kept_door *d, const char *id)
{
	if (unlinkat(d->state_fd, id, 0) == 0)
		d->n_states -= d->n_states > 0;
	else if (errno != ENOENT)
		log_err("remove the state of %s: %s", id, strerror(errno));
}

static int door_request(struct kept_door *d, const struct within_msg *m)
{
	switch (m->op) {
	case WITHIN_KEYS:
		tell_keys(d, m->name);
		return 0;
	case WITHIN_STATE:
		tell_state(d, m->name);
		return 0;
	case WITHIN_DROP:
		drop_state(d, m->name);
		return 0;
	case WITHIN_DOOR:
	case WITHIN_KEPT:
	case WITHIN_CONN:
	case WITHIN_RESOLV:
	case WITHIN_OPS:
		break;
	}
	return -EBADMSG;
}

/* One message; false when there is none, or no door any more. */
static bool door_read(struct kept_door *d)
{
	char raw[REQUEST_MAX];
	struct within_msg m;
	int fds[FD_PASS_MAX], i, r;
	ssize_t n = recv_msg_fds(d->io.fd, raw, sizeof(raw), fds);

	if (n == -EAGAIN)
		return false;
	r = n <= 0 ? -EPIPE : within_get(raw, (size_t)n, &m);
	for (i = 0; i < FD_PASS_MAX; i++)
		auto_close(&fds[i]);
	if (r == 0)
		r = door_request(d, &m);
	if (r < 0) {
		if (r != -EPIPE)
			log_err("door '%s' says what is no request, ending it",
				d->name);
		door_close(d);
	}
	return d->io.fd >= 0;
}

static void on_door(struct io *io, uint32_t events)
{
	struct kept_door *d = container_of(io, struct kept_door, io);

	if ((events & EPOLLOUT) && outbox_flush(&d->out) < 0) {
		door_close(d);
		return;
	}
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		while (door_read(d))
			;
}

/* Calls `fn` for each state that is there, until it says no. */
static void each_state(struct kept_door *d,
		       bool (*fn)(struct kept_door *d, const char *id))
{
	int fd = openat(d->state_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_DIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *x;

	if (!dir) {
		auto_close(&fd);
		return;
	}
	while ((x = readdir(dir)))
		if (id_valid(x->d_name) && !fn(d, x->d_name))
			return;
}

static bool count_one(struct kept_door *d, const char *id)
{
	(void)id;
	d->n_states++;
	return true;
}

static bool tell_one(struct kept_door *d, const char *id)
{
	struct within_msg m = { .op = WITHIN_KEPT, .name = id };

	door_tell(d, &m, -1);
	return d->io.fd >= 0 && d->out.n < KEPT_TOLD_MAX;
}

/*
 * For the first of its connections: a sandbox that ended while nobody was here
 * has left a file. Some at a time; the next door tells of more.
 */
static void door_tell_kept(struct kept_door *d)
{
	if (!d->told && d->io.fd >= 0)
		each_state(d, tell_one);
	d->told = true;
}

static void door_resolv(struct kept_door *d)
{
	struct name_files *f = &d->k->files;
	struct within_msg m = { .op = WITHIN_RESOLV };

	m.one = buf_str(&f->resolv);
	m.two = buf_str(&f->hosts);
	door_tell(d, &m, -1);
}

/* Without a door nobody asks. */
static void on_look(struct timer *t)
{
	struct keeper *k = container_of(t, struct keeper, look);
	struct list *n, *next;

	if (k->n_doors == 0)
		return;
	timer_set(&k->loop, t, FILES_LOOK_MS, on_look);
	if (look(k))
		list_each (n, next, &k->doors)
			door_resolv(container_of(n, struct kept_door, node));
}

static void watch_files(struct keeper *k)
{
	if (k->look.slot != 0)
		return;
	look(k);
	timer_set(&k->loop, &k->look, FILES_LOOK_MS, on_look);
}

static int open_dir(int parent_fd, const char *name)
{
	if (mkdirat(parent_fd, name, 0700) < 0 && errno != EEXIST)
		return -1;
	return openat(parent_fd, name,
		      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Its files, and the order to the starter. */
static int door_order(struct kept_door *d, struct err *e)
{
	struct keeper *k = d->k;
	struct within_msg m = { .op = WITHIN_DOOR, .name = d->name };
	AUTO_CLOSE int spool_fd = -1, theirs = -1;
	AUTO(buf_done) struct buf b = { 0 };
	char label[NAME_CAP + 8];
	int pair[2], r;

	door_label(d->name, label);
	d->state_fd = open_dir(k->setup->state_fd, label);
	spool_fd = openat(k->setup->spool_fd, label,
			  O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (d->state_fd < 0 || spool_fd < 0)
		return err_sys(e, "open the files of door '%s'", d->name);
	each_state(d, count_one);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
		       0, pair) < 0)
		return err_sys(e, "make a link");
	theirs = pair[1];
	d->io.fd = pair[0];
	r = io_add(&k->loop, &d->io, pair[0], EPOLLIN, on_door);
	within_put(&b, &m);
	if (r == 0)
		r = outbox_send(&k->to_starter, buf_data(&b), buf_len(&b),
				(int[]){ theirs, spool_fd }, 2);
	return r < 0 ? err_set(e, -r, "start door '%s': %s", d->name,
			       strerror(-r))
		     : 0;
}

static struct kept_door *door_find(struct keeper *k, const char *name)
{
	struct list *n, *next;

	list_each (n, next, &k->doors) {
		struct kept_door *d = container_of(n, struct kept_door, node);

		if (strcmp(d->name, name) == 0)
			return d;
	}
	return NULL;
}

static struct kept_door *door_get(struct keeper *k, const char *name,
				  struct err *e)
{
	struct kept_door *d = door_find(k, name);

	if (d)
		return d;
	if (k->n_doors >= DOORS_MAX) {
		err_set(e, ENOSPC, "there are %d doors already", DOORS_MAX);
		return NULL;
	}
	d = xcalloc(1, sizeof(*d));
	d->k = k;
	d->state_fd = d->io.fd = -1;
	outbox_init(&d->out, &k->loop, &d->io);
	memcpy(d->name, name, strlen(name) + 1);
	list_add(&k->doors, &d->node);
	k->n_doors++;
	if (door_order(d, e) < 0) {
		if (d->io.fd < 0) { /* what door_close() asks for */
			list_del(&d->node);
			k->n_doors--;
			auto_close(&d->state_fd);
			free(d);
		} else {
			door_close(d);
		}
		return NULL;
	}
	watch_files(k);
	door_resolv(d);
	return d->io.fd >= 0 ? d : NULL;
}

/* --- the api's hellos --- */

static void greeting_free(struct deferred *d)
{
	free(container_of(d, struct greeting, gone));
}

static void greeting_close(struct greeting *g)
{
	if (g->io.fd < 0)
		return;
	io_close(&g->k->loop, &g->io);
	timer_del(&g->k->loop, &g->timer);
	list_del(&g->node);
	g->k->n_hellos--;
	loop_defer(&g->k->loop, &g->gone, greeting_free);
}

static void on_late(struct timer *t)
{
	log_warn("a connection that says nothing, closing it");
	greeting_close(container_of(t, struct greeting, timer));
}

static int greet(struct greeting *g)
{
	char raw[NAME_CAP + 64];
	struct within_msg conn = { .op = WITHIN_CONN };
	int fds[FD_PASS_MAX], i;
	struct gate_msg m;
	struct kept_door *d;
	struct err e = { 0 };
	ssize_t n = recv_msg_fds(g->io.fd, raw, sizeof(raw), fds);

	if (n == -EAGAIN)
		return 0;
	for (i = 0; i < FD_PASS_MAX; i++)
		auto_close(&fds[i]);
	if (n == 0)
		return -EPIPE;
	if (n < 0 || gate_msg_get(raw, (size_t)n, &m) < 0 ||
	    m.kind != GATE_HELLO) {
		log_warn("a connection without a hello of version %d, "
			 "closing it",
			 GATE_VERSION);
		return -EBADMSG;
	}
	d = door_get(g->k, m.door, &e);
	if (!d) {
		log_err("%s", e.msg);
		return -EAGAIN;
	}
	door_tell(d, &conn, g->io.fd);
	door_tell_kept(d);
	return -EPIPE; /* it is the door's now */
}

static void on_greeting(struct io *io, uint32_t events)
{
	struct greeting *g = container_of(io, struct greeting, io);

	(void)events;
	if (greet(g) < 0)
		greeting_close(g);
}

static bool is_api(const struct keeper *k, int fd)
{
	struct ucred cred;
	socklen_t n = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) == 0 &&
	       cred.uid == k->setup->api_uid;
}

static void on_accept(struct io *io, uint32_t events)
{
	struct keeper *k = container_of(io, struct keeper, listen);
	int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct greeting *g;

	(void)events;
	if (fd < 0)
		return;
	if (k->n_hellos >= HELLOS_MAX || !is_api(k, fd)) {
		log_warn("connection refused");
		close(fd);
		return;
	}
	g = xcalloc(1, sizeof(*g));
	g->k = k;
	list_add(&k->hellos, &g->node);
	k->n_hellos++;
	timer_set(&k->loop, &g->timer, HELLO_WAIT_MS, on_late);
	if (io_add(&k->loop, &g->io, fd, EPOLLIN, on_greeting) < 0)
		greeting_close(g);
}

/* --- start and end --- */

static void on_signal(struct io *io, uint32_t events)
{
	(void)events;
	container_of(io, struct keeper, signals)->loop.stop = true;
}

/* It says nothing; when it ends, so do we. */
static void on_starter(struct io *io, uint32_t events)
{
	struct keeper *k = container_of(io, struct keeper, starter);

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR) ||
	    outbox_flush(&k->to_starter) < 0)
		k->loop.stop = true;
}

static int catch_signals(struct keeper *k)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	return io_add(&k->loop, &k->signals, fd, EPOLLIN, on_signal);
}

static int serve(struct keeper *k, int starter_fd, struct err *e)
{
	int r = loop_init(&k->loop);

	list_init(&k->doors);
	list_init(&k->hellos);
	outbox_init(&k->to_starter, &k->loop, &k->starter);
	if (r == 0)
		r = catch_signals(k);
	if (r == 0)
		r = fd_set_nonblock(starter_fd, true);
	if (r == 0)
		r = io_add(&k->loop, &k->starter, starter_fd, EPOLLIN,
			   on_starter);
	if (r == 0)
		r = io_add(&k->loop, &k->listen, k->setup->listen_fd, EPOLLIN,
			   on_accept);
	if (r < 0)
		return err_set(e, -r, "event loop: %s", strerror(-r));
	return 0;
}

static int lock_in(struct keeper *k, struct setup *s, struct err *e)
{
	const char *command = s->conf.vault_key_command;

	if (*command && vault_run_command(&k->vault, command, e) < 0)
		return -e->code;
	if (confine_keeper(s, e) < 0)
		return -e->code;
	return *command ? 0 : vault_read_key(&k->vault, e);
}

static void stop(struct keeper *k)
{
	struct list *n, *next;

	list_each (n, next, &k->doors)
		door_close(container_of(n, struct kept_door, node));
	list_each (n, next, &k->hellos)
		greeting_close(container_of(n, struct greeting, node));
	outbox_clear(&k->to_starter);
	io_close(&k->loop, &k->starter);
	io_close(&k->loop, &k->listen);
	io_close(&k->loop, &k->signals);
	timer_del(&k->loop, &k->look);
	loop_done(&k->loop);
	buf_done(&k->files.resolv);
	buf_done(&k->files.hosts);
	vault_close(&k->vault);
}

int keeper_run(struct setup *s, int starter_fd)
{
	static struct keeper k;
	struct err e = { 0 };
	int r;

	k.setup = s;
	k.vault.dir_fd = s->vault_fd;
	/* It may be swapped where it cannot be locked. */
	(void)sodium_mlock(k.vault.key, sizeof(k.vault.key));
	if (lock_in(&k, s, &e) < 0 || serve(&k, starter_fd, &e) < 0)
		die("%s", e.msg);
	log_info("ready");
	r = loop_run(&k.loop);
	stop(&k);
	return r < 0;
}
