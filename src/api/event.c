/*
 * How a reader goes on: one piece of a file per turn of the loop, whole lines
 * of it; at the end of a file the next one; at the end of the log it sleeps
 * until it is woken, or ends. Where the client takes no more, it stops behind
 * the last line that was queued.
 *
 * A line that is not complete is read again from its start: the scribe may cut
 * it off and write another one.
 */
#include "api/event.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api.h"
#include "api/event_stream.h"
#include "api/reply.h"
#include "audit/segment.h"
#include "base/auto.h"

struct reader {
	struct list node;
	struct api *api;
	struct event_stream es;
	struct event_filter f;
	int fd;           /* of the file `segment`; -1: none yet */
	uint64_t segment; /* 0: none yet */
	uint64_t at;
	uint64_t sent;
	uint64_t from;     /* number of the first record that is wanted */
	uint64_t from_seq; /* ... of other writers: behind this entry */
	struct timer step;
	struct share *place;
	bool full; /* the client takes no more at the moment */
};

enum { DAY_MS = 24 * 3600 * 1000 };
enum going { END, AGAIN, WAIT };

static void on_step(struct timer *t);

void events_init(struct api *a)
{
	list_init(&a->events.readers);
}

static void reader_free(struct reader *r)
{
	event_stream_gone(&r->es);
	timer_del(&r->api->loop, &r->step);
	list_del(&r->node);
	share_give(r->place, 1);
	auto_close(&r->fd);
	free(r);
}

static void on_gone(struct http_conn *c, void *owner)
{
	(void)c;
	reader_free(owner);
}

