/*
 * Sandboxes, from the request to the last trace.
 *
 *	LAUNCHING --agent runs--> RUNNING --killed, or PID 1 ended--> ENDING
 *	    `------------- a step failed, or killed ------------------^
 *
 * ENDING waits for PID 1 (the kernel ends everything else in its pid
 * namespace before), then for the groups to be empty, then gives back all that
 * was the sandbox's: groups, volume, run directory, slot.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "sandbox/walls.h"
#include "warden/vm.h"
#include "warden/warden.h"

enum { RETRY_MS = 2, SHORT_MS = 200, LATER_MS = 3 };

/* Ids are random letters; the first two are as good as any hash. */
static struct list *bucket(struct warden *w, const char *id)
{
	return &w->boxes[((unsigned)id[1] * 32 + (unsigned)id[2]) %
			 BOX_BUCKETS];
}

struct box *box_find(struct warden *w, const char *id)
{
	struct list *head = bucket(w, id), *pos, *tmp;

	list_each (pos, tmp, head) {
		struct box *b = container_of(pos, struct box, node);

		if (strcmp(b->spec.id, id) == 0)
			return b;
	}
	return NULL;
}

bool box_uses_image(const struct warden *w, const char *image)
{
	struct list *pos, *tmp;
	size_t i;

	for (i = 0; i < BOX_BUCKETS; i++)
		list_each (pos, tmp, &w->boxes[i])
			if (strcmp(container_of(pos, struct box, node)
					   ->spec.image,
				   image) == 0)
				return true;
	return false;
}

bool box_is_vm(const struct box *b)
{
	return b->spec.flags & LAUNCH_MICROVM;
}

struct box *box_new(struct warden *w, const struct launch_spec *s)
{
	struct box *b = xcalloc(1, sizeof(*b));

	b->w = w;
	b->spec = *s;
	b->pid_io.fd = b->talk_io.fd = b->helper_io.fd = -1;
	b->listen_fd = b->freezer_fd = -1;
	memset(b->door, -1, sizeof(b->door)); /* each is -1 */
	list_init(&b->turns);
	list_init(&b->reclaim_node);
	list_init(&b->later_node);
	b->part = PART_NONE;
	list_init(&b->waiters);
	list_add(bucket(w, s->id), &b->node);
	w->n_boxes++;
	return b;
}

static void box_free(struct deferred *d)
{
	free(container_of(d, struct box, gone));
}

int box_remove_run_dir(struct warden *w, const char *id)
{
	static const char *const files[] = {
		"agent.sock",       "agent.sock.new",
		"record",           "control.sock",
		"control.sock.new", "door.sock",
		"door.sock.new",    "qmp.sock",
		"qmp.sock.new",     "console",
		"relay.sock",       "relay.sock.new",
		"template",         "shape",
	};
	AUTO_CLOSE int fd = openat(
		w->box_fd, id, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	size_t i;

	for (i = 0; fd >= 0 && i < ARRAY_LEN(files); i++)
		unlinkat(fd, files[i], 0);
	if (fd < 0 && errno != ENOENT)
		return -errno;
	return unlinkat(w->box_fd, id, AT_REMOVEDIR) < 0 && errno != ENOENT
		       ? -errno
		       : 0;
}

static void answer_all(struct box *b)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, &b->waiters) {
		struct waiter *wt = container_of(pos, struct waiter, node);
		struct warden_rep rep = { .last = b->last };

		list_del(&wt->node);
		if (wt->op == WARDEN_LAUNCH) {
			rep.err = b->failure;
			if (rep.err.code == 0)
				err_set(&rep.err, ECANCELED,
					"sandbox %s was removed", b->spec.id);
		}
		answer_rep(wt, &rep, NULL, 0);
	}
}

static void answer_kill_all(struct warden *w)
{
	struct err none = { 0 };

	while (!list_empty(&w->kill_all)) {
		struct waiter *wt =
			container_of(w->kill_all.next, struct waiter, node);

		list_del(&wt->node);
		answer(wt, &none);
	}
}

/* Of one that shall outlive its end, and whose end nobody asked for. */
static bool is_kept(const struct box *b)
{
	return (b->spec.flags & LAUNCH_PERSIST) && b->ran && !b->asked;
}

/* A host that is short of something is not so for ever. */
static bool is_short(int code)
{
	return code == EMFILE || code == ENFILE || code == ENOMEM;
}

static int keep_disk(struct box *b, struct err *e)
{
	if (vm_state_drop(b->w, b->spec.id, e) < 0)
		return -e->code;
	return store_volume_keep(&b->w->store, b->spec.id, e);
}

