/* Content that keeps its holes. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/file/file.h"

enum { PAGE = 4096 };

static bool is_zero(const char *p, size_t n)
{
	return p[0] == 0 && memcmp(p, p + 1, n - 1) == 0;
}

int sparse_write(int fd, const char *p, size_t n, uint64_t at)
{
	size_t from = 0;

	while (from < n) {
		size_t len = PAGE - (size_t)((at + from) % PAGE);
		ssize_t put;

		if (len > n - from)
			len = n - from;
		if (is_zero(p + from, len)) {
			from += len;
			continue;
		}
		while (from + len < n && len < IO_BYTES &&
		       !is_zero(p + from + len,
				n - from - len < PAGE ? n - from - len : PAGE))
			len += n - from - len < PAGE ? n - from - len : PAGE;
		put = pwrite(fd, p + from, len, (off_t)(at + from));
		if (put <= 0)
			return put < 0 ? -errno : -EIO;
		from += (size_t)put;
	}
	return 0;
}
