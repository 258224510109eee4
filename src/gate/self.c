#include "gate/self.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

void self_forget(struct box *b)
{
	if (b->about)
		sodium_memzero(b->about, strlen(b->about));
	free(b->about);
	b->about = NULL;
}

int self_apply(struct gate *g, const struct gate_msg *m)
{
	struct box *b = box_find(g, m->id);

	if (m->n_bytes != GATE_SELF_HASH || strlen(m->text) > GATE_SELF_MAX)
		return -EBADMSG;
	if (!b)
		return 0; /* its sockets did not come: so it was said */
	self_forget(b);
	b->about = xstrdup(m->text);
	memcpy(b->about_for, m->bytes, GATE_SELF_HASH);
	return 0;
}

static bool has_token(const struct box *b, const struct http_head *h)
{
	const char *token = http_header(h, "X-Access-Token");
	unsigned char hash[crypto_hash_sha256_BYTES];

	_Static_assert((int)GATE_SELF_HASH == (int)crypto_hash_sha256_BYTES,
		       "hashes fit");
	if (!token)
		return false;
	crypto_hash_sha256(hash, (const unsigned char *)token, strlen(token));
	return sodium_memcmp(hash, b->about_for, sizeof(hash)) == 0;
}

static void put(struct buf *out, const char *status, const char *json,
		bool close)
{
	buf_printf(out, "HTTP/1.1 %s\r\n%s", status,
		   close ? "Connection: close\r\n" : "");
	if (!json) {
		buf_puts(out, "\r\n");
		return;
	}
	buf_printf(out,
		   "Content-Type: application/json\r\n"
		   "Cache-Control: no-store\r\n"
		   "Content-Length: %zu\r\n\r\n%s",
		   strlen(json), json);
}

void self_answer(const struct box *b, const struct http_head *h, bool close,
		 struct buf *out)
{
	bool get = strcmp(h->method, "GET") == 0;

	if (get && strcmp(h->path, "/health") == 0)
		put(out, "204 No Content", NULL, close);
	else if (!get || strcmp(h->path, "/envs") != 0)
		put(out, "404 Not Found",
		    strcmp(h->method, "HEAD") == 0
			    ? NULL
			    : "{\"code\": 404, \"message\": \"/health and "
			      "/envs are here\"}",
		    close || strcmp(h->method, "HEAD") == 0);
	else if (!b->about || !has_token(b, h))
		put(out, "401 Unauthorized",
		    "{\"code\": 401, \"message\": \"X-Access-Token is not the "
		    "sandbox's\"}",
		    close);
	else
		put(out, "200 OK", b->about, close);
}
