/*
 * Image imports: a worker in a throw-away user namespace unpacks a foreign
 * archive into a staged image. The warden touches no byte of it: it hands the
 * write end of the worker's input and the read end of its words to the api.
 *
 * The worker gets the host's mount namespace only to load its libraries; its
 * own first action is to leave it for an empty root (see worker/). It runs in
 * a group of its own and with ids of its own, like a sandbox.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "sandbox/container/clone.h"
#include "sandbox/mount.h"
#include "warden/warden.h"
#include "wire/worker.h"

/* The worker's descriptors; behind them, until exec, its program. */
enum { WORKER_FDS = WORKER_SHIM_FD + 1, EXEC_FD = WORKER_FDS, N_FDS };
enum { RETRY_MS = 5 };

static const struct cgroup_limits worker_limits = { .mem_bytes = 2ULL << 30,
						    .cpus_milli = 4000,
						    .pids = 16 };

struct import *import_find(struct warden *w, const char *id)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, &w->imports) {
		struct import *i = container_of(pos, struct import, node);

		if (strcmp(i->id, id) == 0)
			return i;
	}
	return NULL;
}

static int worker_ids(const struct part *p, struct err *e)
{
	if (setgroups(0, NULL) < 0 || setns(p->userns_fd, CLONE_NEWUSER) < 0)
		return err_sys(e, "enter user namespace");
	if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return err_sys(e, "become root inside");
	if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) <
	    0)
		return err_sys(e, "unshare");
	return 0;
}

static int worker_fds(int fds[N_FDS], struct err *e)
{
	int i;

	for (i = 0; i < N_FDS; i++) {
		fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 64);
		if (fds[i] < 0)
			return err_sys(e, "move descriptor");
	}
	for (i = 0; i < N_FDS; i++)
		if (dup3(fds[i], i, i == EXEC_FD ? O_CLOEXEC : 0) < 0)
			return err_sys(e, "move descriptor");
	return 0;
}

static void __attribute__((noreturn))
worker_child(struct warden *w, const struct part *p, int fds[N_FDS])
{
	const char *argv[] = { "worker", "unpack", NULL };
	const char *env[] = { NULL };
	struct err e = { 0 };
	sigset_t none;
	int r, status_fd = fds[1];

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	r = cgroup_join(&w->cg, p->slot, true);
	if (r < 0)
		err_set(&e, -r, "join cgroups: %s", strerror(-r));
	else if (setns(w->host_mnt_fd, CLONE_NEWNS) < 0)
		err_sys(&e, "enter host's mounts");
	else if (worker_ids(p, &e) == 0 && worker_fds(fds, &e) == 0) {
		status_fd = 1;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (close_range(N_FDS, ~0U, 0) < 0)
			err_sys(&e, "close descriptors");
		else {
			syscall(SYS_execveat, EXEC_FD, "", argv, env,
				AT_EMPTY_PATH);
			err_sys(&e, "execute the worker");
		}
	}
	dprintf(status_fd, "error %s\n", e.msg);
	_exit(127);
}

static void import_free(struct deferred *d)
{
	free(container_of(d, struct import, gone));
}

static void drop_orphan(struct import *i);

/* What waited for the worker, or for a commit, can go on. */
static void import_go_on(struct import *i)
{
	struct list waiting, *pos, *tmp;

	list_init(&waiting);
	list_each (pos, tmp, &i->waiters) {
		list_del(pos);
		list_add(&waiting, pos);
	}
	list_each (pos, tmp, &waiting) {
		struct waiter *wt = container_of(pos, struct waiter, node);

		list_del(&wt->node);
		if (wt->op == WARDEN_IMAGE_COMMIT)
			import_commit(i, wt);
		else
			import_remove(i, wt);
	}
	drop_orphan(i);
}

static void import_clean(struct timer *t)
{
	struct import *i = container_of(t, struct import, retry);
	struct err e = { 0 };

	if (cgroup_kill(&i->w->cg, i->slot, &e) < 0)
		log_warn("%s", e.msg);
	if (cgroup_remove(&i->w->cg, i->slot) < 0)
		timer_set(&i->w->loop, t, RETRY_MS, import_clean);
	else {
		slot_free(i->w, i->slot);
		i->ended = true;
		import_go_on(i);
	}
}

static void worker_ended(struct io *io, uint32_t events)
{
	struct import *i = container_of(io, struct import, pid_io);
	siginfo_t si = { 0 };

	(void)events;
	waitid(P_PIDFD, (id_t)io->fd, &si, WEXITED);
	io_close(&i->w->loop, io);
	i->ok = si.si_code == CLD_EXITED && si.si_status == 0;
	import_clean(&i->retry);
}

static void import_done(struct import *i)
{
	if (list_empty(&i->node))
		return; /* already: the node is in no list */
	list_del(&i->node);
	i->w->n_imports--;
	loop_defer(&i->w->loop, &i->gone, import_free);
}

static int commit_work(struct job *j, struct err *e)
{
	struct import *i = container_of(j, struct import, job);

	return store_image_commit(&j->w->store, i->id, e);
}

/* The first waiter is the one who asked for the commit. */
static void commit_done(struct job *j, const struct err *e)
{
	struct import *i = container_of(j, struct import, job);
	struct waiter *wt = container_of(i->waiters.next, struct waiter, node);

	list_del(&wt->node);
	i->committing = false;
	answer(wt, e);
	/* Unheard, it is nobody's, and the next api may have its list already:
	 * import_go_on() discards it. */
	if (e->code == 0 && i->owner)
		import_done(i);
	import_go_on(i);
}

