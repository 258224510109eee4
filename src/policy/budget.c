/* The words of a budget: one table for reading and writing. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "policy/target.h"

enum kind { COUNT, RATE, BYTES, THOUSANDS, MONEY };

static const struct limit {
	const char *name;
	enum kind kind;
	size_t at, span_at; /* of the limit, and of its time */
	const char *example;
} words[] = {
#define AT(member) offsetof(struct budget, member)
	{ "requests", RATE, AT(requests), AT(per_ms), "500/h" },
	{ "rate", RATE, AT(rate), AT(rate_ms), "5/s" },
	{ "up", BYTES, AT(up_bytes), 0, "20MB" },
	{ "down", BYTES, AT(down_bytes), 0, "2GB" },
	{ "connections", COUNT, AT(connections), 0, "20" },
	{ "tokens", THOUSANDS, AT(tokens), 0, "2M" },
	{ "cost", MONEY, AT(cost_micro), 0, "5.00" },
#undef AT
};

static uint64_t *member(const struct budget *b, size_t at)
{
	return (uint64_t *)((char *)b + at);
}

static const struct {
	const char *name;
	uint64_t ms;
} spans[] = {
	{ "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 }
};

static int read_span(const char *s, uint64_t *ms)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(spans); i++)
		if (strcmp(spans[i].name, s) == 0) {
			*ms = spans[i].ms;
			return 0;
		}
	return -EINVAL;
}

/* "500", "500/h" */
static int read_rate(const char *value, uint64_t *count, uint64_t *ms)
{
	const char *slash = strchr(value, '/');
	char number[24];

	*ms = 0;
	if (!slash)
		return parse_u64(value, UINT32_MAX, count);
	if ((size_t)(slash - value) >= sizeof(number) ||
	    read_span(slash + 1, ms) < 0)
		return -EINVAL;
	snprintf(number, sizeof(number), "%.*s", (int)(slash - value), value);
	return parse_u64(number, UINT32_MAX, count);
}

/* "2000000", "2000k", "2M" */
static int read_thousands(const char *value, uint64_t *out)
{
	static const char units[] = "kMG";
	size_t n = strlen(value);
	const char *unit = n ? strchr(units, value[n - 1]) : NULL;
	char number[24];

	if (n >= sizeof(number))
		return -EINVAL;
	snprintf(number, sizeof(number), "%.*s", (int)(n - (unit != NULL)),
		 value);
	if (parse_u64(number, UINT32_MAX, out) < 0)
		return -EINVAL;
	for (; unit && unit >= units; unit--)
		*out *= 1000;
	return 0;
}

/* "5", "5.00", "0.25": up to six digits behind the point. */
static int read_money(const char *value, uint64_t *micro)
{
	const char *point = strchr(value, '.');
	size_t whole = point ? (size_t)(point - value) : strlen(value), i;
	char text[24];

	if (whole == 0 || whole > 9 || (point && strlen(point + 1) > 6))
		return -EINVAL;
	snprintf(text, sizeof(text), "%.*s%s", (int)whole, value,
		 point ? point + 1 : "");
	for (i = point ? strlen(point + 1) : 0; i < 6; i++)
		memcpy(text + strlen(text), "0", 2);
	return parse_u64(text, UINT64_MAX, micro);
}

static int read_value(struct budget *b, const struct limit *w,
		      const char *value)
{
	uint64_t *to = member(b, w->at);
	int r = -EINVAL;

	switch (w->kind) {
	case COUNT:
		r = parse_u64(value, UINT32_MAX, to);
		break;
	case RATE:
		r = read_rate(value, to, member(b, w->span_at));
		break;
	case BYTES:
		r = parse_size(value, to);
		break;
	case THOUSANDS:
		r = read_thousands(value, to);
		break;
	case MONEY:
		r = read_money(value, to);
		break;
	}
	/* What is only a rate has a time. */
	if (r == 0 && w->at == offsetof(struct budget, rate) && !b->rate_ms)
		r = -EINVAL;
	return r == 0 && *to == 0 ? -EINVAL : r;
}

int budget_read(struct budget *b, const char *word, const char *value,
		struct err *e)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(words); i++) {
		if (strcmp(words[i].name, word) != 0)
			continue;
		if (read_value(b, &words[i], value) < 0)
			return err_set(e, EINVAL,
				       "budget: '%.32s' is no value of %s: "
				       "write %s",
				       value, word, words[i].example);
		return 0;
	}
	return err_set(e, EINVAL,
		       "budget: '%.32s' is unknown: requests, rate, up, down, "
		       "connections, tokens, cost",
		       word);
}

static void put_value(const struct budget *b, const struct limit *w, char *out,
		      size_t cap)
{
	uint64_t v = *member(b, w->at);
	size_t k;
	int n;

	if (w->kind == MONEY) {
		snprintf(out, cap, "%" PRIu64 ".%06" PRIu64, v / 1000000,
			 v % 1000000);
		return;
	}
	n = snprintf(out, cap, "%" PRIu64, v);
	for (k = 0; w->kind == RATE && k < ARRAY_LEN(spans); k++)
		if (spans[k].ms == *member(b, w->span_at))
			snprintf(out + n, cap - (size_t)n, "/%s",
				 spans[k].name);
}

void budget_each(const struct budget *b,
		 void (*fn)(void *arg, const char *word, const char *value),
		 void *arg)
{
	char value[48];
	size_t i;

	for (i = 0; i < ARRAY_LEN(words); i++) {
		if (*member(b, words[i].at) == 0)
			continue;
		put_value(b, &words[i], value, sizeof(value));
		fn(arg, words[i].name, value);
	}
}
