/*
 * Requests. One table says what each needs and who handles it; every field of
 * a request is checked here, before any handler sees it, as if an attacker had
 * sent it. Peers other than the api's user and root are turned away.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "warden/warden.h"

enum { ANSWERS_BYTES = 8 << 20 };

static void conn_free(struct deferred *d)
{
	free(container_of(d, struct conn, gone));
}

static void conn_close(struct conn *c)
{
	if (c->dead)
		return;
	c->dead = true;
	io_close(&c->w->loop, &c->io);
	list_del(&c->node);
	c->w->n_conns--;
	imports_orphan(c->w, c);
	views_orphan(c->w, c);
	fetches_orphan(c->w, c);
	pauses_orphan(c->w, c);
	if (c->refs == 0)
		loop_defer(&c->w->loop, &c->gone, conn_free);
}

static void conn_unref(struct conn *c)
{
	if (--c->refs == 0 && c->dead)
		loop_defer(&c->w->loop, &c->gone, conn_free);
}

static void send_rep(struct conn *c, const struct warden_rep *rep,
		     const int *fds, int n_fds)
{
	ssize_t n;

	if (c->dead)
		return;
	n = send_msg_fds(c->io.fd, rep, sizeof(*rep), fds, n_fds);
	if (n < 0) {
		/* A peer that does not read its answers has lost its mind. */
		log_warn("api does not take answers (%s), closing",
			 strerror((int)-n));
		conn_close(c);
	}
}

void answer_rep(struct waiter *wt, struct warden_rep *rep, const int *fds,
		int n_fds)
{
	rep->version = WARDEN_VERSION;
	rep->op = wt->op;
	rep->seq = wt->seq;
	if (!wt->told)
		send_rep(wt->conn, rep, fds, n_fds);
	conn_unref(wt->conn);
	free(wt);
}

void answer_early(struct waiter *wt)
{
	struct warden_rep rep = { .version = WARDEN_VERSION,
				  .op = wt->op,
				  .seq = wt->seq };

	send_rep(wt->conn, &rep, NULL, 0);
	wt->told = true;
}

void answer(struct waiter *wt, const struct err *e)
{
	struct warden_rep rep = { .err = *e };

	answer_rep(wt, &rep, NULL, 0);
}

void notice_ended(struct warden *w, const struct last_use *last,
		  const struct err *why)
{
	struct warden_rep rep = { .version = WARDEN_VERSION,
				  .op = WARDEN_ENDED,
				  .err = *why,
				  .last = *last };
	struct list *pos, *tmp;

	list_each (pos, tmp, &w->conns)
		send_rep(container_of(pos, struct conn, node), &rep, NULL, 0);
}

static void do_launch(struct warden *w, struct warden_req *q, struct waiter *wt)
{
	const struct launch_spec *s = &q->launch;
	struct err e = { 0 };

	if (box_find(w, s->id))
		err_set(&e, EEXIST, "sandbox %s exists", s->id);
	else if (w->n_boxes - w->n_hidden >= w->conf.max_sandboxes)
		err_set(&e, EAGAIN,
			"%u sandboxes, which is the most this host may have "
			"(max_sandboxes)",
			w->n_boxes - w->n_hidden);
	if (e.code)
		answer(wt, &e);
	else
		box_launch(w, s, wt);
}

static void do_kill(struct warden *w, struct warden_req *q, struct waiter *wt)
{
	struct box *b = box_find(w, q->id);
	struct err e = { 0 };

	if (!b) {
		err_set(&e, ESRCH, "no sandbox %s", q->id);
		answer(wt, &e);
		return;
	}
	box_end(b, wt);
}

static void do_give_up(struct warden *w, struct warden_req *q,
		       struct waiter *wt)
{
	struct box *b = box_find(w, q->id);
	struct err e = { 0 };

	if (b)
		box_end(b, NULL);
	else
		err_set(&e, ESRCH, "no sandbox %s", q->id);
	answer(wt, &e);
}

/* Answered when the last sandbox of this moment is gone. */
static void do_kill_all(struct warden *w, struct warden_req *q,
			struct waiter *wt)
{
	struct err none = { 0 };
	struct list *pos, *tmp;
	size_t i;