static int give_disk_back(struct box *b)
{
	struct store *s = &b->w->store;
	struct err e = { 0 };
	bool kept = is_kept(b);
	int r = kept ? keep_disk(b, &e)
		     : store_volume_discard(s, b->spec.id, &e);

	if (r < 0 && is_short(e.code))
		return r;
	if (r < 0 && (kept || e.code != ENOENT))
		log_err("sandbox=%s %s, left for the next start", b->spec.id,
			e.msg);
	b->disk_gone = true;
	sweep_soon(b->w);
	return 0;
}

/* Everything inside has ended: what was its own. Or -errno: not now. */
static int give_back(struct box *b)
{
	int r = b->disk_gone ? 0 : give_disk_back(b);

	if (r < 0)
		return r;
	r = box_remove_run_dir(b->w, b->spec.id);
	if (r == 0 || is_short(-r))
		return r;
	log_warn("sandbox=%s run directory stays: %s", b->spec.id,
		 strerror(-r));
	return 0;
}

static void box_clean(struct box *b)
{
	struct warden *w = b->w;

	slot_free(w, b->slot);
	list_del(&b->node);
	w->n_boxes--;
	answer_all(b);
	if (b->doomed && --w->n_doomed == 0)
		answer_kill_all(w);
	if (b->makes) {
		w->n_hidden--;
		template_boot_ended(b->makes, &b->failure);
	} else if (!b->asked || b->doomed) {
		notice_ended(w, &b->last, &b->failure);
	}
	timer_del(&w->loop, &b->retry);
	timer_del(&w->loop, &b->thaw);
	loop_defer(&w->loop, &b->gone, box_free);
}

static void try_clean(struct timer *t)
{
	struct box *b = container_of(t, struct box, retry);
	uint64_t cpu_us = cgroup_cpu_us(&b->w->cg, b->slot);
	int r = cgroup_remove(&b->w->cg, b->slot);

	/* Some of its groups may be gone since the last try. */
	if (b->last.use.cpu_us < cpu_us)
		b->last.use.cpu_us = cpu_us;
	/* The last task may still be on its way out of the group. */
	if (r < 0 || b->helper_io.fd >= 0)
		timer_set(&b->w->loop, t, RETRY_MS, try_clean);
	else if (give_back(b) < 0)
		timer_set(&b->w->loop, t, SHORT_MS, try_clean);
	else
		box_clean(b);
}

static void launch_told(struct io *io, uint32_t events);

static void pid_ended(struct io *io, uint32_t events)
{
	struct box *b = container_of(io, struct box, pid_io);
	siginfo_t si = { 0 };

	(void)events;
	if (b->talk_io.fd >= 0) /* its last words, unheard yet */
		launch_told(&b->talk_io, 0);
	/* Fails for an adopted one, whose parent is someone else: fine. */
	waitid(P_PIDFD, (id_t)io->fd, &si, WEXITED);
	io_close(&b->w->loop, io);
	b->pid_gone = true;
	if (b->state == BOX_RUNNING)
		log_info("sandbox=%s ended by itself", b->spec.id);
	if (b->state == BOX_LAUNCHING && b->failure.code == 0 && !b->asked)
		err_set(&b->failure, EIO, "sandbox %s ended while it started",
			b->spec.id);
	box_end(b, NULL);
}

/* Takes the descriptor, also on failure. */
int box_watch(struct box *b, int pid_fd)
{
	int r = io_add(&b->w->loop, &b->pid_io, pid_fd, EPOLLIN, pid_ended);

	if (r < 0) {
		close(pid_fd);
		b->pid_io.fd = -1;
	}
	return r;
}

static void kill_processes(struct box *b)
{
	struct err e = { 0 };

	if (b->pid_io.fd >= 0)
		syscall(SYS_pidfd_send_signal, b->pid_io.fd, SIGKILL, NULL, 0);
	if (cgroup_kill(&b->w->cg, b->slot, &e) < 0)
		log_err("sandbox=%s %s", b->spec.id, e.msg);
}

static void helper_ended(struct io *io, uint32_t events)
{
	struct box *b = container_of(io, struct box, helper_io);
	siginfo_t si = { 0 };

	(void)events;
	waitid(P_PIDFD, (id_t)io->fd, &si, WEXITED);
	io_close(&b->w->loop, io);
	turns_go_on(b);
}

/* Nobody waits for its end but what would freeze the sandbox's groups, which it
 * is in. */
static void let_helper_go(struct box *b)
{
	int fd = part_release(&b->part);

	if (fd < 0)
		return;
	b->helper_io.fd = fd;
	if (io_add(&b->w->loop, &b->helper_io, fd, EPOLLIN, helper_ended) < 0)
		helper_ended(&b->helper_io, 0);
}

