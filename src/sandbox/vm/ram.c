#include "sandbox/vm/ram.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/vm/written.h"

enum {
	PIECE = 256,         /* pages that are looked at in one go */
	MAPS_MAX = 1 << 20,  /* of /proc/PID/maps */
	BYTES_MAX_SHIFT = 42 /* of a memory: what a bitmap has room for */
};

static bool bytes_ok(uint64_t bytes)
{
	return bytes > 0 && bytes % RAM_PAGE == 0 &&
	       bytes <= 1ULL << BYTES_MAX_SHIFT;
}

static uint64_t bitmap_bytes(uint64_t bytes)
{
	uint64_t bits = bytes / RAM_PAGE, n = (bits + 7) / 8;

	return (n + RAM_PAGE - 1) / RAM_PAGE * RAM_PAGE;
}

/* Where the memory starts in the file. */
static uint64_t start(uint64_t bytes)
{
	return RAM_PAGE + bitmap_bytes(bytes);
}

static bool has(const uint8_t *bits, uint64_t page)
{
	return bits[page / 8] & (1 << page % 8);
}

static void mark(uint8_t *bits, uint64_t page)
{
	bits[page / 8] = (uint8_t)(bits[page / 8] | 1 << page % 8);
}

/* --- where it is --- */

struct row {
	uint64_t from, to, offset;
	char name[32];
};

static bool row_read(const char *line, struct row *r)
{
	return sscanf(line,
		      "%" SCNx64 "-%" SCNx64 " %*4s %" SCNx64
		      " %*x:%*x %*u %31s",
		      &r->from, &r->to, &r->offset, r->name) == 4;
}

/* The rows of the file are one after the other, from its start to its end. */
static int take_row(struct ram_map *m, const struct row *r, struct err *e)
{
	if (strcmp(r->name, "/memfd:" RAM_NAME) != 0)
		return 0;
	if (m->bytes == 0)
		m->at = r->from;
	if (r->offset != m->bytes || r->from != m->at + m->bytes)
		return err_set(e, EPROTO, "the memory of QEMU is in pieces");
	m->bytes += r->to - r->from;
	return 0;
}

static int read_maps(FILE *f, struct ram_map *m, struct err *e)
{
	char line[512];
	size_t sum = 0;
	struct row r;

	while (fgets(line, sizeof(line), f)) {
		sum += strlen(line);
		if (sum > MAPS_MAX)
			return err_set(e, EPROTO, "QEMU has too many mappings");
		/* The rest of a long line is no row. */
		if (row_read(line, &r) && take_row(m, &r, e) < 0)
			return -e->code;
	}
	return 0;
}

int ram_find(int process_fd, uint64_t bytes, struct ram_map *m, struct err *e)
{
	int fd = openat(process_fd, "maps", O_RDONLY | O_CLOEXEC), r;
	FILE *f = NULL;

	*m = (struct ram_map){ .process_fd = process_fd, .pid_fd = -1 };
	if (fd >= 0)
		f = fdopen(fd, "r");
	if (!f) {
		r = err_sys(e, "look at the memory of QEMU");
		auto_close(&fd);
		return r;
	}
	r = read_maps(f, m, e);
	fclose(f);
	if (r == 0 && (m->bytes != bytes || !bytes_ok(bytes)))
		r = err_set(e, EPROTO, "QEMU has not mapped its memory");
	return r;
}

int ram_open(const struct ram_map *m, struct err *e)
{
	const int all =
		F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	char path[64];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "map_files/%" PRIx64 "-%" PRIx64, m->at,
		 m->at + m->bytes);
	fd = openat(m->process_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open the memory of QEMU");
	/* The one that we gave it cannot change. */
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size != m->bytes ||
	    (fcntl(fd, F_GET_SEALS) & all) != all) {
		close(fd);
		return err_set(e, EPROTO, "QEMU has other memory than it got");
	}
	return fd;
}

/* --- saving --- */

void ram_save_close(struct ram_save *s)
{
	written_leave(s);
	auto_close(&s->pagemap_fd);
	auto_close(&s->mem_fd);
	free(s->bits);
	s->bits = NULL;
	if (s->seen)
		munmap((void *)s->seen, s->map.bytes);
	s->seen = NULL;
}