	(void)q;
	for (i = 0; i < BOX_BUCKETS; i++)
		list_each (pos, tmp, &w->boxes[i]) {
			struct box *b = container_of(pos, struct box, node);

			w->n_doomed += !b->doomed;
			b->doomed = b->asked = true;
			box_end(b, NULL);
		}
	if (w->n_doomed == 0)
		answer(wt, &none);
	else
		list_add(&w->kill_all, &wt->node);
}

static void do_stat(struct warden *w, struct warden_req *q, struct waiter *wt)
{
	struct box *b = box_find(w, q->id);
	struct warden_rep rep = { 0 };
	struct err e = { 0 };
	uint64_t disk = 0;

	if (!b) {
		err_set(&rep.err, ESRCH, "no sandbox %s", q->id);
	} else {
		cgroup_use(&w->cg, b->slot, &rep.use);
		if (store_volume_usage(&w->store, q->id, &disk, &e) == 0)
			rep.use.disk_bytes = disk;
	}
	answer_rep(wt, &rep, NULL, 0);
}

static void do_image_import(struct warden *w, struct warden_req *q,
			    struct waiter *wt)
{
	struct warden_rep rep = { 0 };
	int fds[2] = { -1, -1 };

	if (import_start(w, &q->import, wt->conn, fds, &rep.err) < 0)
		answer_rep(wt, &rep, NULL, 0);
	else
		answer_rep(wt, &rep, fds, 2);
	auto_close(&fds[0]);
	auto_close(&fds[1]);
}

static void do_fetch(struct warden *w, struct warden_req *q, struct waiter *wt)
{
	struct warden_rep rep = { 0 };
	int fds[2] = { -1, -1 };

	(void)q;
	if (fetch_start(w, wt->conn, fds, &rep.err) < 0)
		answer_rep(wt, &rep, NULL, 0);
	else
		answer_rep(wt, &rep, fds, 2);
	auto_close(&fds[0]);
	auto_close(&fds[1]);
}

static void do_image_commit(struct warden *w, struct warden_req *q,
			    struct waiter *wt)
{
	struct import *i = import_find(w, q->id);
	struct err e = { 0 };

	if (i) {
		import_commit(i, wt);
		return;
	}
	err_set(&e, ENOENT, "no import of image %s", q->id);
	answer(wt, &e);
}

static void do_image_remove(struct warden *w, struct warden_req *q,
			    struct waiter *wt)
{
	struct import *i = import_find(w, q->id);
	struct err e = { 0 };

	if (i) {
		import_remove(i, wt);
		return;
	}
	if (box_uses_image(w, q->id))
		err_set(&e, EBUSY, "a sandbox uses image %s", q->id);
	else if (view_uses_image(w, q->id) || import_uses_image(w, q->id) ||
		 vm_base_uses_image(w, q->id) || template_uses_image(w, q->id))
		err_set(&e, EBUSY, "a worker looks at image %s", q->id);
	else if (store_image_discard(&w->store, q->id, &e) == 0) {
		templates_drop_image(w, q->id);
		sweep_soon(w);
	}
	answer(wt, &e);
}

static void do_host(struct warden *w, struct warden_req *q, struct waiter *wt)
{
	struct warden_rep rep = { 0 };
	struct host_info *h = &rep.host;
	struct store_status st;

	(void)q;
	if (store_status(&w->store, &st, &rep.err) == 0) {
		h->flags = HOST_CLONE_INTO_CGROUP |
			   (w->cg.v2 ? HOST_CGROUP_V2 : HOST_CGROUP_HYBRID) |
			   (st.disk_limit ? HOST_DISK_LIMIT : 0) |
			   (st.simple_quota ? HOST_SIMPLE_QUOTA : 0) |
			   (st.read_only ? HOST_POOL_READ_ONLY : 0);
		h->sandboxes = w->n_boxes - w->n_hidden;
		h->max_sandboxes = (uint32_t)w->conf.max_sandboxes;
		h->pool_bytes = st.bytes;
		h->pool_free_bytes = st.free_bytes;
		memcpy(h->pool_driver, st.driver, sizeof(h->pool_driver));
		memcpy(h->cgroup, w->cg.path, sizeof(h->cgroup));
		vms_tell(w, h);
	}
	answer_rep(wt, &rep, NULL, 0);
}