static int open_log(const struct api *a)
{
	char path[CONF_PATH + 16];

	snprintf(path, sizeof(path), "%s/audit", a->conf.state_dir);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* --- which file --- */

static bool too_old(int fd, uint64_t since_ms)
{
	struct stat st;

	/* Clocks are set back, but hardly by more than a day. */
	return fstat(fd, &st) == 0 &&
	       (uint64_t)st.st_mtim.tv_sec * 1000 + DAY_MS < since_ms;
}

/* Behind the last whole line. */
static uint64_t end_of(int fd)
{
	char tail[ENTRY_LINE_MAX];
	struct stat st;
	uint64_t from;
	ssize_t n;

	if (fstat(fd, &st) < 0)
		return 0;
	from = st.st_size > (off_t)sizeof(tail)
		       ? (uint64_t)st.st_size - sizeof(tail)
		       : 0;
	n = pread(fd, tail, sizeof(tail), (off_t)from);
	while (n > 0 && tail[n - 1] != '\n')
		n--;
	return n > 0 ? from + (uint64_t)n : from;
}

/* The first file to look at: the last one that can have what is wanted. */
static size_t first_file(const struct reader *r, const struct segments *s)
{
	size_t i = s->n - 1;

	if (r->f.from_now)
		return i;
	while (i > 0 && s->first[i] > r->f.after + 1)
		i--;
	return i;
}

static bool open_file(struct reader *r, int dir_fd, uint64_t first)
{
	int fd = segment_open(dir_fd, first, O_RDONLY);

	if (fd < 0) /* it may have been removed just now, being old */
		return false;
	auto_close(&r->fd);
	r->fd = fd;
	r->segment = first;
	r->at = r->f.from_now ? end_of(fd) : 0;
	r->f.from_now = false;
	return true;
}

/* 1: another file is open, 0: there is none behind this one, or -errno. */
static int next_file(struct reader *r)
{
	AUTO(segments_done) struct segments s = { 0 };
	AUTO_CLOSE int dir_fd = -1;
	struct err e = { 0 };
	size_t i;

	/* The usual case: it is the one that is being written. */
	if (r->segment && r->segment == r->api->audit.w.segment)
		return 0;
	dir_fd = open_log(r->api);
	if (dir_fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (segments_list(dir_fd, &s, &e) < 0)
		return -e.code;
	if (s.n == 0)
		return 0;
	for (i = r->segment ? 0 : first_file(r, &s); i < s.n; i++)
		if (s.first[i] > r->segment &&
		    open_file(r, dir_fd, s.first[i]) &&
		    (i + 1 == s.n || !too_old(r->fd, r->f.since_ms)))
			return 1;
	return 0;
}

/* --- which lines --- */

static bool wanted(const struct reader *r, const struct entry *e)
{
	const struct event_filter *f = &r->f;

	if (e->seq <= f->after ||
	    (e->source.p ? e->seq <= r->from_seq : e->spool < r->from))
		return false;
	if (*f->project && !span_is(e->project, f->project))
		return false;
	if (*f->box && !span_is(e->sandbox, f->box))
		return false;
	if (*f->type)
		return span_starts(e->type, f->type);
	return !span_starts(e->type, ENTRY_OWN_TYPES);
}

/* False: no more at the moment. */
static bool send_line(struct reader *r, const char *line, size_t n,
		      uint64_t seq)
{
	char id[24];

	snprintf(id, sizeof(id), "%llu", (unsigned long long)seq);
	buf_add(event_stream_begin(&r->es, id), line, n);
	r->sent++;
	return event_stream_commit(&r->es);
}

static bool take_line(struct reader *r, const char *line, size_t n)
{
	struct entry e;
	const char *why;
	bool good = entry_parse(line, n, &e, &why) == 0;

	if (good ? r->f.raw ? e.seq > r->f.after : wanted(r, &e) : r->f.raw)
		return send_line(r, line, n, e.seq);
	return true;
}

/* Whole lines of a piece of the file; how many bytes they were. */
static size_t take_piece(struct reader *r, const char *p, size_t n)
{
	const char *nl;
	size_t at = 0;

	while (!r->full && (nl = memchr(p + at, '\n', n - at))) {
		size_t len = (size_t)(nl - p) - at;

		r->full = !take_line(r, p + at, len);
		at += len + 1;
		if (r->f.limit && r->sent == r->f.limit)
			break;
	}
	/* Longer than any line: nothing that we could show. */
	if (at == 0 && n == SEGMENT_READ)
		at = n;
	return at;
}

static enum going go_on(struct reader *r)
{
	static char piece[SEGMENT_READ];
	ssize_t n = 0;
	size_t used;
	int rc;

	if (r->fd >= 0)
		n = pread(r->fd, piece, sizeof(piece), (off_t)r->at);
	if (n < 0)
		return END;
	used = take_piece(r, piece, (size_t)n);
	r->at += used;
	if (r->f.limit && r->sent == r->f.limit)
		return END;
	if (used > 0)
		return AGAIN;
	rc = next_file(r);
	if (rc > 0)
		return AGAIN;
	return rc < 0 || !r->f.follow ? END : WAIT;
}

static void step(struct reader *r)
{
	if (r->full)
		return;
	switch (go_on(r)) {
	case END:
		event_stream_end(&r->es);
		reader_free(r);
		break;
	case AGAIN:
		if (!r->full)
			timer_set(&r->api->loop, &r->step, 0, on_step);
		break;
	case WAIT:
		break;
	}
}

static void on_step(struct timer *t)
{
	step(container_of(t, struct reader, step));
}

static void on_ready(struct http_conn *c, void *owner)
{
	struct reader *r = owner;

	(void)c;
	r->full = false;
	step(r);
}

void events_wake(struct api *a)
{
	struct list *n, *next;

	list_each (n, next, &a->events.readers) {
		struct reader *r = container_of(n, struct reader, node);

		if (r->step.slot == 0 && !r->full)
			timer_set(&a->loop, &r->step, 0, on_step);
	}
}

static unsigned of_project(const struct api *a, const char *project)
{
	struct list *n, *next;
	unsigned count = 0;

	list_each (n, next, &a->events.readers)
		count += strcmp(container_of(n, struct reader, node)->f.project,
				project) == 0;
	return count;
}

void events_send(struct api *a, struct http_conn *c,
		 const struct event_filter *f)
{
	struct share *place = NULL;
	struct reader *r;
	struct err e = { 0 };

	if (*f->project && of_project(a, f->project) >= READERS_PROJECT_MAX)
		err_set(&e, EUSERS, "too many are reading the log: try later");
	else
		place = share_take(&a->pools.readers, f->project, 1, &e);
	if (!place) {
		reply_err(a, c, &e);
		return;
	}
	r = xcalloc(1, sizeof(*r));
	r->api = a;
	r->f = *f;
	r->fd = -1;
	/* What was done before may still be on its way into the log. */
	r->from = f->from_now ? a->audit.w.spool.next : 0;
	r->from_seq = f->from_now ? a->audit.w.seq : 0;
	list_add(&a->events.readers, &r->node);
	r->place = place;
	http_own(c, r, on_gone);
	event_stream_start(&r->es, a, c, on_ready);
	step(r);
}
