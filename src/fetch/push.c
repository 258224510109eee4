/*
 * OCI distribution: POST .../blobs/uploads/ says where the bytes go; PATCH adds
 * a piece there, each answer says where the next one goes; PUT ...?digest=
 * closes it. A piece whose fate is not known is asked for (GET: Range) before
 * it is sent again.
 */
#include "fetch/push.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

enum { PIECE = 8 << 20, TRIES_MAX = 5 };

static int need_created(const struct exchange *x, const char *what,
			struct err *e)
{
	if (x->status / 100 == 2)
		return 0;
	return err_set(e, ENOENT, "the registry has no place for %s", what);
}

static int start(struct session *s, char url[URL_MAX], struct err *e)
{
	struct exchange x = { .method = "POST" };
	int r;

	session_url(s, &x, "blobs/uploads/");
	r = session_do(s, &x, "the start of an upload", e);
	if (r == 0)
		r = need_created(&x, "this repository", e);
	if (r == 0)
		r = web_location(&x, url, e);
	exchange_done(&x);
	return r;
}

/* "0-N": N + 1 bytes are there. */
static uint64_t range_end(const char *range)
{
	const char *dash = strchr(range, '-');
	uint64_t last;

	if (!dash || parse_u64(dash + 1, INT64_MAX, &last) < 0)
		return 0;
	return last + 1;
}

/* How much of the upload the registry has. */
static int ask_offset(struct session *s, char url[URL_MAX], uint64_t *at,
		      struct err *e)
{
	struct exchange x = { .method = "GET" };
	int r;

	memcpy(x.url, url, URL_MAX);
	r = session_do(s, &x, "how far an upload is", e);
	if (r == 0)
		r = need_created(&x, "the rest of the upload", e);
	if (r == 0)
		*at = range_end(x.range);
	if (r == 0 && *x.location)
		r = web_location(&x, url, e);
	exchange_done(&x);
	return r;
}

struct piece {
	const char *p;
	size_t n;
	uint64_t at; /* in the blob */
};

static int patch_once(struct session *s, char url[URL_MAX],
		      const struct piece *p, struct exchange *x, struct err *e)
{
	char range[64];
	int r;

	snprintf(range, sizeof(range), "%llu-%llu", (unsigned long long)p->at,
		 (unsigned long long)(p->at + p->n - 1));
	x->content_range = range;
	memcpy(x->url, url, URL_MAX);
	r = session_once(s, x, "a piece of a blob", e);
	if (r == 0)
		r = need_created(x, "a piece of a blob", e);
	x->content_range = NULL;
	return r < 0 ? r : web_location(x, url, e);
}

static int send_piece(struct session *s, char url[URL_MAX], struct piece p,
		      struct err *e)
{
	const uint64_t end = p.at + p.n;
	unsigned tries = 0;
	uint64_t at = 0;
	int r;

	for (;;) {
		struct exchange x = { .method = "PATCH",
				      .content_type =
					      "application/octet-stream",
				      .body = p.p,
				      .body_n = p.n };
		bool again;

		r = patch_once(s, url, &p, &x, e);
		again = x.temporary;
		exchange_done(&x);
		if (r == 0 || !again || ++tries == TRIES_MAX)
			return r;
		*e = (struct err){ 0 };
		session_pause(tries);
		r = ask_offset(s, url, &at, e);
		if (r < 0)
			return r;
		if (at < p.at || at > end)
			return err_set(e, EREMOTEIO,
				       "the registry lost a part of the "
				       "upload");
		p.p += at - p.at;
		p.n -= (size_t)(at - p.at);
		p.at = at;
		if (p.n == 0)
			return 0;
	}
}

static int finish(struct session *s, const char *url, const char *digest,
		  const struct piece *p, struct err *e)
{
	struct exchange x = { .method = "PUT",
			      .content_type = "application/octet-stream",
			      .body = p->p,
			      .body_n = p->n };
	int n = snprintf(x.url, sizeof(x.url), "%s%cdigest=%s", url,
			 strchr(url, '?') ? '&' : '?', digest);
	int r;

	if (n < 0 || (size_t)n >= sizeof(x.url))
		return err_set(e, EREMOTEIO,
			       "the registry's address is too "
			       "long");
	r = session_do(s, &x, "a blob", e);
	if (r == 0)
		r = need_created(&x, "a blob", e);
	exchange_done(&x);
	return r;
}

int push_blob(struct session *s, const struct push_source *from, struct err *e)
{
	static char piece[PIECE];
	struct piece p = { .p = piece };
	char url[URL_MAX];
	int r = start(s, url, e);

	while (r == 0 && p.at < from->size) {
		uint64_t left = from->size - p.at;

		p.n = left < PIECE ? (size_t)left : PIECE;
		r = from->bytes(piece, p.n, e);
		if (r < 0 || from->size <= PIECE)
			break;
		r = send_piece(s, url, p, e);
		p.at += p.n;
		p.n = 0;
		if (r == 0)
			r = from->sent(p.at, e);
	}
	return r < 0 ? r : finish(s, url, from->digest, &p, e);
}

int push_manifest(struct session *s, const char *reference,
		  const char *media_type, const void *p, size_t n,
		  struct err *e)
{
	struct exchange x = { .method = "PUT",
			      .content_type = media_type,
			      .body = p,
			      .body_n = n };
	int r;

	session_url(s, &x, "manifests/%s", reference);
	r = session_do(s, &x, "the manifest", e);
	if (r == 0)
		r = need_created(&x, "the manifest", e);
	exchange_done(&x);
	return r;
}