static void do_connect(struct warden *w, struct warden_req *q,
		       struct waiter *wt)
{
	struct box *b = box_find(w, q->connect.id);
	struct err e = { 0 };

	if (b) {
		box_connect(b, &q->connect, wt);
		return;
	}
	err_set(&e, ESRCH, "no sandbox %s", q->connect.id);
	answer(wt, &e);
}

static void do_door(struct warden *w, struct warden_req *q, struct waiter *wt)
{
	struct box *b = box_find(w, q->door.id);
	struct err e = { 0 };

	if (b) {
		box_door(b, q->door.flags, wt);
		return;
	}
	err_set(&e, ESRCH, "no sandbox %s", q->door.id);
	answer(wt, &e);
}

static void do_resize(struct warden *w, struct warden_req *q, struct waiter *wt)
{
	box_resize(w, &q->resize, wt);
}

static void do_snapshot(struct warden *w, struct warden_req *q,
			struct waiter *wt)
{
	struct box *b = box_find(w, q->snapshot.id);
	struct err e = { 0 };

	if (b) {
		box_snapshot(b, &q->snapshot, wt);
		return;
	}
	err_set(&e, ESRCH, "no sandbox %s", q->snapshot.id);
	answer(wt, &e);
}

static void do_snapshot_remove(struct warden *w, struct warden_req *q,
			       struct waiter *wt)
{
	snapshot_remove(w, q->id, wt);
}

static void do_view(struct warden *w, struct warden_req *q, struct waiter *wt)
{
	struct warden_rep rep = { 0 };
	int fds[2] = { -1, -1 };
	int r = view_start(w, &q->view, wt->conn, fds, &rep.err);

	answer_rep(wt, &rep, fds, r < 0 ? 0 : 2);
	auto_close(&fds[0]);
	auto_close(&fds[1]);
}

static void do_pause(struct warden *w, struct warden_req *q, struct waiter *wt)
{
	struct box *b = box_find(w, q->pause.id);
	struct err e = { 0 };

	if (b) {
		box_pause(b, q->op == WARDEN_PAUSE, q->pause.flags & PAUSE_USER,
			  wt);
		return;
	}
	err_set(&e, ESRCH, "no sandbox %s", q->pause.id);
	answer(wt, &e);
}

static void do_volume_new(struct warden *w, struct warden_req *q,
			  struct waiter *wt)
{
	volume_new(w, &q->volume, wt);
}

static void do_volume_remove(struct warden *w, struct warden_req *q,
			     struct waiter *wt)
{
	volume_remove(w, q->id, wt);
}

static void do_pool(struct warden *w, struct warden_req *q, struct waiter *wt)
{
	const struct pool_spec *want = &q->pool;
	struct warden_rep rep = { 0 };
	struct pool_spec *is = &rep.pool;
	int r = store_identity_read(&w->store, is->id, &is->generation,
				    &rep.err);

	if (r == 0 && *want->id && *is->id && strcmp(is->id, want->id) != 0)
		r = err_set(&rep.err, EEXIST, "the pool has the id %s", is->id);
	if (r == 0 && *want->id) {
		r = store_identity_write(&w->store, want->id, want->generation,
					 want->flags & POOL_SYNC, &rep.err);
		*is = *want;
	} else if (r == 0 && store_has_contents(&w->store)) {
		is->flags = POOL_HAS_CONTENTS;
	}
	answer_rep(wt, &rep, NULL, 0);
}

static void do_hello(struct warden *w, struct warden_req *q, struct waiter *wt)
{
	struct err none = { 0 };

	(void)w;
	(void)q;
	wt->conn->hello = true;
	answer(wt, &none);
}

enum need {
	NEED_NOTHING,
	NEED_ID,
	NEED_ID_OR_EMPTY,
	NEED_SPEC,
	NEED_PORT,
	NEED_LIMITS,
	NEED_SNAPSHOT,
	NEED_SIDES,
	NEED_IMPORT,
	NEED_PAUSE,
	NEED_VOLUME,
	NEED_DOOR,
	NEED_POOL,
};

