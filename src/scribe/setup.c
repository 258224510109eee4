/*
 * The start as root: the log's directory, which belongs to the role's user,
 * and the socket, which that user could not make.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/owned.h"
#include "base/privs.h"
#include "base/product.h"
#include "base/spaces.h"
#include "role/root.h"
#include "scribe/scribe.h"

static int top_dir(const char *path, struct err *e)
{
	int fd;

	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return err_sys(e, "create %s", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open %s", path) : fd;
}

/* `dir_fd`/scribe.sock, for this group. */
static int make_socket(int dir_fd, gid_t gid, struct err *e)
{
	AUTO_CLOSE int fd =
		unix_listen_at(dir_fd, "scribe.sock", SOCK_SEQPACKET, 0660);

	if (fd < 0)
		return err_set(e, -fd, "listen on scribe.sock: %s",
			       strerror(-fd));
	if (fchownat(dir_fd, "scribe.sock", 0, gid, 0) < 0)
		return err_sys(e, "set the owner of scribe.sock");
	return take_fd(&fd);
}

/*
 * run_dir/roles is as the warden makes it, run_dir/roles/log as the gate's
 * keeper does: whoever comes first.
 */
static int make_sockets(struct scribe *s, gid_t gate_gid, struct err *e)
{
	AUTO_CLOSE int run_fd = top_dir(s->conf.run_dir, e), roles_fd = -1,
		       log_fd = -1;
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
	s->api.fd = make_socket(roles_fd, g->gr_gid, e);
	if (s->api.fd < 0)
		return s->api.fd;
	log_fd = owned_dir_at(roles_fd, "log", 0, gate_gid, 0750, e);
	if (log_fd < 0)
		return log_fd;
	s->gate.fd = make_socket(log_fd, gate_gid, e);
	return s->gate.fd < 0 ? err_wrap(e, "for the gate") : 0;
}

int scribe_set_up(struct scribe *s, struct err *e)
{
	AUTO_CLOSE int state_fd = -1, log_fd = -1, apart_fd = -1;
	uid_t uid;
	gid_t gid, api_gid, gate_gid;

	if (geteuid() != 0)
		return err_set(e, EPERM,
			       "needs root; it is started by " PRODUCT "d");
	if (privs_find_user(s->conf.user, "user", &s->api_uid, &api_gid, e) <
		    0 ||
	    privs_find_user(s->conf.gate_user, "gate_user", &s->gate_uid,
			    &gate_gid, e) < 0 ||
	    privs_find_user(s->conf.log_user, "log_user", &uid, &gid, e) < 0)
		return -e->code;
	umask(022);
	state_fd = top_dir(s->conf.state_dir, e);
	if (state_fd < 0)
		return state_fd;
	log_fd = owned_new_dir_at(state_fd, "audit", uid, gid, 0750, e);
	if (log_fd < 0)
		return err_wrap(e, "%s", s->conf.state_dir);
	apart_fd = root_apart(log_fd, e);
	if (apart_fd < 0)
		return apart_fd;
	s->dir_fd = openat(apart_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir_fd < 0)
		return err_sys(e, "open the log's directory");
	return make_sockets(s, gate_gid, e);
}

int scribe_drop_privileges(const struct scribe *s, struct err *e)
{
	struct rlimit files;
	uid_t uid;
	gid_t gid;

	if (privs_find_user(s->conf.log_user, "log_user", &uid, &gid, e) < 0)
		return -e->code;
	/* Whoever starts us may have set a lower one: fewer writers fit. */
	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return err_sys(e, "read limits");
	if (files.rlim_max > FILES_MAX)
		files.rlim_max = FILES_MAX;
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files) < 0)
		return err_sys(e, "set limits");
	umask(027);
	/* All that it has is the log's directory and its sockets. */
	if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC) < 0)
		return err_spaces(e, errno,
				  CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC,
				  "leave the host's namespaces");
	if (root_enter(NULL, 0, e) < 0)
		return -e->code;
	return privs_drop(uid, gid, NULL, 0, e);
}