static void let_part_go(struct box *b)
{
	launch_tidy();
	let_helper_go(b);
	part_close(&b->part);
}

void box_end(struct box *b, struct waiter *wt)
{
	if (wt) {
		b->asked = true;
		list_add(&b->waiters, &wt->node);
	}
	if (b->state != BOX_ENDING) {
		memcpy(b->last.id, b->spec.id, ID_CAP);
		b->last.use.mem_bytes = cgroup_mem_bytes(&b->w->cg, b->slot);
		b->state = BOX_ENDING;
		io_close(&b->w->loop, &b->talk_io);
		timer_del(&b->w->loop, &b->later);
		list_del(&b->later_node);
		let_part_go(b);
		auto_close(&b->listen_fd);
		kill_processes(b);
		relay_end(b);
		door_close(b);
		turns_drop(b);
		auto_close(&b->freezer_fd);
		reclaim_stop(b);
		vm_end(b);
	}
	/* With no process to wait for, or after it: the groups come next. */
	if ((b->pid_gone || b->pid_io.fd < 0) && b->retry.slot == 0 && !b->disk)
		try_clean(&b->retry);
}

/* Told in the answer, or as a notice when that has been sent already. */
static void launch_failed(struct box *b, const struct err *e)
{
	const struct waiter *wt =
		container_of(b->waiters.next, struct waiter, node);

	b->failure = *e;
	b->asked = list_empty(&b->waiters) || !wt->told;
	box_end(b, NULL);
}

static void launch_done(struct box *b)
{
	struct warden *w = b->w;
	struct list *pos, *tmp;
	struct err e = { 0 };
	bool unheard = false, ending;
	int r = process_start_time(w->launch.proc_fd, b->pid, &b->start_time,
				   &ending);

	/* Killed before exec, it says nothing either: pid_ended() comes. */
	if (r == -ESRCH || ending)
		return;
	b->state = BOX_RUNNING;
	apart_watch(w);
	b->ran = true;
	err_clear(&b->failure);
	if (r < 0)
		err_set(&e, -r, "ask for the process of sandbox %s: %s",
			b->spec.id, strerror(-r));
	if (e.code || record_write(b, &e) < 0) {
		launch_failed(b, &e);
		return;
	}
	list_each (pos, tmp, &b->waiters) {
		struct waiter *wt = container_of(pos, struct waiter, node);
		struct conn *c = wt->conn; /* freed at the end of the turn */

		list_del(&wt->node);
		answer_rep(wt, &(struct warden_rep){ .launch = b->spec }, NULL,
			   0);
		unheard |= c->dead;
	}
	let_part_go(b);
	stock_refill_later(w);
	/* The api that asked is gone, and the next one may have its list. */
	if (unheard) {
		b->asked = true;
		box_end(b, NULL);
	}
}

/* The agent of a VM runs, or all of a template is in the pool. */
void box_guest_ready(struct box *b, const struct err *e)
{
	if (b->state != BOX_LAUNCHING)
		return;
	if (e->code == 0 && b->makes) {
		template_saved(b->makes);
		b->asked = true;
		box_end(b, NULL);
		return;
	}
	if (e->code == 0) {
		launch_done(b);
		return;
	}
	log_err("sandbox=%s launch: %s", b->spec.id, e->msg);
	launch_failed(b, e);
}

static void launch_ran(struct box *b)
{
	struct err e = { 0 };

	if (!box_is_vm(b))
		launch_done(b);
	else if (vm_guest_start(b, &e) < 0)
		launch_failed(b, &e);
}

/* The child has hung up: because it failed, or because its program runs. */
static void launch_told(struct io *io, uint32_t events)
{
	struct box *b = container_of(io, struct box, talk_io);
	struct err e = { 0 };
	int word;

	(void)events;
	do
		word = launch_hear(io->fd, &e);
	while (word == LAUNCH_NET);
	timer_del(&b->w->loop, &b->later);
	list_del(&b->later_node);
	io_close(&b->w->loop, io);
	if (word == LAUNCH_RAN) {
		launch_ran(b);
		return;
	}
	log_err("sandbox=%s launch: %s", b->spec.id, e.msg);
	launch_failed(b, &e);
}

static void listen_to_child(struct timer *t)
{
	struct box *b = container_of(t, struct box, later);
	struct io *io = &b->talk_io;
	struct err e = { 0 };
	int r = io_add(&b->w->loop, io, io->fd, 0, launch_told);

	if (r == 0)
		return;
	err_set(&e, -r, "watch the launch: %s", strerror(-r));
	launch_failed(b, &e);
}