static const struct {
	enum need need;
	void (*fn)(struct warden *w, struct warden_req *q, struct waiter *wt);
} table[WARDEN_OPS] = {
	[WARDEN_HELLO] = { NEED_NOTHING, do_hello },
	[WARDEN_LAUNCH] = { NEED_SPEC, do_launch },
	[WARDEN_KILL] = { NEED_ID, do_kill },
	[WARDEN_GIVE_UP] = { NEED_ID, do_give_up },
	[WARDEN_KILL_ALL] = { NEED_NOTHING, do_kill_all },
	[WARDEN_NEXT] = { NEED_ID_OR_EMPTY, list_boxes },
	[WARDEN_STAT] = { NEED_ID, do_stat },
	[WARDEN_IMAGE_IMPORT] = { NEED_IMPORT, do_image_import },
	[WARDEN_IMAGE_COMMIT] = { NEED_ID, do_image_commit },
	[WARDEN_IMAGE_REMOVE] = { NEED_ID, do_image_remove },
	[WARDEN_IMAGE_NEXT] = { NEED_ID_OR_EMPTY, list_images },
	[WARDEN_HOST] = { NEED_NOTHING, do_host },
	[WARDEN_CONNECT] = { NEED_PORT, do_connect },
	[WARDEN_DOOR] = { NEED_DOOR, do_door },
	[WARDEN_FETCH] = { NEED_NOTHING, do_fetch },
	[WARDEN_RESIZE] = { NEED_LIMITS, do_resize },
	[WARDEN_SNAPSHOT] = { NEED_SNAPSHOT, do_snapshot },
	[WARDEN_SNAPSHOT_REMOVE] = { NEED_ID, do_snapshot_remove },
	[WARDEN_SNAPSHOT_NEXT] = { NEED_ID_OR_EMPTY, list_snapshots },
	[WARDEN_VIEW] = { NEED_SIDES, do_view },
	[WARDEN_PAUSE] = { NEED_PAUSE, do_pause },
	[WARDEN_RESUME] = { NEED_PAUSE, do_pause },
	[WARDEN_VOLUME_NEW] = { NEED_VOLUME, do_volume_new },
	[WARDEN_VOLUME_REMOVE] = { NEED_ID, do_volume_remove },
	[WARDEN_VOLUME_NEXT] = { NEED_ID_OR_EMPTY, list_volumes },
	[WARDEN_POOL] = { NEED_POOL, do_pool },
};

/* NUL-terminated within its array, and of the right form. */
static bool text_ok(const char *s, size_t cap, bool (*valid)(const char *))
{
	return memchr(s, '\0', cap) && valid(s);
}

static bool limits_ok(uint64_t pids, uint64_t cpus_milli, uint64_t mem_bytes)
{
	return pids >= 8 && pids <= 65536 && cpus_milli >= 50 &&
	       cpus_milli <= 1000000 && mem_bytes >= 16ULL << 20 &&
	       mem_bytes <= 1ULL << 46;
}

static bool disk_ok(uint64_t bytes)
{
	return bytes >= 16ULL << 20 && bytes <= 1ULL << 50;
}

static bool id_or_empty(const char *id)
{
	return *id == '\0' || id_valid(id);
}

/* What the launch puts there itself would cover it. */
static bool covered(const char *path)
{
	static const char *const ours[] = { "/dev", "/proc", "/sys" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(ours); i++) {
		size_t n = strlen(ours[i]);

		if (strncmp(path, ours[i], n) == 0 &&
		    (path[n] == '\0' || path[n] == '/'))
			return true;
	}
	return false;
}

