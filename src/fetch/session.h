/*
 * A conversation with one repository of one registry: who we are to it, where
 * it sends us, and how often we try.
 */
#pragma once

#include "fetch/http.h"

struct session {
	struct web web;
	char base[URL_MAX]; /* "https://HOST/v2/NAME/" */
	char repository[FETCH_REPO_CAP];
	char *user, *password; /* "": none */
	bool push;
	struct buf authorization; /* what the registry wants to see; or "" */
};

int session_open(struct session *s, const struct policy *p,
		 const struct fetch_record *open, struct err *e) MUST_CHECK;
void session_done(struct session *s);
/*
 * A request to x->url: shows who we are if asked, follows redirects of GET and
 * HEAD, and tries again what failed for the moment; a body that was passed on
 * in part goes on from there. 0: the status is 2xx or 404. `what` is for the
 * message: "the manifest".
 */
int session_do(struct session *s, struct exchange *x, const char *what,
	       struct err *e) MUST_CHECK;
/* The same, tried once: x->temporary says whether to try again. */
int session_once(struct session *s, struct exchange *x, const char *what,
		 struct err *e) MUST_CHECK;
/* Before try 2, 3, ... */
void session_pause(unsigned tries);
/* x->url becomes the base with this behind it. */
void session_url(const struct session *s, struct exchange *x, const char *fmt,
		 ...) PRINTF_LIKE(3, 4);

/* auth.c: an answer to a challenge; EKEYREJECTED when there is none. */
int session_authorize(struct session *s, const char *challenge,
		      struct err *e) MUST_CHECK;