int ram_save_open(struct ram_save *s, const struct ram_map *m, int file_fd,
		  struct err *e)
{
	void *seen;

	*s = (struct ram_save){ .map = *m,
				.pagemap_fd = -1,
				.mem_fd = -1,
				.written_fd = -1,
				.file_fd = file_fd };
	s->pagemap_fd = openat(m->process_fd, "pagemap", O_RDONLY | O_CLOEXEC);
	s->mem_fd = openat(m->process_fd, "mem", O_RDONLY | O_CLOEXEC);
	if (s->pagemap_fd < 0 || s->mem_fd < 0)
		return err_sys(e, "look at the pages of QEMU");
	if (ftruncate(file_fd, (off_t)(start(m->bytes) + m->bytes)) < 0)
		return err_sys(e, "make room for the memory");
	s->bits = calloc(1, bitmap_bytes(m->bytes));
	seen = mmap(NULL, m->bytes, PROT_READ, MAP_SHARED, file_fd,
		    (off_t)start(m->bytes));
	if (seen != MAP_FAILED)
		s->seen = seen;
	if (!s->bits || !s->seen)
		return err_sys(e, "save the memory");
	return 0;
}

/* Of a page that is not there, when the kernel is to tell what is written: in
 * the place of a swap file is a number that no such file has. */
static bool is_mark(uint64_t entry)
{
	return entry >> 62 == 1 && (entry & 31) == 31;
}

/* There, or swapped out, and not the template's. Where the kernel tells
 * nothing the number may be a swap file's. */
static bool is_own(const struct ram_save *s, uint64_t entry)
{
	return (entry >> 62) != 0 && !(entry >> 61 & 1) &&
	       !(s->written_fd >= 0 && is_mark(entry));
}

static bool is_zero(const uint8_t *p)
{
	return p[0] == 0 && memcmp(p, p + 1, RAM_PAGE - 1) == 0;
}

/* Pages that follow each other and are in the file neither as they are now
 * nor, being zero, as a hole. */
static bool is_news(const struct ram_save *s, uint64_t page, const uint8_t *now)
{
	const uint8_t *was = s->seen + page * RAM_PAGE;

	return has(s->bits, page) ? memcmp(was, now, RAM_PAGE) != 0
				  : !is_zero(now);
}

static int put(struct ram_save *s, uint64_t page, const uint8_t *now,
	       uint64_t n, struct err *e)
{
	off_t at = (off_t)(start(s->map.bytes) + page * RAM_PAGE);
	size_t len = n * RAM_PAGE;
	ssize_t r = pwrite(s->file_fd, now, len, at);

	if (r < 0)
		return err_sys(e, "save the memory");
	return (size_t)r == len ? 0 : err_set(e, ENOSPC, "save the memory");
}

/* `n` pages that are QEMU's own. */
static int save_run(struct ram_save *s, uint64_t page, uint64_t n,
		    struct err *e)
{
	static uint8_t now[PIECE * RAM_PAGE];
	uint64_t i = 0, news;

	if (pread(s->mem_fd, now, n * RAM_PAGE,
		  (off_t)(s->map.at + page * RAM_PAGE)) !=
	    (ssize_t)(n * RAM_PAGE))
		return err_sys(e, "read the memory of QEMU");
	while (i < n) {
		for (news = 0; i + news < n; news++)
			if (!is_news(s, page + i + news,
				     now + (i + news) * RAM_PAGE))
				break;
		if (news > 0 &&
		    put(s, page + i, now + i * RAM_PAGE, news, e) < 0)
			return -e->code;
		i += news + 1;
	}
	for (i = 0; i < n; i++)
		mark(s->bits, page + i);
	return 0;
}

static int save_piece(struct ram_save *s, uint64_t page, uint64_t n,
		      struct err *e)
{
	uint64_t entry[PIECE], i, len;
	ssize_t got = pread(
		s->pagemap_fd, entry, n * sizeof(entry[0]),
		(off_t)((s->map.at / RAM_PAGE + page) * sizeof(entry[0])));

