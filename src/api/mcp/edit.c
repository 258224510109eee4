#include "api/mcp/edit.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

enum {
	PLACES_MAX = 10, /* that are named */
	SHOWN_MAX = 160, /* bytes of a line that is shown */
	ALIKE_MIN = 4,   /* letters of a line that resembles another */
};

static size_t line_of(const char *text, const char *at)
{
	size_t line = 1;

	for (; text < at; text++)
		line += *text == '\n';
	return line;
}

static const char *next(const char *p, const char *end, const char *from,
			size_t n)
{
	return memmem(p, (size_t)(end - p), from, n);
}

static void say_places(const char *text, size_t n, const char *from,
		       size_t count, struct buf *why)
{
	const char *p = text, *end = text + n;
	size_t len = strlen(from), i;

	buf_printf(why, "it is there %zu times, at lines ", count);
	for (i = 0; i < count && i < PLACES_MAX; i++, p += len) {
		p = next(p, end, from, len);
		buf_printf(why, "%s%zu", i ? ", " : "", line_of(text, p));
	}
	if (count > PLACES_MAX)
		buf_puts(why, "...");
}

/* --- what comes nearest --- */

struct span {
	const char *p;
	size_t n;
};

static struct span trim(const char *p, size_t n)
{
	while (n > 0 && isspace((unsigned char)*p)) {
		p++;
		n--;
	}
	while (n > 0 && isspace((unsigned char)p[n - 1]))
		n--;
	return (struct span){ p, n };
}

/* The first line of it that has something in it. */
static struct span first_line(const char *s)
{
	struct span line = { s, 0 };

	while (*s && line.n == 0) {
		size_t n = strcspn(s, "\n");

		line = trim(s, n);
		s += n + (s[n] == '\n');
	}
	return line;
}

/* How much two lines have in common at both ends; SIZE_MAX: all but space. */
static size_t likeness(struct span a, struct span b)
{
	size_t min = a.n < b.n ? a.n : b.n, head = 0, tail = 0;

	if (a.n == b.n && memcmp(a.p, b.p, a.n) == 0)
		return SIZE_MAX;
	while (head < min && a.p[head] == b.p[head])
		head++;
	while (tail < min - head && a.p[a.n - 1 - tail] == b.p[b.n - 1 - tail])
		tail++;
	return head + tail;
}

static void say_nearest(const char *text, size_t n, const char *from,
			struct buf *why)
{
	struct span want = first_line(from), best = { NULL, 0 };
	const char *p = text, *end = text + n;
	size_t line = 1, best_line = 0, most = 0;

	buf_puts(why, "it is not there, exactly like that");
	for (; p < end; line++) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		const char *stop = nl ? nl : end;
		struct span here = trim(p, (size_t)(stop - p));
		size_t same = likeness(want, here);

		if (same > most) {
			most = same;
			best = here;
			best_line = line;
		}
		p = stop + 1;
	}
	if (most < ALIKE_MIN || most < want.n / 3)
		return;
	buf_printf(why, ". %s line %zu: ",
		   most == SIZE_MAX ? "Its first line is, with other space "
				      "around or other lines behind it,"
				    : "Nearest to its first line comes",
		   best_line);
	buf_add(why, best.p, best.n < SHOWN_MAX ? best.n : SHOWN_MAX);
}

size_t edit_text(const struct edit *x, struct buf *out, struct buf *why)
{
	const char *p = x->text, *end = x->text + x->n, *at;
	size_t len = strlen(x->from), count = 0;

	for (at = p; (at = next(at, end, x->from, len)); at += len)
		count++;
	if (count == 0) {
		say_nearest(x->text, x->n, x->from, why);
		return 0;
	}
	if (count > 1 && !x->all) {
		say_places(x->text, x->n, x->from, count, why);
		return count;
	}
	if (x->n - count * len + count * strlen(x->to) > x->max) {
		buf_printf(why, "the file would have more than %zu bytes",
			   x->max);
		return count;
	}
	while ((at = next(p, end, x->from, len))) {
		buf_add(out, p, (size_t)(at - p));
		buf_puts(out, x->to);
		p = at + len;
	}
	buf_add(out, p, (size_t)(end - p));
	return count;
}
