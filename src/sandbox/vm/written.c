#include "sandbox/vm/written.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "qemu/track.h"

/* Of <linux/fs.h>, which may be older. */
struct region {
	uint64_t start, end, categories;
};
struct scan {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages,
		category_inverted, category_mask, category_anyof_mask,
		return_mask;
};
#define SCAN _IOWR('f', 16, struct scan)
enum { SCAN_WP_MATCHING = 1, SCAN_CHECK_WPASYNC = 2 };
enum { PAGE_IS_WRITTEN = 1 << 1, PAGE_IS_FILE = 1 << 2 };

enum { REGIONS = 512 };

#define LIBRARY "track"

static const uint8_t library[] = {
#include "track.inc"
};

int written_library(struct err *e)
{
	const int all =
		F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	AUTO_CLOSE int fd =
		memfd_create(LIBRARY, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || write_full(fd, library, sizeof(library)) < 0 ||
	    fchmod(fd, 0555) < 0 || fcntl(fd, F_ADD_SEALS, all) < 0)
		return err_sys(e, "make QEMU's library");
	return take_fd(&fd);
}

int written_loaded(int process_fd, struct err *e)
{
	int fd = openat(process_fd, "maps", O_RDONLY | O_CLOEXEC);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	bool found = false;
	char line[512];

	if (!f) {
		auto_close(&fd);
		return err_sys(e, "look at what QEMU has loaded");
	}
	while (!found && fgets(line, sizeof(line), f))
		found = strstr(line, " /memfd:" LIBRARY " ") != NULL;
	fclose(f);
	return found ? 0
		     : err_set(e, EPERM,
			       "QEMU was started without the library that "
			       "closes it: see its console");
}

/* Whoever has taken QEMU over may have put anything there. */
static bool is_there(const struct ram_map *m)
{
	char path[32], to[64];
	ssize_t n;

	snprintf(path, sizeof(path), "fd/%d", TRACK_FD);
	n = readlinkat(m->process_fd, path, to, sizeof(to) - 1);
	to[n < 0 ? 0 : n] = '\0';
	return strcmp(to, "anon_inode:[userfaultfd]") == 0;
}

/* Of those that are its own; a page of the template that is written becomes
 * one.
 */
static struct scan scan_of(const struct ram_save *s)
{
	return (struct scan){
		.size = sizeof(struct scan),
		.flags = SCAN_WP_MATCHING | SCAN_CHECK_WPASYNC,
		.start = s->map.at,
		.end = s->map.at + s->map.bytes,
		.category_mask = PAGE_IS_WRITTEN | PAGE_IS_FILE,
		.category_inverted = PAGE_IS_FILE,
		.return_mask = PAGE_IS_WRITTEN,
	};
}

/* Its writes cost nothing more then. */
void written_leave(struct ram_save *s)
{
	struct uffdio_range all = { s->map.at, s->map.bytes };

	if (s->written_fd < 0)
		return;
	/* It may have ended. */
	(void)ioctl(s->written_fd, UFFDIO_UNREGISTER, &all);
	auto_close(&s->written_fd);
}

static int each_region(struct ram_save *s, const struct region *r, int n,
		       int (*fn)(struct ram_save *s, uint64_t page, uint64_t n,
				 struct err *e),
		       struct err *e)
{
	int i;

	for (i = 0; i < n; i++)
		if (fn(s, (r[i].start - s->map.at) / RAM_PAGE,
		       (r[i].end - r[i].start) / RAM_PAGE, e) < 0)
			return -e->code;
	return 0;
}

int written_each(struct ram_save *s,
		 int (*fn)(struct ram_save *s, uint64_t page, uint64_t n,
			   struct err *e),
		 struct err *e)
{
	static struct region found[REGIONS];
	struct scan some = scan_of(s);
	int n;

	if (s->written_fd < 0)
		return -ENOTSUP;
	some.vec = (uint64_t)(uintptr_t)found;
	some.vec_len = REGIONS;
	while (some.start < some.end) {
		n = ioctl(s->pagemap_fd, SCAN, &some);
		if (n < 0 || some.walk_end <= some.start ||
		    some.walk_end > some.end)
			return -ENOTSUP;
		if (each_region(s, found, n, fn, e) < 0)
			return -e->code;
		some.start = some.walk_end;
	}
	return 0;
}

static int look_away(struct ram_save *s, uint64_t page, uint64_t n,
		     struct err *e)
{
	(void)s;
	(void)page;
	(void)n;
	(void)e;
	return 0;
}

bool written_watch(struct ram_save *s)
{
	struct uffdio_register to = {
		.range = { s->map.at, s->map.bytes },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	struct err none = { 0 };
	int fd;

	if (s->map.pid_fd < 0 || !is_there(&s->map))
		return false;
	fd = (int)syscall(SYS_pidfd_getfd, s->map.pid_fd, TRACK_FD, 0);
	if (fd < 0)
		return false;
	s->written_fd = fd;
	if (ioctl(fd, UFFDIO_REGISTER, &to) == 0 &&
	    written_each(s, look_away, &none) == 0)
		return true;
	written_leave(s);
	return false;
}
