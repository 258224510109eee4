/*
 * The disks: the image, read-only, and the sandbox's own. They lie where the
 * launch looks for them in the pool of a host.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/guest.h"
#include "store/store.h"

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

int disk_mount(struct guest *g, struct err *e)
{
	char image[96], volume[96], upper[112], work[112];

	snprintf(image, sizeof(image), "/pool/" STORE_IMAGE_TREE,
		 g->spec.image);
	snprintf(volume, sizeof(volume), "/pool/" STORE_VOLUME_TREE,
		 g->spec.id);
	snprintf(upper, sizeof(upper), "%s/upper", volume);
	snprintf(work, sizeof(work), "%s/work", volume);
	if (mount_one(GUEST_BASE, "erofs", MS_RDONLY, image, e) < 0 ||
	    mount_one(GUEST_DISK, "ext4", 0, volume, e) < 0)
		return -e->code;
	/* A disk that was used before has them. */
	if ((mkdir(upper, 0755) < 0 || mkdir(work, 0700) < 0) &&
	    errno != EEXIST)
		return err_sys(e, "prepare the disk");
	return 0;
}
