/*
 * The root file system: an overlay of the image (below) and the sandbox's
 * volume (above), both through mounts that map the plain ids on disk to the
 * sandbox's own range. The overlay is made by who launches, while the child
 * still has other things to do, and given to it.
 *
 * Two traps, both silent: the overlay becomes read-only when the mounter's
 * fsuid is not in the map, so the mounter's fsuid is the sandbox's 0; and
 * index=on would make every snapshot unmountable.
 *
 * The overlay is `volatile`: it does not flush the pool when the sandbox ends
 * or calls fsync. A sandbox's disk is gone at its end and is not promised to
 * survive a power loss; what must (snapshots) is flushed by who makes it. With
 * LAUNCH_PERSIST it is not: what is synced inside is on disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "sandbox/container/steps.h"
#include "sandbox/mount.h"
#include "sandbox/walls.h"
#include "store/store.h"

/* Attaches a copy of a mount, or of a directory, at a path of ours. */
static int attach(const char *path, const char *at, uint64_t flags,
		  int userns_fd, struct err *e)
{
	AUTO_CLOSE int fd = -1, at_fd = -1;

	fd = mount_clone(AT_FDCWD, path, flags | MOUNT_ATTR_NODEV, userns_fd,
			 e);
	if (fd < 0)
		return fd;
	at_fd = open(at, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at_fd < 0)
		return err_sys(e, "open %s", at);
	return mount_at(fd, at_fd, e);
}

static int mount_overlay(bool durable, struct err *e)
{
	const struct mount_opt opts[] = {
		{ "source", "root" },
		{ "lowerdir", "/w/l" },
		{ "upperdir", "/w/u/upper" },
		{ "workdir", "/w/u/work" },
		{ "index", "off" },
		{ "metacopy", "off" },
		{ "redirect_dir", "on" },
		{ "uuid", "off" }, /* a fork's would be its parent's */
		{ durable ? NULL : "volatile", NULL },
		{ 0 },
	};
	unsigned flags =
		WALL(NOSUID) ? MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV : 0;
	struct statvfs st;
	int fd = mount_new("overlay", opts, flags, e);

	if (fd < 0)
		return fd;
	if (fstatvfs(fd, &st) < 0 || (st.f_flag & ST_RDONLY)) {
		close(fd);
		return err_set(e, EROFS,
			       "the kernel made the overlay read-only "
			       "(see the kernel log)");
	}
	return fd;
}

/* On a copy of /t, so that all of it goes at once: to take mounts down is to
 * wait for all processors. The ids on disk are mapped. */
static int attach_layers(const struct launch_spec *s, int userns_fd,
			 struct err *e)
{
	char image[64], volume[64];

	snprintf(image, sizeof(image), "/pool/" STORE_IMAGE_TREE, s->image);
	snprintf(volume, sizeof(volume), "/pool/" STORE_VOLUME_TREE, s->id);
	if (attach("/t", "/w", MOUNT_ATTR_NOSUID, -1, e) < 0)
		return -e->code;
	if (attach(image, "/w/l", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID,
		   userns_fd, e) < 0)
		return err_wrap(e, "image %s", s->image);
	if (attach(volume, "/w/u", MOUNT_ATTR_NOSUID, userns_fd, e) < 0)
		return err_wrap(e, "volume");
	return 0;
}

/* What the kernel forgets of a process that changes its fsuid. */
struct self {
	pid_t parent;
	int death_signal, dumpable;
};

/* What is made then belongs to `id`; with the fixup off, that takes no
 * capability away. */
static int become(uid_t id, struct self *was, struct err *e)
{
	was->parent = getppid();
	was->dumpable = prctl(PR_GET_DUMPABLE);
	if (was->dumpable < 0 ||
	    prctl(PR_GET_PDEATHSIG, &was->death_signal) < 0)
		return err_sys(e, "ask about ourselves");
	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0)
		return err_sys(e, "set securebits");
	setfsgid(id);
	setfsuid(id);
	return 0;
}

/* Who cannot be itself again does not go on. */
static void be_root_again(const struct self *was)
{
	setfsuid(0);
	setfsgid(0);
	if (setfsuid(0) != 0 || setfsgid(0) != 0 ||
	    prctl(PR_SET_SECUREBITS, 0) < 0 ||
	    (prctl(PR_GET_DUMPABLE) != was->dumpable &&
	     prctl(PR_SET_DUMPABLE, was->dumpable) < 0) ||
	    prctl(PR_SET_PDEATHSIG, was->death_signal) < 0) {
		log_err("no way back from another id: %s", strerror(errno));
		abort();
	}
	/* Or nobody would tell us any more. */
	if (was->death_signal && getppid() != was->parent)
		raise(was->death_signal);
}

static bool attached; /* layers, at /w */

