#include "audit/spool_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "audit/spool.h"
#include "base/auto.h"
#include "base/log.h"

enum { READ_BYTES = 128 * 1024 };

_Static_assert(sizeof(((struct spool_file *)0)->head) == SPOOL_HEAD, "fits");

static int write_head(int fd, const unsigned char raw[SPOOL_HEAD])
{
	ssize_t n = pwrite(fd, raw, SPOOL_HEAD, 0);

	return n == SPOOL_HEAD ? 0 : n < 0 ? -errno : -ENOSPC;
}

static int put_head(struct spool_file *f, uint64_t first, uint64_t start)
{
	const struct spool_head h = { .first = first, .start = start };
	unsigned char raw[SPOOL_HEAD];
	int r;

	spool_head_put(raw, &h);
	r = write_head(f->fd, raw);
	if (r == 0)
		memcpy(f->head, raw, sizeof(raw));
	return r;
}

int spool_file_probe(const struct spool_file *f)
{
	struct statfs s;

	/* Open files of a file system that became read-only take writes into
	 * the page cache, where they stay. */
	if (fstatfs(f->fd, &s) < 0)
		return -errno;
	if (s.f_flags & ST_RDONLY)
		return -EROFS;
	return write_head(f->fd, f->head);
}

bool spool_file_roomy(struct spool_file *f)
{
	if (f->reserved >= f->end + f->reserve)
		return true;
	/* Twice as much, so that this is rare. */
	if (fallocate(f->fd, FALLOC_FL_KEEP_SIZE, (off_t)f->end,
		      (off_t)(2 * f->reserve)) < 0)
		return errno == EOPNOTSUPP; /* there is no such thing here */
	f->reserved = f->end + 2 * f->reserve;
	return true;
}

/* What is behind it goes, the reserve too. */
static int cut_to(struct spool_file *f, uint64_t size)
{
	f->reserved = 0;
	return ftruncate(f->fd, (off_t)size) < 0 ? -errno : 0;
}

void spool_file_mark(struct spool_file *f)
{
	f->mark = f->next;
	f->mark_at = f->end;
}

/*
 * First it gets short, then the head says so: one that tells of records
 * behind the end of its file has none.
 */
int spool_file_empty(struct spool_file *f, uint64_t next)
{
	int r = cut_to(f, SPOOL_HEAD);

	f->mark = 0;
	if (r < 0)
		return r;
	/* As the old head says, until there is another. */
	f->end = f->start;
	r = put_head(f, next, SPOOL_HEAD);
	if (r < 0)
		return r;
	f->next = next;
	f->start = f->end = SPOOL_HEAD;
	(void)spool_file_roomy(f); /* before somebody else takes it */
	return 0;
}

int spool_file_cut(struct spool_file *f)
{
	uint64_t from = f->start;
	int r;

	if (f->mark_at == f->end)
		return spool_file_empty(f, f->next);
	r = put_head(f, f->mark, f->mark_at);
	if (r < 0)
		return r;
	f->start = f->mark_at;
	f->mark = 0;
	/* Some filesystems have no holes: it gets short when it is empty. */
	(void)!fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			 (off_t)from, (off_t)(f->start - from));
	return 0;
}

struct scan {
	uint64_t end;  /* of the last whole record */
	uint64_t last; /* its number; 0: there is none */
};

/* What is whole in `n` bytes; false: something is not a record. */
static bool scan_piece(struct scan *s, const char *p, size_t n)
{
	struct spool_record r;
	size_t at = 0;
	int rc;

	while ((rc = spool_get(p + at, n - at, &r)) > 0) {
		if (r.number <= s->last)
			return false;
		s->last = r.number;
		at += r.size;
		s->end += r.size;
	}
	return rc == 0;
}

static int scan(int fd, struct scan *s)
{
	AUTO_FREE char *piece = xcalloc(1, READ_BYTES);
	uint64_t before;
	ssize_t n;

	do {
		before = s->end;
		n = pread(fd, piece, READ_BYTES, (off_t)s->end);
		if (n < 0)
			return -errno;
		if (!scan_piece(s, piece, (size_t)n))
			break;
	} while (s->end > before);
	return 0;
}

int spool_file_check(struct spool_file *f, struct err *e)
{
	struct scan s = { .end = f->start };
	struct stat st;
	int r = scan(f->fd, &s);

	if (r < 0)
		return err_set(e, -r, "read %s: %s", f->name, strerror(-r));
	if (fstat(f->fd, &st) < 0)
		return err_sys(e, "look at %s", f->name);
	if ((uint64_t)st.st_size > s.end) {
		log_warn("%s ended in %llu bytes that are no record, cutting "
			 "them off",
			 f->name,
			 (unsigned long long)((uint64_t)st.st_size - s.end));
		r = cut_to(f, s.end);
		if (r < 0)
			return err_set(e, -r, "cut %s: %s", f->name,
				       strerror(-r));
	}
	f->end = s.end;
	if (f->mark_at > f->end)
		f->mark = 0;
	if (s.last >= f->next)
		f->next = s.last + 1;
	/* A loss of power has kept more of the log than of the spool. */
	if (s.last && s.last < f->floor) {
		r = spool_file_empty(f, f->next);
		if (r < 0)
			return err_set(e, -r, "empty %s: %s", f->name,
				       strerror(-r));
	}
	return 0;
}

int spool_file_open(struct spool_file *f, uint64_t in_log, struct err *e)
{
	unsigned char raw[SPOOL_HEAD];
	struct spool_head h;
	int r;
	ssize_t n = pread(f->fd, raw, sizeof(raw), 0);

	if (n < 0)
		return err_sys(e, "read %s", f->name);
	f->next = f->floor = in_log + 1;
	f->mark = 0;
	if (n == 0) {
		r = spool_file_empty(f, f->next);
		return r < 0 ? err_set(e, -r, "make %s: %s", f->name,
				       strerror(-r))
			     : 0;
	}
	if (spool_head_get(raw, (size_t)n, &h) < 0)
		return err_set(e, EBADMSG, "%s is not a spool", f->name);
	memcpy(f->head, raw, sizeof(raw));
	if (h.first > f->next)
		f->next = f->floor = h.first;
	f->start = f->end = h.start;
	return spool_file_check(f, e);
}

/* One write(2): what it returned for is in the kernel's hands, not in ours. */
int64_t spool_file_add(struct spool_file *f, const char *body, size_t n)
{
	static struct buf record;
	ssize_t done;
	size_t size;
	int r = 0;

	if (spool_file_bytes(f) > f->size_max + f->size_max / 4)
		return -ENOSPC;
	buf_clear(&record);
	spool_put(&record, f->next, body, n);
	size = buf_len(&record);
	do
		done = pwrite(f->fd, buf_data(&record), size, (off_t)f->end);
	while (done < 0 && errno == EINTR);
	if (done < 0)
		r = -errno;
	else if ((size_t)done < size)
		r = -ENOSPC;
	if (r < 0) {
		(void)cut_to(f, f->end);
		return r;
	}
	f->end += size;
	return (int64_t)f->next++;
}

void spool_file_close(struct spool_file *f)
{
	auto_close(&f->fd);
	auto_close(&f->read_fd);
}
