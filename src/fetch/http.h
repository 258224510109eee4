/*
 * Requests over HTTP(S), with libcurl. Only hosts that the operator has listed
 * are spoken to, whoever names them: a registry's redirects and token servers
 * included. Plain http is for those listed as insecure.
 */
#pragma once

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/fetch.h"

enum {
	URL_MAX = 4096,
	FIELD_MAX = 4096,
	TEXT_MAX = 64 * 1024, /* of an answer that is not passed on */
};

/* What the operator allows. */
struct policy {
	char *registries, *insecure; /* lists, see fetch_host_listed() */
	char *ca;                    /* PEM; NULL: none could be read */
	size_t ca_n;
};

struct web {
	CURL *curl;
	const struct policy *policy;
};

struct exchange {
	/* Asked. */
	const char *method;
	char url[URL_MAX];
	const char *authorization; /* a value, or NULL */
	const char *accept, *content_type, *content_range; /* or NULL */
	const void *body; /* of a PUT, PATCH or POST */
	size_t body_n;
	uint64_t offset; /* of what is wanted: the rest from there */
	/* Gets the body of a 2xx; NULL: it is put into `text`. */
	int (*sink)(void *ctx, const void *p, size_t n);
	void *ctx;

	/* Answered. */
	long status;
	char type[FETCH_MEDIA_CAP]; /* Content-Type without parameters */
	char location[URL_MAX];
	char challenge[FIELD_MAX]; /* WWW-Authenticate */
	char range[64];            /* Range, of an upload */
	struct buf text;
	uint64_t passed; /* bytes that the sink got since it was last zero */
	bool temporary;  /* after a failure: it is worth another try */

	/* Private. */
	uint64_t skip; /* bytes in front of `offset`: the server sends all */
	bool began;
	int sink_error;
};

int web_init(struct web *w, const struct policy *p, struct err *e) MUST_CHECK;
void web_done(struct web *w);
/* "https" or "http" for a host that may be spoken to; NULL, and the reason. */
const char *web_scheme(const struct web *w, const char *host, struct err *e);
/*
 * One request to x->url, which must be an allowed one; no redirect is
 * followed. 0: there is an answer, with any status.
 */
int web_do(struct web *w, struct exchange *x, struct err *e) MUST_CHECK;
void exchange_done(struct exchange *x);
/* Puts x->location, resolved against x->url, into `out`. */
int web_location(const struct exchange *x, char out[URL_MAX],
		 struct err *e) MUST_CHECK;
/* Scheme, host and port are the same. */
bool web_same_origin(const char *a, const char *b);
