/*
 * The start of the role, as root: directories and the socket that its user
 * may not make, and then no way back to root.
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

#include "api/api.h"
#include "base/auto.h"
#include "base/fd.h"
#include "base/guards.h"
#include "base/owned.h"
#include "base/privs.h"
#include "base/product.h"
#include "base/spaces.h"
#include "role/root.h"

static int find_group(const struct conf *c, gid_t *gid, struct err *e)
{
	const struct group *g = getgrnam(c->group);

	if (!g)
		return err_set(
			e, ENOENT,
			"group '%s' does not exist: 'make install' "
			"creates it, or set `group` in the configuration",
			c->group);
	*gid = g->gr_gid;
	return 0;
}

static int open_dir(const char *path, struct err *e)
{
	int fd;

	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return err_sys(e, "create %s", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open %s", path) : fd;
}

static int write_format(int dir_fd, struct err *e)
{
	AUTO_CLOSE int fd = openat(
		dir_fd, "FORMAT.new",
		O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	char text[16];
	int r;

	if (fd < 0)
		return err_sys(e, "create FORMAT");
	snprintf(text, sizeof(text), "%d\n", STATE_FORMAT);
	r = write_full(fd, text, strlen(text));
	if (r < 0)
		return err_set(e, -r, "write FORMAT: %s", strerror(-r));
	if (fsync(fd) < 0 ||
	    renameat(dir_fd, "FORMAT.new", dir_fd, "FORMAT") < 0 ||
	    fsync(dir_fd) < 0)
		return err_sys(e, "write FORMAT");
	return 0;
}

static int check_format(int dir_fd, const char *path, struct err *e)
{
	char text[32];
	uint64_t v = 0;
	ssize_t n = read_file_at(dir_fd, "FORMAT", text, sizeof(text));

	if (n == -ENOENT)
		return write_format(dir_fd, e);
	if (n < 0)
		return err_set(e, (int)-n, "read %s/FORMAT: %s", path,
			       strerror((int)-n));
	text[strcspn(text, "\n")] = '\0';
	if (parse_u64(text, UINT64_MAX, &v) < 0 || v == 0)
		return err_set(e, EINVAL, "%s/FORMAT is not a number", path);
	if (v > STATE_FORMAT)
		return err_set(e, ENOTSUP,
			       "%s has format %llu, this version knows up to "
			       "%d: install a newer " PRODUCT,
			       path, (unsigned long long)v, STATE_FORMAT);
	return 0;
}

/*
 * What our user may write to: nothing of the pool. Nobody else may, the users
 * of the api's group neither: the spool of the log is in the registry's.
 */
static int make_own_dir(int dir_fd, const char *name, uid_t uid, gid_t gid,
			struct err *e)
{
	AUTO_CLOSE int fd = -1;

	if (mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "create %s", name);
	fd = openat(dir_fd, name,
		    O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_sys(e, "open %s", name);
	if (fchown(fd, uid, gid) < 0 || fchmod(fd, 0700) < 0)
		return err_sys(e, "give %s to its user", name);
	return 0;
}

static int make_socket(struct api *a, gid_t gid, struct err *e)
{
	AUTO_CLOSE int dir_fd = open_dir(a->conf.run_dir, e);
	AUTO_CLOSE int fd = -1;

	if (dir_fd < 0)
		return dir_fd;
	/* Connectable when it has its group: the mode opens it last. */
	fd = unix_listen_at(dir_fd, "api.sock", SOCK_STREAM, 0600);
	if (fd < 0)
		return err_set(e, -fd, "listen on %s/api.sock: %s",
			       a->conf.run_dir, strerror(-fd));
	if (fchownat(dir_fd, "api.sock", 0, gid, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(dir_fd, "api.sock", GUARD(SOCKET) ? 0660 : 0666, 0) < 0)
		return err_sys(e, "set the owner of api.sock");
	a->listen_fd = take_fd(&fd);
	return 0;
}

int api_set_up(struct api *a, struct err *e)
{
	AUTO_CLOSE int state_fd = -1, log_fd = -1;
	uid_t uid = 0, log_uid = 0;
	gid_t gid = 0, log_gid = 0, users = 0;

	if (geteuid() != 0)
		return err_set(e, EPERM,
			       "needs root: start it with 'sudo " PRODUCT "d'");
	if (privs_find_user(a->conf.user, "user", &uid, &gid, e) < 0 ||
	    privs_find_user(a->conf.log_user, "log_user", &log_uid, &log_gid,
			    e) < 0 ||
	    find_group(&a->conf, &users, e) < 0)
		return -e->code;
	umask(022);
	state_fd = open_dir(a->conf.state_dir, e);
	if (state_fd < 0)
		return state_fd;
	if (check_format(state_fd, a->conf.state_dir, e) < 0)
		return -e->code;
	if (make_own_dir(state_fd, "registry", uid, gid, e) < 0 ||
	    make_own_dir(state_fd, "casts", uid, gid, e) < 0 ||
	    make_own_dir(state_fd, "drive", uid, gid, e) < 0 ||
	    make_own_dir(state_fd, "blobs", uid, gid, e) < 0)
		return err_wrap(e, "%s", a->conf.state_dir);
	/* The scribe's; whoever comes first makes it. */
	log_fd = owned_new_dir_at(state_fd, "audit", log_uid, log_gid, 0750, e);
	if (log_fd < 0)
		return err_wrap(e, "%s", a->conf.state_dir);
	if (tcp_set_up(a, e) < 0)
		return -e->code;
	return make_socket(a, users, e);
}

static int raise_files(struct err *e)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return err_sys(e, "read limits");
	files.rlim_cur = files.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &files) < 0 ? err_sys(e, "set limits")
						    : 0;
}

/*
 * All of the host that is left: our own directories, where the others listen,
 * the log to read, and what is asked of the kernel (admission.c, main.c). No
 * network: what we listen on was opened before, and abstract names of this
 * host's programs are not for us.
 */
static int leave_host(const struct api *a, struct err *e)
{
	static const struct {
		const char *name;
		bool writable;
	} own[] = { { "registry", true },
		    { "casts", true },
		    { "drive", true },
		    { "blobs", true },
		    { "audit", false } };
	char paths[ARRAY_LEN(own)][CONF_PATH + 16];
	struct root_part parts[ARRAY_LEN(own) + 4] = {
		{ .path = a->conf.run_dir, .fd = -1 },
		{ .path = a->conf.presets_dir, .fd = -1, .optional = true },
		{ .path = "/proc/meminfo", .fd = -1 },
		{ .path = "/proc/sys/kernel/random/boot_id", .fd = -1 },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(own); i++) {
		snprintf(paths[i], sizeof(paths[i]), "%s/%s", a->conf.state_dir,
			 own[i].name);
		parts[4 + i] = (struct root_part){
			.path = paths[i],
			.fd = -1,
			.writable = own[i].writable,
		};
	}
	if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC) < 0)
		return err_spaces(e, errno,
				  CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC,
				  "leave the host's namespaces");
	return root_enter(parts, ARRAY_LEN(parts), e);
}

int api_drop_privileges(const struct api *a, struct err *e)
{
	uid_t uid, log_uid;
	gid_t gid, log_gid;

	if (privs_find_user(a->conf.user, "user", &uid, &gid, e) < 0 ||
	    privs_find_user(a->conf.log_user, "log_user", &log_uid, &log_gid,
			    e) < 0 ||
	    raise_files(e) < 0)
		return -e->code;
	umask(077);
	if (leave_host(a, e) < 0)
		return -e->code;
	/* The log's group may read the log. */
	return privs_drop(uid, gid, &log_gid, 1, e);
}
