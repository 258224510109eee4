/*
 * Myers, "An O(ND) Difference Algorithm and Its Variations" (1986), greedy,
 * from the start. What both texts begin and end with is taken off first. Lines
 * are compared by a number that equal ones share.
 *
 * A search is given up after COST_MAX changes: the way that came furthest is
 * taken, and the next one starts there. So the time is bounded by the lines of
 * both times COST_MAX, and memory by its square, whoever wrote the texts.
 */
#include "cli/lines.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

enum {
	CONTEXT = 3,
	COST_MAX = 512,
};

struct line {
	const char *p;
	size_t n;
	unsigned number; /* the same for the same text */
	bool changed;    /* not in the other text */
};

struct text {
	struct line *v;
	size_t n;
};

/* --- lines and their numbers --- */

static void split(struct text *t, const char *p, size_t n)
{
	size_t cap = 0;

	while (n > 0) {
		const char *nl = memchr(p, '\n', n);
		size_t len = nl ? (size_t)(nl - p) + 1 : n;

		if (t->n == cap) {
			cap = cap ? 2 * cap : 64;
			t->v = xrealloc(t->v, cap * sizeof(*t->v));
		}
		t->v[t->n++] = (struct line){ .p = p, .n = len };
		p += len;
		n -= len;
	}
}

static uint64_t hash(const struct line *l)
{
	uint64_t h = 14695981039346656037u;
	size_t i;

	for (i = 0; i < l->n; i++)
		h = (h ^ (unsigned char)l->p[i]) * 1099511628211u;
	return h ^ h >> 29;
}

static bool same_text(const struct line *a, const struct line *b)
{
	return a->n == b->n && memcmp(a->p, b->p, a->n) == 0;
}

/* An open table of the first line of each text; twice as large as needed. */
static void number_lines(struct text *a, struct text *b)
{
	struct text *const both[2] = { a, b };
	size_t cap = 16, i, k;
	struct line **table;
	unsigned next = 0;

	while (cap < 2 * (a->n + b->n))
		cap *= 2;
	table = xcalloc(cap, sizeof(struct line *));
	for (k = 0; k < 2; k++)
		for (i = 0; i < both[k]->n; i++) {
			struct line *l = &both[k]->v[i];
			size_t at = hash(l) & (cap - 1);

			while (table[at] && !same_text(table[at], l))
				at = (at + 1) & (cap - 1);
			if (!table[at]) {
				table[at] = l;
				l->number = next++;
			} else {
				l->number = table[at]->number;
			}
		}
	free(table);
}

/* --- the way from one to the other --- */

/* Lines of `a` from `x` on, and of `b` from `y` on. */
struct place {
	size_t x, y;
};

struct search {
	const struct text *a, *b;
	size_t a_end, b_end;
	struct place from;
	/* How far each diagonal came with 0, 1, 2... changes: row d has
	 * 2 * d + 1 of them, in `reach` from d * d on. */
	uint32_t *reach;
};

/* x on diagonal k (x - y, counted from where the search began) of row d. */
static uint32_t *at(const struct search *s, long d, long k)
{
	return &s->reach[d * d + d + k];
}

/* Did the step to diagonal k of row d add a line of b? Else it left one of a
 * out. */
static bool came_down(const struct search *s, long d, long k)
{
	return k == -d ||
	       (k != d && *at(s, d - 1, k - 1) < *at(s, d - 1, k + 1));
}

/* Row d: each diagonal one change further than the row before, and then as
 * far as the lines are equal. */
static struct place advance(const struct search *s, long d, bool *done)
{
	struct place best = s->from;
	size_t most = 0;
	long k;

	for (k = -d; k <= d; k += 2) {
		size_t x = 0, y;

		if (d > 0)
			x = came_down(s, d, k) ? *at(s, d - 1, k + 1)
					       : *at(s, d - 1, k - 1) + 1U;
		y = (size_t)((long)x - k);
		while (s->from.x + x < s->a_end && s->from.y + y < s->b_end &&
		       s->a->v[s->from.x + x].number ==
			       s->b->v[s->from.y + y].number) {
			x++;
			y++;
		}
		*at(s, d, k) = (uint32_t)x;
		if (s->from.x + x > s->a_end || s->from.y + y > s->b_end)
			continue; /* beyond a corner: leads nowhere */
		if (x + y >= most) {
			most = x + y;
			best = (struct place){ s->from.x + x, s->from.y + y };
		}
	}
	*done = best.x == s->a_end && best.y == s->b_end;
	return best;
}

