#include "store/origin.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/auto.h"

int store_origin(int tree_fd, struct store_origin *o)
{
	struct btrfs_ioctl_get_subvol_info_args a = { 0 };
	AUTO_CLOSE int fd = -1;

	_Static_assert(sizeof(o->tree) == sizeof(a.parent_uuid), "a uuid");
	/* The pool's descriptors of trees are O_PATH ones. */
	fd = openat(tree_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, BTRFS_IOC_GET_SUBVOL_INFO, &a) < 0)
		return -errno;
	memcpy(o->tree, a.parent_uuid, sizeof(o->tree));
	o->made_ns = a.otime.sec * UINT64_C(1000000000) + a.otime.nsec;
	return 0;
}
