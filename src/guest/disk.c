/*
 * The disks: the image, read-only, and the sandbox's own. They lie where the
 * launch looks for them in the pool of a host.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "guest/guest.h"
#include "store/store.h"

/* The kernel's own, of fs/ext4/ext4.h: not in its headers for programs. */
#define EXT4_IOC_RESIZE_FS _IOW('f', 16, uint64_t)

enum { WAIT_MS = 10 * 1000, STEP_MS = 2 };

static int await(const char *path, struct err *e)
{
	unsigned waited;
	struct stat st;

	for (waited = 0; waited < WAIT_MS; waited += STEP_MS) {
		if (stat(path, &st) == 0)
			return 0;
		usleep(STEP_MS * 1000);
	}
	return err_set(e, ENODEV, "there is no disk %s", path);
}

/* Each directory of a path below the pool. */
static int make_path(char *path, struct err *e)
{
	char *p;

	for (p = path + 1; p; p = strchr(p + 1, '/')) {
		char *slash = strchr(p + 1, '/');

		if (slash)
			*slash = '\0';
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			return err_sys(e, "mkdir %s", path);
		if (slash)
			*slash = '/';
	}
	return 0;
}

static int mount_one(const char *device, const char *type, unsigned long flags,
		     char *at, struct err *e)
{
	if (await(device, e) < 0 || make_path(at, e) < 0)
		return -e->code;
	if (mount(device, at, type, flags | MS_NOSUID | MS_NODEV | MS_NOATIME,
		  NULL) < 0)
		return err_sys(e, "mount %s as %s", device, type);
	return 0;
}

/* The file system starts small, and grows to the size of its disk. */
static int grow(const char *at, struct err *e)
{
	AUTO_CLOSE int fd = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSE int disk_fd = open(GUEST_DISK, O_RDONLY | O_CLOEXEC);
	uint64_t bytes = 0, blocks;
	struct statfs fs;

	if (fd < 0 || disk_fd < 0 || fstatfs(fd, &fs) < 0 ||
	    ioctl(disk_fd, BLKGETSIZE64, &bytes) < 0)
		return err_sys(e, "look at the disk");
	blocks = bytes / (uint64_t)fs.f_bsize;
	if (ioctl(fd, EXT4_IOC_RESIZE_FS, &blocks) < 0)
		return err_sys(e, "grow the file system");
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind,
		      struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

/*
 * A disk that was used before has what an overlay left in its work directory,
 * with the note that it was volatile, which no other overlay takes.
 */
static int make_work(const char *work, struct err *e)
{
	enum { LEVELS = 16 };

	if (nftw(work, remove_one, LEVELS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) <
		    0 &&
	    errno != ENOENT)
		return err_sys(e, "clear %s", work);
	return mkdir(work, 0700) < 0 ? err_sys(e, "make %s", work) : 0;
}

struct places {
	char image[96], volume[96], upper[112], work[112];
};

static struct places places_of(const struct guest *g)
{
	struct places p;

	snprintf(p.image, sizeof(p.image), "/pool/" STORE_IMAGE_TREE,
		 g->spec.image);
	snprintf(p.volume, sizeof(p.volume), "/pool/" STORE_VOLUME_TREE,
		 g->spec.id);
	snprintf(p.upper, sizeof(p.upper), "%s/upper", p.volume);
	snprintf(p.work, sizeof(p.work), "%s/work", p.volume);
	return p;
}

int disk_mount(struct guest *g, struct err *e)
{
	struct places p = places_of(g);

	if (mount_one(GUEST_BASE, "erofs", MS_RDONLY, p.image, e) < 0 ||
	    mount_one(GUEST_DISK, "ext4", 0, p.volume, e) < 0 ||
	    grow(p.volume, e) < 0)
		return -e->code;
	/* A disk that was used before has it. */
	if (mkdir(p.upper, 0755) < 0 && errno != EEXIST)
		return err_sys(e, "make %s", p.upper);
	return make_work(p.work, e);
}

int disk_mount_quiet(struct guest *g, struct err *e)
{
	struct places p = places_of(g);

	if (mount_one(GUEST_BASE, "erofs", MS_RDONLY, p.image, e) < 0 ||
	    mount_one(GUEST_DISK, "ext4", MS_RDONLY, p.volume, e) < 0)
		return -e->code;
	return 0;
}