/* Nobody waits for it, and the processor that it needs now may be the one that
 * we would take to hear that it runs. */
static void listen_later(struct box *b)
{
	if (b->talk_io.fd < 0)
		return;
	io_del(&b->w->loop, &b->talk_io);
	timer_set(&b->w->loop, &b->later, LATER_MS, listen_to_child);
	list_add(&b->w->unheard, &b->later_node);
}

/* Who has heard of one that runs finds it running. */
void boxes_hear(struct warden *w)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, &w->unheard) {
		struct box *b = container_of(pos, struct box, later_node);
		struct pollfd hung_up = { .fd = b->talk_io.fd };

		if (poll(&hung_up, 1, 0) > 0)
			launch_told(&b->talk_io, 0);
	}
}

/* The socket that the agent will listen on; connections wait in it already */
static int make_run_dir(struct box *b, struct err *e)
{
	struct warden *w = b->w;
	AUTO_CLOSE int dir_fd = -1;
	int fd;

	if (mkdirat(w->box_fd, b->spec.id, 0750) < 0)
		return err_sys(e, "make run directory");
	dir_fd = openat(w->box_fd, b->spec.id,
			O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0 || fchown(dir_fd, 0, w->api_gid) < 0)
		return err_sys(e, "open run directory");
	fd = unix_listen_at(dir_fd, "agent.sock", SOCK_STREAM, 0660);
	if (fd < 0)
		return err_set(e, -fd, "agent socket: %s", strerror(-fd));
	if (fchownat(dir_fd, "agent.sock", 0, w->api_gid, 0) < 0) {
		close(fd);
		return err_sys(e, "agent socket");
	}
	return fd;
}

/* The volume, unless it is being made, the run directory with the socket, the
 * record. */
static int prepare(struct box *b, struct err *e)
{
	struct warden *w = b->w;
	const struct launch_spec *s = &b->spec;
	int fd;

	fd = store_image_open(&w->store, s->image, e);
	if (fd < 0)
		return fd;
	close(fd);
	if (volumes_check(w, s, e) < 0)
		return -e->code;
	if (!s->from[0]) {
		const struct disk_spec disk = disk_of(s);

		fd = store_volume_new(&w->store, s->id, disk.bytes,
				      disk.allow_unlimited, e);
		if (fd < 0)
			return fd;
		close(fd);
	}
	b->listen_fd = make_run_dir(b, e);
	if (b->listen_fd < 0)
		return b->listen_fd;
	return record_write(b, e);
}

int box_begun(struct box *b, pid_t pid, int pid_fd, int talk_fd, struct err *e)
{
	int r;

	b->pid = pid;
	r = io_add(&b->w->loop, &b->talk_io, talk_fd, 0, launch_told);
	if (r == 0)
		r = box_watch(b, pid_fd);
	else
		close(pid_fd);
	return r < 0 ? err_set(e, -r, "watch the launch: %s", strerror(-r)) : 0;
}

/* Marks the disk to be kept when the sandbox ends, and adds its description. */
static int mark_disk(struct box *b, struct err *e)
{
	char about[STORE_ABOUT_CAP];

	about_text(&b->spec, false, about);
	if (store_volume_mark(&b->w->store, b->spec.id, e) < 0)
		return -e->code;
	return store_volume_describe(&b->w->store, b->spec.id, about, e);
}

static int begin(struct box *b, struct launched *l, struct err *e)
{
	int r = launch_begin(&b->w->launch, &b->spec, &b->part, l, e);

	if (r < 0)
		return r;
	return box_begun(b, l->pid, l->pid_fd, l->talk_fd, e);
}

/* All that the child waits for is there. */
static int go(struct box *b, struct err *e)
{
	const struct launched l = { .talk_fd = b->talk_io.fd };
	int r = 0;

	if (b->spec.flags & LAUNCH_PERSIST)
		r = mark_disk(b, e);
	if (r == 0)
		r = box_is_vm(b) ? vm_go(b, e)
				 : launch_go(&l, &b->spec, &b->part,
					     b->listen_fd, e);
	auto_close(&b->listen_fd);
	if (r < 0)
		return r;
	if ((b->spec.flags & LAUNCH_EARLY) && r != LAUNCH_FAILED) {
		listen_later(b);
		answer_early(
			container_of(b->waiters.next, struct waiter, node));
	}
	let_helper_go(b);
	return 0;
}

/* Of all that a part may still lack: the groups, then its namespaces. */
static int finish_part(struct box *b, const struct cgroup_limits *limits,
		       struct err *e)
{
	struct warden *w = b->w;

