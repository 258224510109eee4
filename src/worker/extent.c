#include "worker/extent.h"

#include <errno.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/auto.h"

enum { MANY = 32 };

struct extents {
	struct fiemap head;
	struct fiemap_extent e[MANY];
};

/*
 * Not (only) at the place that is told: compressed (where a part of an extent
 * has the place of the whole), in the inode, not written yet.
 */
static const uint32_t elsewhere =
	FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_ENCODED |
	FIEMAP_EXTENT_DATA_ENCRYPTED | FIEMAP_EXTENT_NOT_ALIGNED |
	FIEMAP_EXTENT_DATA_INLINE | FIEMAP_EXTENT_DATA_TAIL;

static int extents_get(int fd, uint64_t at, struct extents *x)
{
	memset(&x->head, 0, sizeof(x->head));
	x->head.fm_start = at;
	x->head.fm_length = FIEMAP_MAX_OFFSET - at;
	x->head.fm_extent_count = MANY;
	return ioctl(fd, FS_IOC_FIEMAP, &x->head) < 0 ? -errno : 0;
}

static uint64_t extents_end(const struct extents *x)
{
	const struct fiemap_extent *last = &x->e[x->head.fm_mapped_extents - 1];

	return last->fe_logical + last->fe_length;
}

static bool extents_last(const struct extents *x)
{
	return x->e[x->head.fm_mapped_extents - 1].fe_flags &
	       FIEMAP_EXTENT_LAST;
}

static bool one_place(const struct fiemap_extent *a,
		      const struct fiemap_extent *b)
{
	return a->fe_logical == b->fe_logical &&
	       a->fe_physical == b->fe_physical &&
	       a->fe_length == b->fe_length &&
	       !((a->fe_flags | b->fe_flags) & elsewhere) &&
	       (a->fe_flags & FIEMAP_EXTENT_UNWRITTEN) ==
		       (b->fe_flags & FIEMAP_EXTENT_UNWRITTEN);
}

bool extents_are_one(int a, int b, uint64_t size)
{
	struct extents x, y;
	uint64_t at = 0;
	unsigned i;

	while (at < size) {
		if (extents_get(a, at, &x) < 0 || extents_get(b, at, &y) < 0 ||
		    x.head.fm_mapped_extents != y.head.fm_mapped_extents)
			return false;
		if (x.head.fm_mapped_extents == 0)
			return true; /* holes to the end, in both */
		for (i = 0; i < x.head.fm_mapped_extents; i++)
			if (!one_place(&x.e[i], &y.e[i]))
				return false;
		if (extents_last(&x) != extents_last(&y))
			return false;
		if (extents_last(&x))
			return true;
		if (extents_end(&x) <= at)
			return false;
		at = extents_end(&x);
	}
	return true;
}

int extents_sum(int fd, uint64_t size, uint64_t *bytes, uint64_t *shared,
		struct err *e)
{
	struct extents x;
	uint64_t at = 0;
	unsigned i;
	int r;

	for (;;) {
		r = extents_get(fd, at, &x);
		if (r < 0)
			return err_set(e, -r,
				       "the pool's file system does not tell "
				       "where files lie: %s",
				       strerror(-r));
		if (x.head.fm_mapped_extents == 0)
			return 0;
		for (i = 0; i < x.head.fm_mapped_extents; i++) {
			/* What lies in the inode is told as a whole block. */
			*bytes += x.e[i].fe_flags & FIEMAP_EXTENT_DATA_INLINE
					  ? size
					  : x.e[i].fe_length;
			if (x.e[i].fe_flags & FIEMAP_EXTENT_SHARED)
				*shared += x.e[i].fe_length;
		}
		if (extents_last(&x) || extents_end(&x) <= at)
			return 0;
		at = extents_end(&x);
	}
}
