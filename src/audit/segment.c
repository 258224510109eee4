#include "audit/segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"

void segment_name(uint64_t first, char out[SEGMENT_NAME])
{
	snprintf(out, SEGMENT_NAME, "%012llu.log", (unsigned long long)first);
}

int segment_open(int dir_fd, uint64_t first, int flags)
{
	char name[SEGMENT_NAME];
	int fd;

	segment_name(first, name);
	fd = openat(dir_fd, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
		    0640);
	return fd < 0 ? -errno : fd;
}

/* The number of a name that segment_name() would make. */
static uint64_t number_of(const char *name)
{
	char again[SEGMENT_NAME], digits[SEGMENT_NAME];
	size_t n = strcspn(name, ".");
	uint64_t first;

	if (n == 0 || n >= sizeof(digits))
		return 0;
	memcpy(digits, name, n);
	digits[n] = '\0';
	if (parse_u64(digits, 1ULL << 53, &first) < 0)
		return 0;
	segment_name(first, again);
	return strcmp(name, again) == 0 ? first : 0;
}

static int by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

int segments_list(int dir_fd, struct segments *out, struct err *e)
{
	AUTO_DIR DIR *d = NULL;
	const struct dirent *de;
	size_t cap = 0;
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	out->n = 0;
	if (fd < 0)
		return err_sys(e, "open the log's directory");
	d = fdopendir(fd);
	if (!d) {
		err_sys(e, "read the log's directory");
		close(fd);
		return -e->code;
	}
	while (errno = 0, (de = readdir(d))) {
		uint64_t first = number_of(de->d_name);

		if (first == 0)
			continue;
		if (out->n == cap) {
			cap = cap ? 2 * cap : 64;
			out->first =
				xrealloc(out->first, cap * sizeof(*out->first));
		}
		out->first[out->n++] = first;
	}
	if (errno)
		return err_sys(e, "read the log's directory");
	if (out->n > 0)
		qsort(out->first, out->n, sizeof(*out->first), by_number);
	return 0;
}

void segments_done(struct segments *s)
{
	free(s->first);
	*s = (struct segments){ 0 };
}

void lines_init(struct line_reader *r, int fd)
{
	*r = (struct line_reader){ .fd = fd, .p = xcalloc(1, SEGMENT_READ) };
}

void lines_done(struct line_reader *r)
{
	free(r->p);
	r->p = NULL;
}

int lines_next(struct line_reader *r, struct span *line)
{
	for (;;) {
		char *from = r->p + r->used;
		char *nl = memchr(from, '\n', r->n - r->used);
		ssize_t got;

		if (nl) {
			*line = (struct span){ from, (size_t)(nl - from) };
			r->used += line->n + 1;
			r->at += line->n + 1;
			r->number++;
			return 1;
		}
		if (r->n - r->used >= ENTRY_LINE_MAX)
			return -EBADMSG;
		memmove(r->p, from, r->n - r->used);
		r->n -= r->used;
		r->used = 0;
		do
			got = pread(r->fd, r->p + r->n, SEGMENT_READ - r->n,
				    (off_t)(r->at + r->n));
		while (got < 0 && errno == EINTR);
		if (got < 0)
			return -errno;
		if (got == 0)
			return 0;
		r->n += (size_t)got;
	}
}

/* The last line that is an entry, from where the reader stands. */
static int last_from(struct line_reader *r, char line[ENTRY_LINE_MAX],
		     struct entry *out)
{
	struct span s = { 0 };
	const char *why;
	int rc, found = 0;

	while ((rc = lines_next(r, &s)) > 0 && s.p) {
		if (entry_parse(s.p, s.n, out, &why) < 0 || out->source.p)
			continue;
		memcpy(line, s.p, s.n);
		line[s.n] = '\0';
		found = 1;
	}
	if (found && entry_parse(line, strlen(line), out, &why) < 0)
		return -EBADMSG;
	return rc < 0 && rc != -EBADMSG ? rc : found;
}

/*
 * It is near the end: a signed one comes at least every thousand entries. Only
 * a damaged file is read as a whole.
 */
static int last_of(int fd, char line[ENTRY_LINE_MAX], struct entry *out)
{
	static const int64_t windows[] = { 2 * ENTRY_LINE_MAX, 1 << 20,
					   INT64_MAX };
	struct stat st;
	size_t i;
	int r = 0;

	if (fstat(fd, &st) < 0)
		return -errno;
	for (i = 0; i < sizeof(windows) / sizeof(*windows) && r == 0; i++) {
		struct line_reader lines;

		lines_init(&lines, fd);
		if (st.st_size > windows[i])
			lines.at = (uint64_t)(st.st_size - windows[i]);
		r = last_from(&lines, line, out);
		lines_done(&lines);
	}
	return r;
}

int segments_last(int dir_fd, char line[ENTRY_LINE_MAX], struct entry *out,
		  struct err *e)
{
	AUTO(segments_done) struct segments s = { 0 };
	size_t i;

	if (segments_list(dir_fd, &s, e) < 0)
		return -e->code;
	for (i = s.n; i-- > 0;) {
		AUTO_CLOSE int fd = segment_open(dir_fd, s.first[i], O_RDONLY);
		int r = fd < 0 ? fd : last_of(fd, line, out);

		if (r < 0)
			return err_set(e, -r, "read the log from %llu on: %s",
				       (unsigned long long)s.first[i],
				       strerror(-r));
		if (r > 0)
			return 1;
	}
	return 0;
}