/* Marks the changes on the way to `to`, which is in row d. */
static void mark(const struct search *s, long d, struct place to)
{
	long k = (long)(to.x - s->from.x) - (long)(to.y - s->from.y);

	for (; d > 0; d--) {
		bool down = came_down(s, d, k);
		size_t x = *at(s, d - 1, down ? k + 1 : k - 1);

		k = down ? k + 1 : k - 1;
		if (down)
			s->b->v[s->from.y + (size_t)((long)x - k)].changed =
				true;
		else
			s->a->v[s->from.x + x].changed = true;
	}
}

/* From one place to a further one, by the fewest changes there are. */
static struct place go_on(const struct search *s)
{
	struct place to = s->from;
	bool done = false;
	long d;

	for (d = 0; !done && d < COST_MAX; d++)
		to = advance(s, d, &done);
	mark(s, d - 1, to);
	return to;
}

static void find_changes(const struct text *a, const struct text *b)
{
	struct search s = { .a = a, .b = b, .a_end = a->n, .b_end = b->n };
	size_t i;

	while (s.from.x < s.a_end && s.from.y < s.b_end &&
	       a->v[s.from.x].number == b->v[s.from.y].number) {
		s.from.x++;
		s.from.y++;
	}
	while (s.a_end > s.from.x && s.b_end > s.from.y &&
	       a->v[s.a_end - 1].number == b->v[s.b_end - 1].number) {
		s.a_end--;
		s.b_end--;
	}
	s.reach = xcalloc((size_t)(COST_MAX + 1) * (COST_MAX + 1),
			  sizeof(*s.reach));
	while (s.from.x < s.a_end && s.from.y < s.b_end)
		s.from = go_on(&s);
	free(s.reach);
	for (i = s.from.x; i < s.a_end; i++)
		a->v[i].changed = true;
	for (i = s.from.y; i < s.b_end; i++)
		b->v[i].changed = true;
}

/* --- hunks --- */

static void put_line(struct buf *out, char mark, const struct line *l)
{
	buf_add(out, &mark, 1);
	buf_add(out, l->p, l->n);
	if (l->n == 0 || l->p[l->n - 1] != '\n')
		buf_puts(out, "\n\\ No newline at end of file\n");
}

/* "3,4"; of no lines it is the line in front that is named. */
static void put_range(struct buf *out, char mark, size_t from, size_t to)
{
	size_t n = to - from;

	buf_printf(out, n == 1 ? "%c%zu" : "%c%zu,%zu", mark,
		   n == 0 ? from : from + 1, n);
}

static bool changed(const struct text *t, size_t i)
{
	return i < t->n && t->v[i].changed;
}

/* Past the changes at this place. */
static void skip_changed(const struct text *a, const struct text *b,
			 struct place *p)
{
	while (changed(a, p->x))
		p->x++;
	while (changed(b, p->y))
		p->y++;
}

/* Where the hunk of the change at `p` ends: the context behind it included. */
static struct place hunk_end(const struct text *a, const struct text *b,
			     struct place p)
{
	size_t same = 0;

	for (;;) {
		if (changed(a, p.x) || changed(b, p.y)) {
			skip_changed(a, b, &p);
			same = 0;
		} else if (p.x < a->n && p.y < b->n && same < 2 * CONTEXT) {
			p.x++;
			p.y++;
			same++;
		} else {
			break;
		}
	}
	same = same > CONTEXT ? same - CONTEXT : 0;
	return (struct place){ p.x - same, p.y - same };
}

static void put_hunk(struct buf *out, const struct text *a,
		     const struct text *b, struct place from, struct place to)
{
	buf_puts(out, "@@ ");
	put_range(out, '-', from.x, to.x);
	buf_puts(out, " ");
	put_range(out, '+', from.y, to.y);
	buf_puts(out, " @@\n");
	while (from.x < to.x || from.y < to.y) {
		if (from.x < to.x && changed(a, from.x)) {
			put_line(out, '-', &a->v[from.x++]);
		} else if (from.y < to.y && changed(b, from.y)) {
			put_line(out, '+', &b->v[from.y++]);
		} else {
			put_line(out, ' ', &a->v[from.x++]);
			from.y++;
		}
	}
}

void lines_diff(struct buf *out, const char *a, size_t a_n, const char *b,
		size_t b_n)
{
	struct text old = { 0 }, new = { 0 };
	struct place p = { 0, 0 };

	split(&old, a, a_n);
	split(&new, b, b_n);
	number_lines(&old, &new);
	find_changes(&old, &new);
	while (p.x < old.n || p.y < new.n) {
		struct place from, to;
		size_t back;

		if (!changed(&old, p.x) && !changed(&new, p.y)) {
			p.x++;
			p.y++;
			continue;
		}
		back = p.x < CONTEXT ? p.x : CONTEXT;
		back = p.y < back ? p.y : back;
		from = (struct place){ p.x - back, p.y - back };
		to = hunk_end(&old, &new, p);
		put_hunk(out, &old, &new, from, to);
		p = to;
	}
	free(old.v);
	free(new.v);
}
