#include "fetch/session.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/str.h"

enum {
	REDIRECTS_MAX = 5,
	TRIES_MAX = 4,              /* without progress in between */
	TOTAL_MS = 6 * 3600 * 1000, /* with all tries; then it was the last */
	PAUSE_MS = 250,             /* then twice that, and so on */
	REASON_MAX = 120,
};

int session_open(struct session *s, const struct policy *p,
		 const struct fetch_record *open, struct err *e)
{
	const char *scheme;

	if (web_init(&s->web, p, e) < 0)
		return -e->code;
	scheme = web_scheme(&s->web, open->host, e);
	if (!scheme)
		return -e->code;
	snprintf(s->base, sizeof(s->base), "%s://%s/v2/%s/", scheme, open->host,
		 open->repository);
	snprintf(s->repository, sizeof(s->repository), "%s", open->repository);
	s->user = xstrdup(open->user);
	s->password = xstrdup(open->password);
	s->push = open->flag;
	return 0;
}

void session_done(struct session *s)
{
	web_done(&s->web);
	if (s->password)
		explicit_bzero(s->password, strlen(s->password));
	free(s->user);
	free(s->password);
	buf_done(&s->authorization);
}

void session_url(const struct session *s, struct exchange *x, const char *fmt,
		 ...)
{
	size_t n = strlen(s->base);
	va_list ap;

	memcpy(x->url, s->base, n + 1);
	va_start(ap, fmt);
	vsnprintf(x->url + n, sizeof(x->url) - n, fmt, ap);
	va_end(ap);
}

/* Credentials are for the registry itself, wherever it sends us. */
static int ask_once(struct session *s, struct exchange *x, struct err *e)
{
	x->authorization = NULL;
	if (buf_len(&s->authorization) > 0 && web_same_origin(s->base, x->url))
		x->authorization = buf_str(&s->authorization);
	return web_do(&s->web, x, e);
}

static bool redirects(const struct exchange *x)
{
	return (strcmp(x->method, "GET") == 0 ||
		strcmp(x->method, "HEAD") == 0) &&
	       (x->status == 301 || x->status == 302 || x->status == 303 ||
		x->status == 307 || x->status == 308);
}

static int follow(struct session *s, struct exchange *x, struct err *e)
{
	bool asked = false;
	int hops = 0, r;

	for (;;) {
		r = ask_once(s, x, e);
		if (r < 0)
			return r;
		if (x->status == 401 && !asked &&
		    web_same_origin(s->base, x->url)) {
			asked = true;
			r = session_authorize(s, x->challenge, e);
		} else if (redirects(x)) {
			if (hops++ == REDIRECTS_MAX)
				return err_set(e, EREMOTEIO,
					       "the registry sends us round in "
					       "circles");
			r = web_location(x, x->url, e);
		} else {
			return 0;
		}
		if (r < 0)
			return r;
	}
}

/* {"errors": [{"code": ..., "message": ...}]}, or nothing. */
static void reason_of(const struct exchange *x, char out[REASON_MAX])
{
	json_t *j = json_loadb(buf_data(&x->text), buf_len(&x->text), 0, NULL);
	const char *text = json_string_value(json_object_get(
		json_array_get(json_object_get(j, "errors"), 0), "message"));

	out[0] = '\0';
	if (text)
		snprintf(out, REASON_MAX, ": %s", text);
	json_decref(j);
}

static int judge(struct exchange *x, const char *what, struct err *e)
{
	char reason[REASON_MAX];

	if (x->status / 100 == 2 || x->status == 404)
		return 0;
	reason_of(x, reason);
	if (x->status == 401 || x->status == 403)
		return err_set(e, EKEYREJECTED,
			       "the registry refuses %s%s: has the user the "
			       "right to it?",
			       what, reason);
	x->temporary = x->status == 429 || x->status / 100 == 5;
	return err_set(e, EREMOTEIO, "the registry answers %ld to %s%s",
		       x->status, what, reason);
}

void session_pause(unsigned tries)
{
	unsigned ms = PAUSE_MS << (tries - 1);
	struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };

	while (nanosleep(&t, &t) < 0 && errno == EINTR)
		;
}

int session_once(struct session *s, struct exchange *x, const char *what,
		 struct err *e)
{
	int r = follow(s, x, e);

	return r < 0 ? r : judge(x, what, e);
}

int session_do(struct session *s, struct exchange *x, const char *what,
	       struct err *e)
{
	char url[URL_MAX];
	uint64_t began = clock_boot_ms();
	unsigned tries = 0;
	int r;

	memcpy(url, x->url, sizeof(url));
	for (;;) {
		r = session_once(s, x, what, e);
		if (r == 0)
			return 0;
		if (x->passed > 0)
			tries = 0;
		x->offset += x->passed;
		x->passed = 0;
		if (!x->temporary || ++tries >= TRIES_MAX ||
		    clock_boot_ms() - began > TOTAL_MS)
			return r;
		*e = (struct err){ 0 };
		session_pause(tries);
		memcpy(x->url, url, sizeof(url));
	}
}