	if (got != (ssize_t)(n * sizeof(entry[0])))
		return err_sys(e, "look at the pages of QEMU");
	for (i = 0; i < n; i += len + 1) {
		for (len = 0; i + len < n && is_own(s, entry[i + len]); len++)
			;
		if (len > 0 && save_run(s, page + i, len, e) < 0)
			return -e->code;
	}
	return 0;
}

static int save_pages(struct ram_save *s, uint64_t page, uint64_t n,
		      struct err *e)
{
	const uint64_t end = page + n;

	for (; page < end; page += PIECE)
		if (save_piece(s, page, end - page < PIECE ? end - page : PIECE,
			       e) < 0)
			return -e->code;
	return 0;
}

int ram_save_begin(struct ram_save *s, struct err *e)
{
	int r = -ENOTSUP;

	/* Before it is looked at: what is written meanwhile is known, too. */
	if (!s->begun)
		(void)written_watch(s);
	else
		r = written_each(s, save_pages, e);
	s->begun = true;
	return r == -ENOTSUP ? save_pages(s, 0, s->map.bytes / RAM_PAGE, e) : r;
}

int ram_save_end(struct ram_save *s, struct err *e)
{
	struct ram_head head = { RAM_MAGIC, s->map.bytes, 0 };
	size_t len = bitmap_bytes(s->map.bytes), i;

	if (ram_save_begin(s, e) < 0)
		return -e->code;
	for (i = 0; i < len; i++)
		head.pages += (uint64_t)__builtin_popcount(s->bits[i]);
	s->pages = head.pages;
	if (pwrite(s->file_fd, s->bits, len, RAM_PAGE) != (ssize_t)len ||
	    pwrite(s->file_fd, &head, sizeof(head), 0) != sizeof(head))
		return err_sys(e, "save the memory");
	return 0;
}

/* --- loading --- */

static int load_head(int file_fd, const struct ram_map *m, struct err *e)
{
	struct ram_head head;
	struct stat st;

	if (fstat(file_fd, &st) < 0 ||
	    pread(file_fd, &head, sizeof(head), 0) != sizeof(head))
		return err_sys(e, "read the saved memory");
	if (head.magic != RAM_MAGIC || head.bytes != m->bytes ||
	    !bytes_ok(head.bytes) ||
	    (uint64_t)st.st_size != start(head.bytes) + head.bytes)
		return err_set(e, EPROTO,
			       "the saved memory is of another machine");
	return 0;
}

/* Where a run is put, and from where. */
struct load {
	int file_fd, mem_fd;
	const struct ram_map *map;
};

static int load_run(const struct load *l, uint64_t page, uint64_t n,
		    struct err *e)
{
	static uint8_t piece[PIECE * RAM_PAGE];
	const struct ram_map *m = l->map;
	size_t len = n * RAM_PAGE;

	if (pread(l->file_fd, piece, len,
		  (off_t)(start(m->bytes) + page * RAM_PAGE)) != (ssize_t)len)
		return err_sys(e, "read the saved memory");
	if (pwrite(l->mem_fd, piece, len, (off_t)(m->at + page * RAM_PAGE)) !=
	    (ssize_t)len)
		return err_sys(e, "write the memory of QEMU");
	return 0;
}

int ram_load(int file_fd, const struct ram_map *m, struct err *e)
{
	AUTO_CLOSE int mem_fd =
		openat(m->process_fd, "mem", O_RDWR | O_CLOEXEC);
	const struct load l = { file_fd, mem_fd, m };
	AUTO_FREE uint8_t *bits = NULL;
	uint64_t page, len, pages = m->bytes / RAM_PAGE;
	size_t size = bitmap_bytes(m->bytes);

	if (mem_fd < 0)
		return err_sys(e, "open the memory of QEMU");
	if (load_head(file_fd, m, e) < 0)
		return -e->code;
	bits = malloc(size);
	if (!bits || pread(file_fd, bits, size, RAM_PAGE) != (ssize_t)size)
		return err_sys(e, "read the saved memory");
	for (page = 0; page < pages; page += len + 1) {
		for (len = 0;
		     len < PIECE && page + len < pages && has(bits, page + len);
		     len++)
			;
		if (len > 0 && load_run(&l, page, len, e) < 0)
			return -e->code;
		if (len == PIECE)
			page--; /* the next one may be in here, too */
	}
	return 0;
}
