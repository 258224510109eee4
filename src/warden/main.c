/* Start-up of the warden: everything that may fail, fails here. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/last_error.h"
#include "base/log.h"
#include "base/product.h"
#include "sandbox/walls.h"
#include "warden/warden.h"

enum { LOCK_STEP_MS = 10, LOCK_LONG_MS = 5000 };

static int find_api_user(struct warden *w, struct err *e)
{
	struct passwd *pw = getpwnam(w->conf.user);
	struct group *gr = getgrnam(w->conf.group);

	if (!pw || !gr)
		return err_set(e, ENOENT,
			       "no user '%s' or group '%s'; 'make install' "
			       "makes them",
			       w->conf.user, w->conf.group);
	w->api_uid = pw->pw_uid;
	w->api_gid = gr->gr_gid;
	return 0;
}

/* run_dir/NAME, for the api's group to pass through. */
static int make_dir(const struct warden *w, const char *name, struct err *e)
{
	char path[CONF_PATH + 16];
	AUTO_CLOSE int fd = -1;

	snprintf(path, sizeof(path), "%s%s%s", w->conf.run_dir,
		 *name ? "/" : "", name);
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return err_sys(e, "create %s", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open %s", path);
	if (*name && (fchown(fd, 0, w->api_gid) < 0 || fchmod(fd, 0750) < 0))
		return err_sys(e, "set owner of %s", path);
	return take_fd(&fd);
}

static int make_dirs(struct warden *w, struct err *e)
{
	AUTO_CLOSE int run_fd = make_dir(w, "", e), roles_fd = -1;

	if (run_fd < 0)
		return run_fd;
	if (mkdir(w->conf.state_dir, 0755) < 0 && errno != EEXIST)
		return err_sys(e, "create %s", w->conf.state_dir);
	roles_fd = make_dir(w, "roles", e);
	if (roles_fd < 0)
		return roles_fd;
	w->box_fd = make_dir(w, "box", e);
	return w->box_fd < 0 ? w->box_fd : 0;
}

/*
 * One warden at a time, whatever became of the supervisor: the lock goes with
 * the last process that came from the other one and works for it.
 */
static int lock_boxes(const struct warden *w, struct err *e)
{
	unsigned tries = 0;

	for (; flock(w->box_fd, LOCK_EX | LOCK_NB) < 0; tries++) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_sys(e, "lock %s/box", w->conf.run_dir);
		if (tries == 0)
			log_warn("another warden still runs, waiting for its "
				 "end");
		/* An error, so that doctor and the api can show the reason. */
		if (tries == LOCK_LONG_MS / LOCK_STEP_MS)
			log_err("another warden, or a child of it, has held "
				"%s/box for %d s: end it",
				w->conf.run_dir, LOCK_LONG_MS / 1000);
		poll(NULL, 0, LOCK_STEP_MS);
	}
	return 0;
}

static void stopped(struct io *io, uint32_t events)
{
	struct warden *w = container_of(io, struct warden, signal_io);

	(void)events;
	w->loop.stop = true;
}

static int catch_signals(struct warden *w, struct err *e)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return err_sys(e, "signalfd");
	return io_add(&w->loop, &w->signal_io, fd, EPOLLIN, stopped) < 0
		       ? err_set(e, EIO, "watch signals")
		       : 0;
}

static int start(struct warden *w, struct err *e)
{
	size_t i;

	w->listen_io.fd = w->signal_io.fd = -1;
	list_init(&w->conns);
	list_init(&w->imports);
	list_init(&w->holds);
	list_init(&w->ready);
	list_init(&w->views);
	list_init(&w->fetches);
	list_init(&w->bases);
	list_init(&w->templates);
	list_init(&w->reclaims);
	list_init(&w->unheard);
	list_init(&w->endings);
	list_init(&w->kill_all);
	for (i = 0; i < BOX_BUCKETS; i++)
		list_init(&w->boxes[i]);
	if (loop_init(&w->loop) < 0)
		return err_sys(e, "event loop");
	if (slots_init(w, e) < 0 || find_api_user(w, e) < 0 ||
	    make_dirs(w, e) < 0 || lock_boxes(w, e) < 0 ||
	    catch_signals(w, e) < 0 || confine_open(w, e) < 0 ||
	    cgroup_host_open(&w->cg, &w->conf, e) < 0 ||
	    claim_groups(w, e) < 0 || store_open(&w->store, &w->conf, e) < 0)
		return -e->code;
	w->launch.cg = &w->cg;
	host_limits_raise();
	/* The socket is made while its path can still be named; the backlog
	 * holds whoever comes before we are ready. */
	if (serve_listen(w, e) < 0 || confine_enter(w, e) < 0)
		return -e->code;
	return adopt_all(w, e);
}

int main(int argc, char **argv)
{
	static struct warden w;
	struct err e = { 0 };

	log_init("warden", LOG_INFO);
	if (conf_from_args(&w.conf, argc, argv, &e) < 0)
		die("%s", e.msg);
	log_init("warden", conf_log_level(&w.conf));
	last_error_open(w.conf.run_dir, "warden");
	if (geteuid() != 0)
		die("needs root; it is started by " PRODUCT "d");
	umask(0022);
#ifdef WALLS_TEST
	if (walls_take_off(w.conf.wall_off, &e) < 0)
		die("%s", e.msg);
#endif
	if (start(&w, &e) < 0)
		die("%s", e.msg);
	last_error_clear();
	kvm_probe(&w);
	stock_refill_later(&w);
	log_info("ready sandboxes=%u", w.n_boxes);
	if (loop_run(&w.loop) < 0)
		die("event loop: %s", strerror(errno));
	apart_release(&w);
	stock_drop(&w);
	loop_done(&w.loop);
	free(w.slot_used);
	return 0;
}
