#include "store/share.h"

#include <errno.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	PAGE = 4096,
	PIECE = 16 * PAGE,
	LIGHT = 256, /* extents: to share one takes some 8 us */
};

static int is_zero(const char *p, size_t n)
{
	return p[0] == 0 && memcmp(p, p + 1, n - 1) == 0;
}

/* Runs of pages that have something in them. */
static int put(int to_fd, const char *p, size_t n, off_t at, struct err *e)
{
	size_t from = 0, to;

	while (from < n) {
		size_t len = n - from < PAGE ? n - from : PAGE;

		if (is_zero(p + from, len)) {
			from += len;
			continue;
		}
		for (to = from + len; to < n; to += len) {
			len = n - to < PAGE ? n - to : PAGE;
			if (is_zero(p + to, len))
				break;
		}
		if (pwrite(to_fd, p + from, to - from, at + (off_t)from) !=
		    (ssize_t)(to - from))
			return err_sys(e, "write a copy");
		from = to;
	}
	return 0;
}

static int copy_run(int from_fd, int to_fd, off_t at, off_t end, struct err *e)
{
	char piece[PIECE];

	while (at < end) {
		size_t most = end - at < PIECE ? (size_t)(end - at) : PIECE;
		ssize_t n = pread(from_fd, piece, most, at);

		if (n == 0)
			return err_set(e, EIO, "the file became shorter");
		if (n < 0)
			return err_sys(e, "read what is copied");
		if (put(to_fd, piece, (size_t)n, at, e) < 0)
			return -e->code;
		at += n;
	}
	return 0;
}

int file_copy(int from_fd, int to_fd, struct err *e)
{
	off_t at = 0, end;
	struct stat st;

	if (fstat(from_fd, &st) < 0 || ftruncate(to_fd, st.st_size) < 0)
		return err_sys(e, "make a copy");
	for (;;) {
		at = lseek(from_fd, at, SEEK_DATA);
		if (at < 0 && errno == ENXIO)
			return 0;
		end = at < 0 ? -1 : lseek(from_fd, at, SEEK_HOLE);
		if (end < 0)
			return err_sys(e, "look at what is copied");
		if (copy_run(from_fd, to_fd, at, end, e) < 0)
			return -e->code;
		at = end;
	}
}

bool file_is_light(int fd)
{
	static struct {
		struct fiemap head;
		struct fiemap_extent extents[LIGHT];
	} map;

	map.head = (struct fiemap){ .fm_length = FIEMAP_MAX_OFFSET,
				    .fm_flags = FIEMAP_FLAG_SYNC,
				    .fm_extent_count = LIGHT };
	return ioctl(fd, FS_IOC_FIEMAP, &map) == 0 &&
	       map.head.fm_mapped_extents < LIGHT;
}

int file_share(int from_fd, int to_fd, struct err *e)
{
	if (ioctl(to_fd, FICLONE, from_fd) == 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != EXDEV && errno != EINVAL &&
	    errno != ENOTTY)
		return err_sys(e, "share the blocks of a file");
	return file_copy(from_fd, to_fd, e);
}
