/*
 * The writing end of the spool (audit/spool.h). What a killed writer left at
 * its end is cut off at the next start. A file that has grown is replaced by
 * one with only those records that are not on disk in the log.
 *
 * Numbers must never be used twice, or the scribe would take a new record for
 * one that it has: they go on behind the spool's and behind the log's, of
 * which a loss of power may have kept either.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/audit.h"
#include "audit/segment.h"
#include "audit/spool.h"
#include "base/auto.h"
#include "base/conf.h"
#include "base/fd.h"

enum { READ_BYTES = 128 * 1024 };

/* The number of the last record that the log has. */
static int last_in_log(const char *state_dir, uint64_t *number, struct err *e)
{
	char path[CONF_PATH + 16], line[ENTRY_LINE_MAX];
	AUTO_CLOSE int dir_fd = -1;
	struct entry last;
	int r;

	*number = 0;
	snprintf(path, sizeof(path), "%s/audit", state_dir);
	dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open %s", path);
	r = segments_last(dir_fd, line, &last, e);
	if (r > 0)
		*number = last.spool;
	return r < 0 ? err_wrap(e, "%s", path) : 0;
}

/* `path`, empty, with records from `first` on to come: 0 or -errno. */
static int make_file(const char *path, uint64_t first, int *fd)
{
	unsigned char head[SPOOL_HEAD];
	int r;

	spool_head_put(head, first);
	*fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
		   0600);
	if (*fd < 0)
		return -errno;
	r = write_full(*fd, head, sizeof(head));
	if (r < 0)
		auto_close(fd);
	return r;
}

static int copy_from(int from_fd, uint64_t at, uint64_t end, int to_fd)
{
	AUTO_FREE char *piece = xcalloc(1, READ_BYTES);

	while (at < end) {
		size_t want =
			end - at < READ_BYTES ? (size_t)(end - at) : READ_BYTES;
		ssize_t n = pread(from_fd, piece, want, (off_t)at);
		int r = n > 0 ? write_full(to_fd, piece, (size_t)n)
			      : (n < 0 ? -errno : -EIO);

		if (r < 0)
			return r;
		at += (uint64_t)n;
	}
	return 0;
}

/*
 * Up to the rename the old file counts, behind it the new one: whoever dies in
 * between, one of them has everything.
 */
static int replace(struct audit_log *l, uint64_t first, uint64_t at)
{
	char aside[sizeof(l->path) + 8];
	AUTO_CLOSE int fd = -1, read_fd = -1;
	int r;

	snprintf(aside, sizeof(aside), "%s.new", l->path);
	r = make_file(aside, first, &fd);
	if (r == 0)
		r = copy_from(l->spool_fd, at, l->size, fd);
	if (r < 0)
		return r;
	read_fd = open(aside, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (read_fd < 0 || rename(aside, l->path) < 0)
		return -errno;
	spool_close(l);
	l->spool_fd = take_fd(&fd);
	l->read_fd = take_fd(&read_fd);
	l->size = SPOOL_HEAD + l->size - at;
	l->mark = 0;
	return 0;
}

int spool_shrink(struct audit_log *l)
{
	return replace(l, l->mark, l->mark_at);
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

	*s = (struct scan){ .end = SPOOL_HEAD };
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

int spool_check(struct audit_log *l, struct err *e)
{
	struct scan s;
	struct stat st;
	int r = scan(l->spool_fd, &s);

	if (r < 0)
		return err_set(e, -r, "read %s: %s", l->path, strerror(-r));
	if (fstat(l->spool_fd, &st) < 0)
		return err_sys(e, "look at %s", l->path);
	if ((uint64_t)st.st_size > s.end) {
		log_warn("%s ended in %llu bytes that are no record, cutting "
			 "them off",
			 l->path,
			 (unsigned long long)((uint64_t)st.st_size - s.end));
		if (ftruncate(l->spool_fd, (off_t)s.end) < 0)
			return err_sys(e, "cut %s", l->path);
	}
	l->size = s.end;
	if (s.last >= l->next)
		l->next = s.last + 1;
	/* A loss of power has kept more of the log than of the spool. */
	if (s.last && s.last < l->floor) {
		r = replace(l, l->next, l->size);
		if (r < 0)
			return err_set(e, -r, "empty %s: %s", l->path,
				       strerror(-r));
	}
	return 0;
}

/* 1: there is a head. 0: there is no spool, or something that is none. */
static int take_head(struct audit_log *l, struct err *e)
{
	unsigned char head[SPOOL_HEAD];
	char aside[sizeof(l->path) + 8];
	uint64_t first;
	ssize_t n;

	l->spool_fd = open(l->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (l->spool_fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open %s", l->path);
	n = pread(l->spool_fd, head, sizeof(head), 0);
	if (n < 0)
		return err_sys(e, "read %s", l->path);
	if (spool_head_get(head, (size_t)n, &first) == 0) {
		if (first > l->next)
			l->next = l->floor = first;
		return 1;
	}
	auto_close(&l->spool_fd);
	snprintf(aside, sizeof(aside), "%s.bad", l->path);
	log_err("%s is not a spool, moving it to %s", l->path, aside);
	return rename(l->path, aside) < 0 ? err_sys(e, "rename %s", l->path)
					  : 0;
}

int spool_open(struct audit_log *l, const char *state_dir, struct err *e)
{
	uint64_t in_log;
	int r;

	if (last_in_log(state_dir, &in_log, e) < 0)
		return -e->code;
	l->next = l->floor = in_log + 1;
	l->spool_fd = l->read_fd = -1;
	snprintf(l->path, sizeof(l->path), "%s/registry/audit.spool",
		 state_dir);
	r = take_head(l, e);
	if (r < 0)
		return r;
	if (r == 0) {
		r = make_file(l->path, l->next, &l->spool_fd);
		if (r < 0)
			return err_set(e, -r, "make %s: %s", l->path,
				       strerror(-r));
	}
	if (spool_check(l, e) < 0)
		return -e->code;
	if (l->read_fd < 0)
		l->read_fd = open(l->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return l->read_fd < 0 ? err_sys(e, "open %s", l->path) : 0;
}

/* One write(2): what it returned for is in the kernel's hands, not in ours. */
int64_t spool_add(struct audit_log *l, const char *body, size_t n)
{
	static struct buf record;
	ssize_t done;
	size_t size;
	int r = 0;

	if (l->size > l->size_max + l->size_max / 4)
		return -ENOSPC;
	buf_clear(&record);
	spool_put(&record, l->next, body, n);
	size = buf_len(&record);
	do
		done = pwrite(l->spool_fd, buf_data(&record), size,
			      (off_t)l->size);
	while (done < 0 && errno == EINTR);
	if (done < 0)
		r = -errno;
	else if ((size_t)done < size)
		r = -ENOSPC;
	if (r < 0) {
		(void)!ftruncate(l->spool_fd, (off_t)l->size);
		return r;
	}
	l->size += size;
	return (int64_t)l->next++;
}

void spool_close(struct audit_log *l)
{
	auto_close(&l->spool_fd);
	auto_close(&l->read_fd);
}
