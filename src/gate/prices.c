#include "gate/prices.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"

enum {
	PATTERN_CAP = 128,
	WORDS = 6,
	PRICE_MAX = 1000, /* per million tokens: products fit 64 bits */
};

struct price {
	char pattern[PATTERN_CAP];
	uint64_t in, out; /* millionths per million tokens */
};

struct prices {
	struct price *v;
	size_t n;
	struct host_model *hosts;
	size_t n_hosts;
};

/* "0.15": millionths. */
static int read_price(const char *s, uint64_t *out)
{
	uint64_t whole = 0, part = 0, unit = 1000000;
	const char *from = s;

	for (; *s >= '0' && *s <= '9' && whole <= PRICE_MAX; s++)
		whole = whole * 10 + (uint64_t)(*s - '0');
	if (s == from || whole > PRICE_MAX)
		return -EINVAL;
	if (*s == '.')
		for (s++; *s >= '0' && *s <= '9' && unit > 1; s++) {
			unit /= 10;
			part += (uint64_t)(*s - '0') * unit;
		}
	*out = whole * 1000000 + part;
	return *s ? -EINVAL : 0;
}

static int add_host(struct prices *p, char **w, unsigned n, struct err *e)
{
	struct host_model *h = &p->hosts[p->n_hosts];
	const char *name;
	bool address = false;
	unsigned s = 0;

	if (n != 3)
		return err_set(e, EINVAL, "'host HOST SHAPE' is meant");
	if (p->n_hosts == PRICES_HOSTS_MAX)
		return err_set(e, E2BIG, "more than %d hosts",
			       PRICES_HOSTS_MAX);
	name = w[1];
	h->host.kind = HOST_NAME;
	if (strncmp(name, "*.", 2) == 0) {
		h->host.kind = HOST_BELOW;
		name += 2;
	}
	if (host_read(name, strlen(name), h->host.host, &address) < 0)
		return err_set(e, EINVAL, "'%.80s' is not a host", w[1]);
	if (address)
		h->host.kind = HOST_ADDRESS;
	while (s < MODEL_SHAPES &&
	       strcmp(w[2], model_shape_name((enum model_shape)s)) != 0)
		s++;
	if (s == MODEL_SHAPES)
		return err_set(e, EINVAL,
			       "'%.40s' is not a shape: openai, anthropic",
			       w[2]);
	h->shape = (enum model_shape)s;
	p->n_hosts++;
	return 0;
}

static int add_price(struct prices *p, char **w, unsigned n, struct err *e)
{
	struct price *x = &p->v[p->n];

	if (n != 6 || strcmp(w[2], "in") != 0 || strcmp(w[4], "out") != 0)
		return err_set(e, EINVAL,
			       "'model PATTERN in PRICE out PRICE' is meant");
	if (p->n == PRICES_MAX)
		return err_set(e, E2BIG, "more than %d prices", PRICES_MAX);
	if (str_copy(x->pattern, sizeof(x->pattern), w[1]) < 0)
		return err_set(e, EINVAL, "'%.40s...' is too long", w[1]);
	if (read_price(w[3], &x->in) < 0 || read_price(w[5], &x->out) < 0)
		return err_set(e, EINVAL,
			       "a price is a number like 0.15, up to %d",
			       PRICE_MAX);
	p->n++;
	return 0;
}

static int read_line(struct prices *p, char *line, struct err *e)
{
	char *w[WORDS + 1] = { 0 }, *save = NULL, *s;
	unsigned n = 0;

	line[strcspn(line, "#")] = '\0';
	for (s = strtok_r(line, " \t\r", &save); s && n <= WORDS;
	     s = strtok_r(NULL, " \t\r", &save))
		w[n++] = s;
	if (n == 0)
		return 0;
	if (strcmp(w[0], "host") == 0)
		return add_host(p, w, n, e);
	if (strcmp(w[0], "model") == 0)
		return add_price(p, w, n, e);
	return err_set(e, EINVAL, "'%.40s' is neither host nor model", w[0]);
}

int prices_parse(struct prices **out, const char *text, size_t n, struct err *e)
{
	AUTO_FREE char *copy = NULL;
	struct prices *p;
	unsigned number = 0;
	char *line, *rest;

	if (n > PRICES_TEXT_MAX || memchr(text, '\0', n))
		return err_set(e, EINVAL, "too long, or no text");
	copy = xcalloc(1, n + 1);
	memcpy(copy, text, n);
	p = xcalloc(1, sizeof(*p));
	p->v = xcalloc(PRICES_MAX, sizeof(*p->v));
	p->hosts = xcalloc(PRICES_HOSTS_MAX, sizeof(*p->hosts));
	for (rest = copy; (line = strsep(&rest, "\n")) != NULL;) {
		number++;
		if (read_line(p, line, e) < 0) {
			prices_free(p);
			return err_wrap(e, "line %u", number);
		}
	}
	*out = p;
	return 0;
}

int prices_read(struct prices **out, const char *path, struct err *e)
{
	AUTO_FREE char *text = xcalloc(1, PRICES_TEXT_MAX + 2);
	ssize_t n = read_file_at(AT_FDCWD, path, text, PRICES_TEXT_MAX + 2);

	if (n < 0 && n != -ENOENT)
		return err_set(e, (int)-n, "read %s: %s", path,
			       strerror((int)-n));
	if (prices_parse(out, text, n < 0 ? 0 : (size_t)n, e) < 0)
		return err_wrap(e, "%s", path);
	return 0;
}

void prices_free(struct prices *p)
{
	if (!p)
		return;
	free(p->v);
	free(p->hosts);
	free(p);
}

const struct host_model *prices_host(const struct prices *p, const char *host)
{
	size_t i;

	for (i = 0; p && i < p->n_hosts; i++)
		if (host_pattern_fits(&p->hosts[i].host, host))
			return &p->hosts[i];
	return NULL;
}

/* A `*` is any run of characters; without recursion. */
static bool fits(const char *pattern, const char *s)
{
	const char *star = NULL, *back = NULL;

	while (*s) {
		if (*pattern == '*') {
			star = pattern++;
			back = s;
		} else if (*pattern == *s) {
			pattern++;
			s++;
		} else if (star) {
			pattern = star + 1;
			s = ++back;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return *pattern == '\0';
}

/* Rounded up, each: nothing is for free by being small. */
static uint64_t cost_of(const struct price *x, uint64_t in, uint64_t out)
{
	return (in * x->in + 999999) / 1000000 +
	       (out * x->out + 999999) / 1000000;
}

bool prices_cost(const struct prices *p, const char *model, uint64_t in,
		 uint64_t out, uint64_t *micro)
{
	size_t i;

	*micro = 0;
	for (i = 0; p && i < p->n; i++) {
		uint64_t cost = cost_of(&p->v[i], in, out);

		if (*model && fits(p->v[i].pattern, model)) {
			*micro = cost;
			return true;
		}
		if (!*model && cost > *micro)
			*micro = cost;
	}
	return !*model && p && p->n > 0;
}