void import_commit(struct import *i, struct waiter *wt)
{
	struct err e = { 0 };

	if (!i->ended || i->committing) {
		list_add(&i->waiters, &wt->node);
		return;
	}
	i->job = (struct job){ .w = i->w,
			       .work = commit_work,
			       .done = commit_done };
	if (list_empty(&i->node)) /* over; only this turn still has it */
		err_set(&e, ENOENT, "no import of image %s", i->id);
	else if (!i->ok)
		err_set(&e, EBADMSG, "image %s was not unpacked", i->id);
	else if (job_start(&i->job, &e) == 0) {
		i->committing = true;
		list_add(&i->waiters, &wt->node);
		return;
	}
	answer(wt, &e);
}

static void discard(struct import *i, struct err *e)
{
	if (store_image_discard(&i->w->store, i->id, e) == 0) {
		import_done(i);
		sweep_soon(i->w);
	}
}

static void stop_worker(struct import *i)
{
	if (i->pid_io.fd >= 0)
		syscall(SYS_pidfd_send_signal, i->pid_io.fd, SIGKILL, NULL, 0);
}

void import_remove(struct import *i, struct waiter *wt)
{
	struct err e = { 0 };

	if (!i->ended || i->committing) {
		stop_worker(i);
		list_add(&i->waiters, &wt->node);
		return;
	}
	discard(i, &e);
	answer(wt, &e);
}

/* Nobody will ask for the result any more. */
static void drop_orphan(struct import *i)
{
	struct err e = { 0 };

	if (i->owner || !i->ended || i->committing || list_empty(&i->node))
		return;
	discard(i, &e);
	if (e.code)
		log_warn("image=%s %s, left for the next start", i->id, e.msg);
}

void imports_orphan(struct warden *w, const struct conn *owner)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, &w->imports) {
		struct import *i = container_of(pos, struct import, node);

		if (i->owner != owner)
			continue;
		i->owner = NULL;
		stop_worker(i);
		drop_orphan(i);
	}
}

/* The staged directory, with the worker's ids mapped to plain ones. */
static int stage_mount(struct warden *w, const char *id, const struct part *p,
		       struct err *e)
{
	char path[64];
	int fd = store_image_stage(&w->store, id, e);

	if (fd < 0)
		return fd;
	close(fd);
	snprintf(path, sizeof(path), "/pool/" STORE_STAGE_TREE, id);
	return mount_clone(AT_FDCWD, path, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID,
			   p->userns_fd, e);
}

static int spawn_worker(struct warden *w, struct part *p, int root_fd,
			int out[2], struct err *e)
{
	int tar[2] = { -1, -1 }, words[2] = { -1, -1 }, pid_fd = -1;
	pid_t pid = -1;

	if (pipe2(tar, O_CLOEXEC) < 0 || pipe2(words, O_CLOEXEC) < 0)
		err_sys(e, "pipe");
	else {
		int fds[N_FDS] = { tar[0],  words[1],   2,
				   root_fd, w->sudo_fd, w->worker_fd };

		pid = clone_into(CLONE_NEWPID, p->group_fd, &pid_fd);
		if (pid == 0)
			worker_child(w, p, fds);
		if (pid < 0)
			err_set(e, -pid, "clone: %s", strerror(-pid));
	}
	auto_close(&tar[0]);
	auto_close(&words[1]);
	if (pid < 0) {
		auto_close(&tar[1]);
		auto_close(&words[0]);
		return -e->code;
	}
	out[0] = tar[1];
	out[1] = words[0];
	return pid_fd;
}

static int start_in_part(struct warden *w, struct import *i, struct part *p,
			 int out[2], struct err *e)
{
	AUTO_CLOSE int root_fd = -1;
	int pid_fd;

	if (part_start(&w->cg, p, e) < 0 ||
	    part_finish(&w->cg, w->launch.proc_fd, p, e) < 0 ||
	    cgroup_limit(&w->cg, p->slot, &worker_limits, e) < 0)
		return -e->code;
	root_fd = stage_mount(w, i->id, p, e);
	if (root_fd < 0)
		return root_fd;
	pid_fd = spawn_worker(w, p, root_fd, out, e);
	if (pid_fd < 0)
		return pid_fd;
	if (io_add(&w->loop, &i->pid_io, pid_fd, EPOLLIN, worker_ended) < 0) {
		close(pid_fd);
		return err_set(e, EIO, "watch the worker");
	}
	return 0;
}

int import_start(struct warden *w, const char *id, const struct conn *owner,
		 int fds[2], struct err *e)
{
	struct err none = { 0 };
	struct import *i;
	struct part p;
	int r;

	if (w->n_imports >= IMPORTS_MAX)
		return err_set(e, EAGAIN, "%d images are being imported",
			       IMPORTS_MAX);
	/* Whatever ends an import discards its id: it must be nobody else's. */
	r = store_image_open(&w->store, id, &none);
	if (r >= 0)
		close(r);
	if (r >= 0 || import_find(w, id))
		return err_set(e, EEXIST, "image %s exists", id);
	r = part_take(w, PART_WORKER, &p, e);
	if (r < 0)
		return r;
	i = xcalloc(1, sizeof(*i));
	i->w = w;
	i->slot = p.slot;
	i->owner = owner;
	i->pid_io.fd = -1;
	memcpy(i->id, id, ID_CAP);
	list_init(&i->waiters);
	r = start_in_part(w, i, &p, fds, e);
	part_close(&p);
	if (r < 0) {
		struct err ignored = { 0 };

		if (cgroup_kill(&w->cg, p.slot, &ignored) == 0 &&
		    cgroup_remove(&w->cg, p.slot) == 0)
			slot_free(w, p.slot);
		if (store_image_discard(&w->store, id, &ignored) == 0)
			sweep_soon(w);
		free(i);
		return r;
	}
	list_add(&w->imports, &i->node);
	w->n_imports++;
	return 0;
}
