#include "store/loopdev.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/auto.h"
#include "base/str.h"

/* The kernel reports a device number in its own 64-bit encoding. */
static dev_t kernel_dev(uint64_t d)
{
	return makedev((unsigned)((d & 0xfff00) >> 8),
		       (unsigned)((d & 0xff) | ((d >> 12) & 0xfff00)));
}

/* Not attached, not there, or not for us: then it was never ours. */
static bool is_no_device(int code)
{
	return code == ENXIO || code == ENOENT || code == ENODEV ||
	       code == EACCES || code == EPERM;
}

/*
 * 1 or 0, or -errno: not known, which must not pass for a no, because a second
 * device on the file would destroy the file system.
 * By inode, not by the name that sysfs shows: names change with renames and
 * with the reader's root.
 */
static int backed_by(const char *path, const struct stat *file)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct loop_info64 info;

	if (fd < 0 || ioctl(fd, LOOP_GET_STATUS64, &info) < 0)
		return is_no_device(errno) ? 0 : -errno;
	return info.lo_inode == file->st_ino &&
	       kernel_dev(info.lo_device) == file->st_dev;
}

int loopdev_find(int file_fd, char path[LOOPDEV_PATH])
{
	AUTO_DIR DIR *dev = opendir("/dev");
	struct dirent *d;
	struct stat file;
	uint64_t n;
	int r;

	if (!dev || fstat(file_fd, &file) < 0)
		return -errno;
	while (errno = 0, (d = readdir(dev)) != NULL) {
		if (!str_starts(d->d_name, "loop") ||
		    parse_u64(d->d_name + 4, 1 << 20, &n) < 0)
			continue;
		snprintf(path, LOOPDEV_PATH, "/dev/loop%u", (unsigned)n);
		r = backed_by(path, &file);
		if (r != 0)
			return r < 0 ? r : 0;
	}
	return errno ? -errno : -ENOENT;
}

static int configure(int file_fd, const char *path)
{
	struct loop_config cfg = {
		.fd = (unsigned)file_fd,
		/* What direct I/O can do on any disk, and btrfs' own unit. */
		.block_size = 4096,
		.info.lo_flags = LO_FLAGS_DIRECT_IO | LO_FLAGS_AUTOCLEAR,
	};
	AUTO_CLOSE int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, LOOP_CONFIGURE, &cfg) < 0)
		return -errno;
	return take_fd(&fd);
}

int loopdev_attach(int file_fd, char path[LOOPDEV_PATH], struct err *e)
{
	static const char remedy[] =
		"run `modprobe loop`, or set pool_driver = dir";
	AUTO_CLOSE int ctl = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int tries, n, r = -EBUSY;

	if (ctl < 0)
		return err_sys(e, "no loop device (%s): /dev/loop-control",
			       remedy);
	/* Another program may take the free one before we do. */
	for (tries = 0; tries < 64 && r == -EBUSY; tries++) {
		n = ioctl(ctl, LOOP_CTL_GET_FREE);
		if (n < 0)
			return err_sys(e, "no free loop device (%s)", remedy);
		snprintf(path, LOOPDEV_PATH, "/dev/loop%d", n);
		r = configure(file_fd, path);
	}
	if (r < 0)
		return err_set(e, -r, "set up %s (%s): %s", path, remedy,
			       strerror(-r));
	return r;
}
