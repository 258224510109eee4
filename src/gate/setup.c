#include "gate/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/owned.h"
#include "base/privs.h"
#include "base/product.h"
#include "base/str.h"
#include "role/root.h"

enum { LOCK_WAIT_MS = 5000 };

/*
 * One gate at a time has the spools and counters. Doors of one that was killed
 * hold the lock until they are gone.
 */
static int take_lock(struct setup *s, int gate_fd, struct err *e)
{
	uint64_t until = clock_boot_ms() + LOCK_WAIT_MS;

	s->lock_fd = openat(gate_fd, "lock",
			    O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (s->lock_fd < 0)
		return err_sys(e, "open the lock");
	if (fchown(s->lock_fd, s->uid, s->gid) < 0)
		return err_sys(e, "set the owner of the lock");
	while (flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_sys(e, "take the lock");
		if (clock_boot_ms() > until)
			return err_set(e, EBUSY, "another gate still runs");
		poll(NULL, 0, 10);
	}
	return 0;
}

static int make_dirs(struct setup *s, struct err *e)
{
	AUTO_CLOSE int state_fd = owned_top(s->conf.state_dir, e), gate_fd = -1;
	const struct {
		const char *name;
		int *fd;
	} dirs[] = {
		{ "vault", &s->vault_fd },
		{ "spool", &s->spool_fd },
		{ "state", &s->state_fd },
	};
	size_t i;

	if (state_fd < 0)
		return state_fd;
	gate_fd = owned_dir_at(state_fd, "gate", s->uid, s->gid, 0700, e);
	if (gate_fd < 0)
		return err_wrap(e, "%s", s->conf.state_dir);
	if (take_lock(s, gate_fd, e) < 0)
		return err_wrap(e, "%s/gate", s->conf.state_dir);
	for (i = 0; i < ARRAY_LEN(dirs); i++) {
		AUTO_CLOSE int fd = owned_dir_at(gate_fd, dirs[i].name, s->uid,
						 s->gid, 0700, e);

		if (fd < 0)
			return err_wrap(e, "%s/gate", s->conf.state_dir);
		*dirs[i].fd = root_apart(fd, e);
		if (*dirs[i].fd < 0)
			return -e->code;
	}
	return 0;
}

static int make_socket(struct setup *s, int roles_fd, struct err *e)
{
	AUTO_CLOSE int fd =
		unix_listen_at(roles_fd, "gate.sock", SOCK_SEQPACKET, 0600);

	if (fd < 0)
		return err_set(e, -fd, "listen on gate.sock: %s",
			       strerror(-fd));
	if (fchownat(roles_fd, "gate.sock", s->api_uid, (gid_t)-1, 0) < 0)
		return err_sys(e, "set the owner of gate.sock");
	s->listen_fd = take_fd(&fd);
	return 0;
}

/* run_dir/roles is as the warden makes it, run_dir/roles/log as the scribe
 * does: whoever comes first. */
static int make_run_dirs(struct setup *s, struct err *e)
{
	AUTO_CLOSE int run_fd = owned_top(s->conf.run_dir, e), roles_fd = -1;
	AUTO_CLOSE int log_fd = -1;
	const struct group *g = getgrnam(s->conf.group);

	if (run_fd < 0)
		return run_fd;
	if (!g)
		return err_set(e, ENOENT,
			       "group '%s' does not exist: 'make install' "
			       "creates it",
			       s->conf.group);
	roles_fd = owned_dir_at(run_fd, "roles", 0, g->gr_gid, 0750, e);
	if (roles_fd < 0)
		return roles_fd;
	log_fd = owned_dir_at(roles_fd, "log", 0, s->gid, 0750, e);
	if (log_fd < 0)
		return log_fd;
	s->log_fd = root_apart(log_fd, e);
	if (s->log_fd < 0)
		return s->log_fd;
	return make_socket(s, roles_fd, e);
}

/*
 * Where a file really is: /etc/resolv.conf is often a link to one that some
 * program writes again and again, under a new name.
 */
static int watch(struct watched *w, const char *path, struct err *e)
{
	AUTO_FREE char *real = realpath(path, NULL);
	AUTO_CLOSE int fd = -1;
	char *slash;

	if (!real)
		return 0; /* a host without one does without it */
	slash = strrchr(real, '/');
	if (str_copy(w->name, sizeof(w->name), slash + 1) < 0)
		return err_set(e, ENAMETOOLONG, "%s", real);
	*slash = '\0';
	fd = open(real[0] ? real : "/",
		  O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_sys(e, "open %s", real);
	w->dir_fd = root_apart(fd, e);
	return w->dir_fd < 0 ? w->dir_fd : 0;
}

int setup_make(struct setup *s, struct err *e)
{
	gid_t api_gid;

	if (geteuid() != 0)
		return err_set(e, EPERM,
			       "needs root; it is started by " PRODUCT "d");
	if (privs_find_user(s->conf.user, "user", &s->api_uid, &api_gid, e) <
		    0 ||
	    privs_find_user(s->conf.gate_user, "gate_user", &s->uid, &s->gid,
			    e) < 0)
		return -e->code;
	if (s->uid == s->api_uid)
		return err_set(e, EINVAL,
			       "`gate_user` and `user` are the same: the keys "
			       "would be the api's");
	umask(022);
	if (make_dirs(s, e) < 0 || make_run_dirs(s, e) < 0 ||
	    watch(&s->resolv, "/etc/resolv.conf", e) < 0 ||
	    watch(&s->hosts, "/etc/hosts", e) < 0)
		return -e->code;
	umask(077);
	return 0;
}

void setup_forget_files(struct setup *s)
{
	auto_close(&s->listen_fd);
	auto_close(&s->vault_fd);
	auto_close(&s->spool_fd);
	auto_close(&s->state_fd);
	auto_close(&s->resolv.dir_fd);
	auto_close(&s->hosts.dir_fd);
}
