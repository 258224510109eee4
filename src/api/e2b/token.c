/*
 * What opens a sandbox to the E2B SDKs: tokens that are signed, not kept, as
 * those of ports are. They end with the sandbox: ids are never used again.
 *
 * A URL of a file may be signed by whoever has the token, for those who have
 * not: "v1_" and a hash of what it is for, the token among it.
 */
#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/e2b.h"
#include "base/auto.h"
#include "base/base64.h"
#include "base/clock.h"
#include "http/target.h"

static_assert((int)E2B_TOKEN_CAP >= (int)PORT_MAC_CAP, "a token fits");

void e2b_token(const struct api *a, const char *id, char out[E2B_TOKEN_CAP])
{
	port_sign(a, "e2b token 1", id, out);
}

void e2b_traffic_token(const struct api *a, const char *id,
		       char out[E2B_TOKEN_CAP])
{
	port_sign(a, "e2b traffic token 1", id, out);
}

static bool is_same(const char *want, const char *have)
{
	return strlen(want) == strlen(have) &&
	       CRYPTO_memcmp(want, have, strlen(want)) == 0;
}

bool e2b_token_opens(const struct api *a, const char *id, const char *token)
{
	char want[E2B_TOKEN_CAP];
	bool r;

	e2b_token(a, id, want);
	r = is_same(want, token);
	OPENSSL_cleanse(want, sizeof(want));
	return r;
}

bool e2b_traffic_token_opens(const struct api *a, const char *id,
			     const char *token)
{
	char want[E2B_TOKEN_CAP];
	bool r;

	e2b_traffic_token(a, id, want);
	r = is_same(want, token);
	OPENSSL_cleanse(want, sizeof(want));
	return r;
}

/* --- signed URLs --- */

/* What a signature is made of, as the query says it. */
struct signed_url {
	char path[HTTP_TARGET_MAX], user[E2B_USER_CAP], until[24];
	char signature[64];
	const char *operation;
};

static bool take_url(const struct http_head *h, struct signed_url *u)
{
	const struct {
		const char *name;
		char *to;
		size_t cap;
	} words[] = {
		{ "path", u->path, sizeof(u->path) },
		{ "username", u->user, sizeof(u->user) },
		{ "signature_expiration", u->until, sizeof(u->until) },
		{ "signature", u->signature, sizeof(u->signature) },
	};
	size_t i;

	*u = (struct signed_url){
		.operation = strcmp(h->method, "GET") == 0 ? "read" : "write",
	};
	for (i = 0; i < ARRAY_LEN(words); i++)
		if (http_query(h, words[i].name, words[i].to, words[i].cap) < 0)
			return false;
	return *u->signature != '\0';
}

static void sign_url(const struct signed_url *u, const char *token,
		     struct buf *out)
{
	AUTO(buf_done) struct buf text = { 0 };
	unsigned char hash[SHA256_DIGEST_LENGTH];

	buf_printf(&text, "%s:%s:%s:%s%s%s", u->path, u->operation, u->user,
		   token, *u->until ? ":" : "", u->until);
	SHA256((const unsigned char *)buf_data(&text), buf_len(&text), hash);
	OPENSSL_cleanse(buf_data(&text), buf_len(&text));
	buf_clear(out);
	buf_puts(out, "v1_");
	base64_add(out, hash, sizeof(hash));
}

static bool url_fits(const struct api *a, const char *id,
		     const struct signed_url *u)
{
	AUTO(buf_done) struct buf want = { 0 };
	char token[E2B_TOKEN_CAP];
	size_t n;

	e2b_token(a, id, token);
	sign_url(u, token, &want);
	OPENSSL_cleanse(token, sizeof(token));
	/* They leave the padding out. */
	for (n = buf_len(&want); n > 0 && buf_data(&want)[n - 1] == '=';)
		n--;
	return strlen(u->signature) == n &&
	       CRYPTO_memcmp(buf_data(&want), u->signature, n) == 0;
}

int e2b_signature_opens(const struct api *a, const char *id,
			const struct http_head *h, struct err *e)
{
	struct signed_url u;
	uint64_t until_s = 0;

	if (!take_url(h, &u) || !url_fits(a, id, &u))
		return err_set(e, EACCES, "invalid signature");
	if (*u.until && (parse_u64(u.until, UINT64_MAX, &until_s) < 0 ||
			 until_s <= (uint64_t)clock_wall_ms() / 1000))
		return err_set(e, EACCES, "signature is already expired");
	return 0;
}

struct sandbox *e2b_box_of_signature(struct api *a, const struct http_head *h)
{
	struct signed_url u;
	struct list *n, *next;

	if (!take_url(h, &u))
		return NULL;
	list_each (n, next, &a->boxes.all) {
		struct sandbox *s = container_of(n, struct sandbox, all);

		if (box_visible(s) && url_fits(a, s->id, &u))
			return s;
	}
	return NULL;
}
