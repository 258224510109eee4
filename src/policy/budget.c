/* The words of a budget: one table for reading and writing. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "policy/target.h"

enum kind { COUNT, RATE, BYTES };

static const struct limit {
	const char *name;
	enum kind kind;
	size_t at;
	const char *example;
} words[] = {
	{ "requests", RATE, offsetof(struct budget, requests), "500/h" },
	{ "up", BYTES, offsetof(struct budget, up_bytes), "20MB" },
	{ "down", BYTES, offsetof(struct budget, down_bytes), "2GB" },
	{ "connections", COUNT, offsetof(struct budget, connections), "20" },
};

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
static int read_rate(struct budget *b, const char *value)
{
	const char *slash = strchr(value, '/');
	char number[24];

	b->per_ms = 0;
	if (!slash)
		return parse_u64(value, UINT32_MAX, &b->requests);
	if ((size_t)(slash - value) >= sizeof(number) ||
	    read_span(slash + 1, &b->per_ms) < 0)
		return -EINVAL;
	snprintf(number, sizeof(number), "%.*s", (int)(slash - value), value);
	return parse_u64(number, UINT32_MAX, &b->requests);
}

static int read_value(struct budget *b, const struct limit *w,
		      const char *value)
{
	uint64_t *to = (uint64_t *)((char *)b + w->at);
	int r = -EINVAL;

	switch (w->kind) {
	case COUNT:
		r = parse_u64(value, UINT32_MAX, to);
		break;
	case RATE:
		r = read_rate(b, value);
		break;
	case BYTES:
		r = parse_size(value, to);
		break;
	}
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
		       "budget: '%.32s' is unknown: requests, up, down, "
		       "connections",
		       word);
}

void budget_each(const struct budget *b,
		 void (*fn)(void *arg, const char *word, const char *value),
		 void *arg)
{
	char value[48];
	size_t i, k;

	for (i = 0; i < ARRAY_LEN(words); i++) {
		uint64_t v = *(const uint64_t *)((const char *)b + words[i].at);
		int n = snprintf(value, sizeof(value), "%" PRIu64, v);

		if (v == 0)
			continue;
		for (k = 0; words[i].kind == RATE && k < ARRAY_LEN(spans); k++)
			if (spans[k].ms == b->per_ms)
				snprintf(value + n, sizeof(value) - (size_t)n,
					 "/%s", spans[k].name);
		fn(arg, words[i].name, value);
	}
}