int root_make(const struct launch_spec *s, const struct part *p, struct err *e)
{
	struct self was;
	int fd = -1;

	launch_tidy();
	if (become(WALL(IDMAP) ? p->base : 0, &was, e) < 0)
		return err_wrap(e, "make root");
	attached = true;
	if (attach_layers(s, p->userns_fd, e) == 0)
		fd = mount_overlay(s->flags & LAUNCH_PERSIST, e);
	be_root_again(&was);
	if (fd >= 0)
		return fd;
	launch_tidy();
	return err_wrap(e, "make root");
}

/*
 * Where nothing is, nothing goes: whatever failed before has been told. A child
 * that has just left for a mount namespace of its own may have copied /w; with
 * it goes all that it does not take into its root.
 */
void launch_tidy(void)
{
	if (!attached)
		return;
	if (umount2("/w", MNT_DETACH) < 0 && errno != EINVAL) {
		log_err("layers stay attached: %s", strerror(errno));
		abort();
	}
	attached = false;
}

int step_root(struct launch_ctx *l, struct err *e)
{
	AUTO_CLOSE int at_fd = open("/r", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (at_fd < 0)
		return err_sys(e, "open /r");
	return mount_at(l->root_fd, at_fd, e);
}

/* One step of a path in the new root, made if it is missing. */
static int descend(int dir_fd, const char *name, struct err *e)
{
	int fd = open_beneath(dir_fd, name, O_PATH | O_DIRECTORY);

	if (fd == -ENOENT) {
		if (mkdirat(dir_fd, name, 0755) < 0)
			return err_sys(e, "make directory %s", name);
		fd = open_beneath(dir_fd, name, O_PATH | O_DIRECTORY);
	}
	if (fd == -EXDEV)
		return err_set(e, ENOTDIR, "%s is in another volume", name);
	if (fd < 0)
		return err_set(e, ENOTDIR,
			       "%s is not a directory (links are not followed)",
			       name);
	return fd;
}

/* The directory of an absolute path in the new root. */
static int deep_point(const struct launch_ctx *l, const char *path,
		      struct err *e)
{
	AUTO_CLOSE int fd = fcntl(l->root_fd, F_DUPFD_CLOEXEC, 3);
	char copy[LAUNCH_PATH_CAP], *save = NULL, *name;

	if (fd < 0)
		return err_sys(e, "duplicate a descriptor");
	snprintf(copy, sizeof(copy), "%s", path);
	for (name = strtok_r(copy, "/", &save); name;
	     name = strtok_r(NULL, "/", &save)) {
		int next = descend(fd, name, e);

		if (next < 0)
			return next;
		close(fd);
		fd = next;
	}
	return take_fd(&fd);
}

/*
 * Volumes. The pool is noexec; what runs from a volume is the sandbox's
 * business, as with its root.
 */
static int attach_volume(const struct launch_ctx *l,
			 const struct launch_volume *v, struct err *e)
{
	struct mount_attr exec = { .attr_clr = MOUNT_ATTR_NOEXEC };
	AUTO_CLOSE int fd = -1, at_fd = -1;
	char tree[64];

	if (snprintf(tree, sizeof(tree), "/pool/" STORE_ATTACHED_TREE, v->id) >=
	    (int)sizeof(tree))
		return err_set(e, EINVAL, "not the id of a volume");
	fd = mount_clone(AT_FDCWD, tree,
			 MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID |
				 (v->read_only ? MOUNT_ATTR_RDONLY : 0),
			 l->userns_fd, e);
	if (fd < 0)
		return fd;
	if (mount_setattr(fd, "", AT_EMPTY_PATH, &exec, sizeof(exec)) < 0)
		return err_sys(e, "set attributes of a volume");
	at_fd = deep_point(l, v->path, e);
	return at_fd < 0 ? at_fd : mount_at(fd, at_fd, e);
}

int step_volumes(struct launch_ctx *l, struct err *e)
{
	const struct launch_volume *v = l->spec->volumes;
	size_t i;

	for (i = 0; i < LAUNCH_VOLUMES_MAX && v[i].id[0]; i++)
		if (attach_volume(l, &v[i], e) < 0)
			return err_wrap(e, "volume %s at %s", v[i].id,
					v[i].path);
	return 0;
}

int mount_point(const struct launch_ctx *l, const char *name, struct err *e)
{
	int fd = descend(l->root_fd, name, e);

	return fd < 0 ? err_wrap(e, "the image's /%s", name) : fd;
}

/* The old root, with all that the warden sees, is gone after this. */
int step_pivot(struct launch_ctx *l, struct err *e)
{
	setfsuid(0);
	setfsgid(0);
	if (fchdir(l->root_fd) < 0)
		return err_sys(e, "enter the root");
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return err_sys(e, "pivot_root");
	if (umount2(".", MNT_DETACH) < 0)
		return err_sys(e, "detach the old root");
	return chdir("/") < 0 ? err_sys(e, "chdir /") : 0;
}