/* Absolute, and made of plain names: nothing that leads upwards. */
static bool path_ok(const char *s)
{
	const char *p = s;

	if (covered(s))
		return false;

	while (*p == '/') {
		size_t n = strcspn(++p, "/");

		if (n == 0 || (n == 1 && p[0] == '.') ||
		    (n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		p += n;
	}
	return p != s && *p == '\0';
}

/* The rows that are used come first. */
static bool volumes_ok(const struct launch_volume v[LAUNCH_VOLUMES_MAX])
{
	bool used = true;
	size_t i;

	for (i = 0; i < LAUNCH_VOLUMES_MAX; i++) {
		if (!text_ok(v[i].id, sizeof(v[i].id), id_or_empty))
			return false;
		if (v[i].id[0] == '\0') {
			used = false;
			continue;
		}
		if (!used || v[i].read_only > 1 ||
		    !text_ok(v[i].path, sizeof(v[i].path), path_ok))
			return false;
	}
	return true;
}

/* One that looks has a disk to look at, and leaves none. */
static bool look_ok(const struct launch_spec *s)
{
	return s->flags == (LAUNCH_LOOK | LAUNCH_MICROVM) && s->from[0];
}

static bool spec_ok(const struct launch_spec *s)
{
	return text_ok(s->id, sizeof(s->id), id_valid) &&
	       text_ok(s->image, sizeof(s->image), id_valid) &&
	       text_ok(s->from, sizeof(s->from), id_or_empty) &&
	       text_ok(s->hostname, sizeof(s->hostname), name_valid) &&
	       (s->flags & ~(uint32_t)LAUNCH_FLAGS_ALL) == 0 &&
	       (!(s->flags & LAUNCH_LOOK) || look_ok(s)) &&
	       volumes_ok(s->volumes) &&
	       limits_ok(s->pids, s->cpus_milli, s->mem_bytes) &&
	       (s->nofile == 0 || s->nofile >= 16) && s->nofile <= 65536 &&
	       disk_ok(s->disk_bytes);
}

static bool connect_ok(const struct connect_spec *s)
{
	return text_ok(s->id, sizeof(s->id), id_valid) && s->port != 0 &&
	       (s->flags & ~CONNECT_FLAGS_ALL) == 0;
}

static bool snapshot_ok(const struct snapshot_spec *s)
{
	return text_ok(s->id, sizeof(s->id), id_valid) &&
	       text_ok(s->snap, sizeof(s->snap), id_valid) &&
	       (s->flags & ~(uint32_t)SNAPSHOT_FLAGS_ALL) == 0 &&
	       s->copies <= SNAPSHOT_COPIES_MAX;
}

static bool volume_ok(const struct volume_spec *s)
{
	return text_ok(s->id, sizeof(s->id), id_valid) && s->zero == 0 &&
	       disk_ok(s->bytes);
}

static bool pool_ok(const struct pool_spec *s)
{
	size_t n = strnlen(s->id, sizeof(s->id));

	return (n == 0 ||
		(n == POOL_ID_LEN && strspn(s->id, "0123456789abcdef") == n)) &&
	       s->zero[0] == 0 && s->zero[1] == 0 && s->zero[2] == 0 &&
	       (s->flags & ~(uint32_t)POOL_SYNC) == 0;
}

static int check(const struct conn *c, const struct warden_req *q,
		 struct err *e)
{
	if (q->version != WARDEN_VERSION)
		return err_set(e, EPROTO,
			       "version %u of the protocol, %d is needed: "
			       "restart the daemon",
			       q->version, WARDEN_VERSION);
	if (q->op >= WARDEN_OPS || !table[q->op].fn || q->zero != 0 ||
	    (!c->hello && q->op != WARDEN_HELLO))
		return err_set(e, EBADMSG, "not a request");
	switch (table[q->op].need) {
	case NEED_NOTHING:
		return 0;
	case NEED_ID_OR_EMPTY:
		if (q->id[0] == '\0')
			return 0;
		/* fall through */
	case NEED_ID:
		if (text_ok(q->id, sizeof(q->id), id_valid))
			return 0;
		return err_set(e, EINVAL, "not an id");
	case NEED_SPEC:
		if (spec_ok(&q->launch))
			return 0;
		return err_set(e, EINVAL, "not a valid spec");
	case NEED_PORT:
		if (connect_ok(&q->connect))
			return 0;
		return err_set(e, EINVAL, "not a port of a sandbox");
	case NEED_LIMITS:
		if (text_ok(q->resize.id, sizeof(q->resize.id), id_valid) &&
		    limits_ok(q->resize.pids, q->resize.cpus_milli,
			      q->resize.mem_bytes))
			return 0;
		return err_set(e, EINVAL, "not limits of a sandbox");
	case NEED_SNAPSHOT:
		if (snapshot_ok(&q->snapshot))
			return 0;
		return err_set(e, EINVAL, "not a snapshot of a sandbox");
	case NEED_IMPORT:
		if (import_spec_ok(&q->import))
			return 0;
		return err_set(e, EINVAL, "not an image to import");
	case NEED_SIDES:
		if (view_spec_ok(&q->view))
			return 0;
		return err_set(e, EINVAL, "not states to look at");
	case NEED_PAUSE:
		if (text_ok(q->pause.id, sizeof(q->pause.id), id_valid) &&
		    (q->pause.flags & ~(uint32_t)PAUSE_FLAGS_ALL) == 0)
			return 0;
		return err_set(e, EINVAL, "not a pause of a sandbox");
	case NEED_VOLUME:
		if (volume_ok(&q->volume))
			return 0;
		return err_set(e, EINVAL, "not a volume");
	case NEED_DOOR:
		if (text_ok(q->door.id, sizeof(q->door.id), id_valid) &&
		    (q->door.flags & ~(uint32_t)DOOR_FLAGS_ALL) == 0)
			return 0;
		return err_set(e, EINVAL, "not a door of a sandbox");
	case NEED_POOL:
		if (pool_ok(&q->pool))
			return 0;
		return err_set(e, EINVAL, "not an identity of a pool");
	}
	return err_set(e, EBADMSG, "not a request");
}

static void conn_request(struct conn *c, struct warden_req *q)
{
	struct waiter *wt = xcalloc(1, sizeof(*wt));
	struct err e = { 0 };
	int r = check(c, q, &e);

	list_init(&wt->node);
	wt->conn = c;
	wt->seq = q->seq;
	wt->op = q->op;
	c->refs++;
	if (r == 0) {
		if (q->op != WARDEN_LAUNCH)
			boxes_hear(c->w);
		table[q->op].fn(c->w, q, wt);
		return;
	}
	answer(wt, &e);
	if (r == -EPROTO || r == -EBADMSG)
		conn_close(c);
}

static void conn_readable(struct io *io, uint32_t events)
{
	struct conn *c = container_of(io, struct conn, io);
	struct warden_req q;
	int fds[FD_PASS_MAX], i;
	ssize_t n = recv_msg_fds(io->fd, &q, sizeof(q), fds);

	(void)events;
	for (i = 0; i < FD_PASS_MAX; i++)
		auto_close(&fds[i]); /* no request carries one */
	if (n == -EAGAIN)
		return;
	if (n != (ssize_t)sizeof(q)) {
		conn_close(c);
		return;
	}
	conn_request(c, &q);
}

static bool peer_allowed(const struct warden *w, int fd)
{
	struct ucred cred;
	socklen_t n = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) == 0 &&
	       (cred.uid == 0 || cred.uid == w->api_uid);
}

static void accepted(struct io *io, uint32_t events)
{
	struct warden *w = container_of(io, struct warden, listen_io);
	int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	const int room = ANSWERS_BYTES;
	struct conn *c;

	(void)events;
	if (fd < 0)
		return;
	if (w->n_conns >= CONNS_MAX || !peer_allowed(w, fd)) {
		log_warn("connection refused");
		close(fd);
		return;
	}
	/* The default holds some 200: an api that writes to a slow disk for a
	 * moment is not out of its mind. Without it, that is all. */
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room));
	c = xcalloc(1, sizeof(*c));
	c->w = w;
	list_add(&w->conns, &c->node);
	w->n_conns++;
	if (io_add(&w->loop, &c->io, fd, EPOLLIN, conn_readable) < 0)
		conn_close(c);
}

int serve_listen(struct warden *w, struct err *e)
{
	AUTO_CLOSE int run_fd = open(w->conf.run_dir, O_PATH | O_CLOEXEC);
	AUTO_CLOSE int dir_fd = -1;
	int fd, r;

	if (run_fd < 0)
		return err_sys(e, "open %s", w->conf.run_dir);
	dir_fd = openat(run_fd, "roles", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return err_sys(e, "open %s/roles", w->conf.run_dir);
	fd = unix_listen_at(dir_fd, "warden.sock", SOCK_SEQPACKET, 0660);
	if (fd < 0)
		return err_set(e, -fd, "listen on warden.sock: %s",
			       strerror(-fd));
	if (fchownat(dir_fd, "warden.sock", 0, w->api_gid, 0) < 0)
		return err_sys(e, "chown warden.sock");
	r = io_add(&w->loop, &w->listen_io, fd, EPOLLIN, accepted);
	return r < 0 ? err_set(e, -r, "watch warden.sock") : 0;
}
