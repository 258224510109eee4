#include "worker/say.h"

#include <errno.h>

#include "base/clock.h"
#include "base/fd.h"

enum { ALIVE_MS = 200, KEPT_MAX = 64 * 1024 };

static int flush(struct say *s, struct err *e)
{
	int r = write_full(s->fd, buf_data(&s->b), buf_len(&s->b));

	buf_clear(&s->b);
	if (r == 0)
		return 0;
	errno = -r;
	return err_sys(e, "tell whoever asked");
}

int say_record(struct say *s, const struct view_record *r, struct err *e)
{
	view_record_put(&s->b, r);
	return buf_len(&s->b) < KEPT_MAX ? 0 : flush(s, e);
}

int say_data(struct say *s, const void *p, size_t n, struct err *e)
{
	const char *at = p;
	int r = 0;

	if (s->through)
		return s->through(s, p, n, e);
	while (n > 0 && r == 0) {
		size_t part = n < VIEW_DATA_MAX ? n : VIEW_DATA_MAX;
		struct view_record rec = { .kind = VIEW_DATA };

		rec.data.p = at;
		rec.data.n = part;
		r = say_record(s, &rec, e);
		at += part;
		n -= part;
	}
	return r;
}

int say_alive(struct say *s, struct err *e)
{
	struct view_record r = { .kind = VIEW_PROGRESS };
	uint64_t now;

	if (s->alive)
		return s->alive(s, e);
	now = clock_boot_ms();
	if (now - s->last_ms < ALIVE_MS)
		return 0;
	s->last_ms = now;
	r.progress.entries = s->entries;
	r.progress.bytes = s->bytes;
	view_record_put(&s->b, &r);
	return flush(s, e);
}

int say_end(struct say *s, const struct err *why)
{
	struct view_record r = { .kind = why->code ? VIEW_ERROR : VIEW_DONE };
	struct err ignored = { 0 };

	if (why->code)
		r.err = *why;
	view_record_put(&s->b, &r);
	return flush(s, &ignored);
}