	/* The groups of v2 are whole when the part is. */
	if (!w->cg.v2 && cgroup_limit(&w->cg, b->slot, limits, e) < 0)
		return -e->code;
	if (b->part.unfinished &&
	    part_finish(&w->cg, w->launch.proc_fd, &b->part, e) < 0)
		return -e->code;
	if (w->cg.v2 && cgroup_limit(&w->cg, b->slot, limits, e) < 0)
		return -e->code;
	return 0;
}

/*
 * The child is started as early as its group can take it: it has most to do,
 * and works while groups and volume are made. So does the helper of a part that
 * is not finished, but on v2, where the child has to wait for it. A VM has no
 * child before all is there: it builds nothing.
 */
static int start_parts(struct box *b, struct err *e)
{
	struct warden *w = b->w;
	const bool vm = box_is_vm(b);
	const struct cgroup_limits limits =
		vm ? vm_limits(&b->spec)
		   : (struct cgroup_limits){ b->spec.mem_bytes,
					     b->spec.cpus_milli, b->spec.pids };
	struct part *p = &b->part;
	struct launched l = { .pid = 0, .pid_fd = -1, .talk_fd = -1 };

	if (!vm && p->group_fd >= 0 && begin(b, &l, e) < 0)
		return -e->code;
	if (p->unfinished && part_start(&w->cg, p, e) < 0)
		return -e->code;
	if (p->unfinished && l.pid > 0 && launch_groups(&l, e) < 0)
		return -e->code;
	if (w->cg.v2 && finish_part(b, &limits, e) < 0)
		return -e->code;
	if (!vm && l.pid == 0 && begin(b, &l, e) < 0)
		return -e->code;
	if (prepare(b, e) < 0)
		return -e->code;
	if (!w->cg.v2 && finish_part(b, &limits, e) < 0)
		return -e->code;
	return 0;
}

/* A disk that is a copy takes longest of all and comes first. */
static int start(struct box *b, struct err *e)
{
	const struct err *missing = &b->w->vm_missing;

	if (box_is_vm(b) && missing->code)
		return err_set(e, missing->code, "%s", missing->msg);
	if (b->spec.from[0]) {
		/* Its child may wait long with what is attached now. */
		launch_tidy();
		if (disk_start(b, e) < 0)
			return -e->code;
	}
	if (box_is_vm(b) && vm_base_start(b, e) < 0)
		return -e->code;
	if (start_parts(b, e) < 0)
		return -e->code;
	return b->disk || b->basing ? 0 : go(b, e);
}

static void start_failed(struct box *b, const struct err *e)
{
	b->failure = *e;
	b->asked = true;
	box_end(b, NULL);
}

void box_disk_made(struct box *b, const struct err *result)
{
	struct err e = *result;

	if (b->state == BOX_ENDING)
		box_end(b, NULL); /* it was waited for */
	else if (e.code != 0 || (!b->basing && go(b, &e) < 0))
		start_failed(b, &e);
}

void box_base_made(struct box *b, const struct err *result)
{
	struct err e = *result;

	if (e.code != 0 || (!b->disk && go(b, &e) < 0))
		start_failed(b, &e);
}

static struct box *box_with(struct warden *w, const struct launch_spec *s,
			    const struct part *p)
{
	struct box *b = box_new(w, s);

	b->part = *p;
	b->slot = p->slot;
	return b;
}

void box_launch(struct warden *w, const struct launch_spec *s,
		struct waiter *wt)
{
	struct err e = { 0 };
	struct box *b;
	struct part p;

	if (part_take(w, s->flags & LAUNCH_MICROVM ? PART_SANDBOX : PART_NO_NET,
		      &p, &e) < 0) {
		answer(wt, &e);
		return;
	}
	b = box_with(w, s, &p);
	if (box_is_vm(b)) /* it is there when its guest is */
		b->spec.flags &= ~(uint32_t)LAUNCH_EARLY;
	if (box_is_vm(b) && w->vm.kvm)
		b->spec.flags |= LAUNCH_KVM;
	list_add(&b->waiters, &wt->node);
	if (start(b, &e) < 0)
		start_failed(b, &e);
}

int box_launch_template(struct warden *w, const struct launch_spec *s,
			struct template *t, struct err *e)
{
	struct err failed = { 0 };
	struct box *b;
	struct part p;

	if (part_take(w, PART_SANDBOX, &p, e) < 0)
		return -e->code;
	b = box_with(w, s, &p);
	b->makes = t;
	w->n_hidden++;
	template_boots(t, b);
	if (start(b, &failed) < 0)
		start_failed(b, &failed);
	return 0;
}
