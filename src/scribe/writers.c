#include "scribe/writers.h"

#include <stdio.h>
#include <string.h>

enum { LIST_MAX = 100 }; /* names in one entry: some 11 KB */

static const char list_name[] = "{\"writers\":{";
static const char gone_name[] = "{\"source\":\"";

void writers_init(struct writers *w)
{
	memset(w, 0, sizeof(*w));
	snprintf(w->v[0].name, sizeof(w->v[0].name), "api");
	w->v[0].busy = true;
	w->n = 1;
}

struct writer *writers_find(struct writers *w, const char *name, size_t n)
{
	unsigned i;

	if (n == 0 || n >= SCRIBE_NAME)
		return NULL;
	for (i = 0; i < w->n; i++)
		if (memcmp(w->v[i].name, name, n) == 0 &&
		    w->v[i].name[n] == '\0')
			return &w->v[i];
	return NULL;
}

/* A free place, or that of the one which can best be spared. */
static struct writer *place(struct writers *w)
{
	struct writer *best = NULL;
	unsigned i;

	for (i = 0; i < w->n; i++) {
		struct writer *x = &w->v[i];

		if (!x->name[0])
			return x;
		if (!x->busy && x->now == x->synced &&
		    (!best || x->seq < best->seq))
			best = x;
	}
	return w->n < SCRIBE_WRITERS_MAX ? &w->v[w->n++] : best;
}

static struct writer *add(struct writers *w, const char *name, size_t n,
			  char gone[SCRIBE_NAME])
{
	struct writer *x = place(w);

	gone[0] = '\0';
	if (!x)
		return NULL;
	memcpy(gone, x->name, SCRIBE_NAME);
	*x = (struct writer){ 0 };
	memcpy(x->name, name, n);
	return x;
}

struct writer *writers_get(struct writers *w, const char *name,
			   char gone[SCRIBE_NAME])
{
	struct writer *x = writers_find(w, name, strlen(name));

	gone[0] = '\0';
	return x ? x : add(w, name, strlen(name), gone);
}

void writers_written(struct writers *w)
{
	unsigned i;

	for (i = 0; i < w->n; i++)
		w->v[i].written = w->v[i].now;
}

void writers_synced(struct writers *w)
{
	unsigned i;

	for (i = 0; i < w->n; i++)
		w->v[i].synced = w->v[i].written;
}

void writers_forget(struct writers *w)
{
	unsigned i;

	for (i = 0; i < w->n; i++)
		w->v[i].now = w->v[i].written;
}

/* The api's number is in each of the scribe's own entries. */
bool writers_list(const struct writers *w, unsigned *at, struct buf *out)
{
	unsigned n = 0;

	buf_puts(out, list_name + 1);
	for (; *at < w->n && n < LIST_MAX; ++*at) {
		const struct writer *x = &w->v[*at];

		if (*at == 0 || !x->name[0] || x->now == 0)
			continue;
		buf_printf(out, "%s\"%s\":%llu", n ? "," : "", x->name,
			   (unsigned long long)x->now);
		n++;
	}
	buf_puts(out, "}");
	return n > 0;
}

static void set(struct writers *w, struct span name, uint64_t number,
		uint64_t seq)
{
	struct writer *x = writers_find(w, name.p, name.n);
	char gone[SCRIBE_NAME];

	if (!x && name.n > 0 && name.n < SCRIBE_NAME)
		x = add(w, name.p, name.n, gone);
	if (!x)
		return;
	if (number > x->now)
		x->now = x->written = x->synced = number;
	x->seq = seq;
}

/* {"writers":{"gate":12,...}: what we wrote ourselves, so only this form. */
static void learn_list(struct writers *w, const struct entry *e)
{
	const char *p = e->data.p + sizeof(list_name) - 1;
	const char *end = e->data.p + e->data.n;

	while (p < end && (*p == '"' || *p == ',')) {
		struct span name = { p + (*p == ',') + 1, 0 };
		uint64_t number = 0;

		while (name.p + name.n < end && name.p[name.n] != '"')
			name.n++;
		p = name.p + name.n + 2; /* behind the quote and the colon */
		for (; p < end && *p >= '0' && *p <= '9'; p++)
			number = number * 10 + (uint64_t)(*p - '0');
		if (p < end)
			set(w, name, number, e->seq);
	}
}

static void learn_gone(struct writers *w, const struct entry *e)
{
	const char *p = e->data.p + sizeof(gone_name) - 1;
	const char *end = memchr(p, '"', e->data.n - (sizeof(gone_name) - 1));
	struct writer *x = end ? writers_find(w, p, (size_t)(end - p)) : NULL;

	if (x && x != writers_api(w))
		*x = (struct writer){ 0 };
}

void writers_learn(struct writers *w, const struct entry *e)
{
	set(w, e->source.p ? e->source : (struct span){ "api", 3 }, e->spool,
	    e->seq);
}

bool writers_are_told(const struct entry *e)
{
	return (span_is(e->type, "log.writers") &&
		span_starts(e->data, list_name)) ||
	       (span_is(e->type, "log.forget") &&
		span_starts(e->data, gone_name));
}

void writers_hear(struct writers *w, const struct entry *e)
{
	if (span_is(e->type, "log.writers"))
		learn_list(w, e);
	else
		learn_gone(w, e);
}
