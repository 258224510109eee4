#include "api/e2b/asked.h"

#include <stdlib.h>

#include "api/api.h"
#include "api/e2b/e2b.h"
#include "api/reply.h"
#include "base/auto.h"

static void asked_gone(struct http_conn *c, void *owner)
{
	(void)c;
	free(owner);
}

static void on_body(struct http_conn *c, char *text, size_t n, void *owner)
{
	AUTO_FREE struct asked *q = owner;
	struct err e = { 0 };
	json_t *body = parse_body(text, n, &e);

	if (body)
		q->fn(q, body);
	else
		e2b_fail_err(q->api, c, &e);
	json_decref(body);
}

void asked_body(struct api *a, struct http_conn *c, const struct call *call,
		void (*fn)(struct asked *q, json_t *body))
{
	struct asked *q = xcalloc(1, sizeof(*q));

	q->api = a;
	q->conn = c;
	q->call = *call;
	q->fn = fn;
	http_own(c, q, asked_gone);
	http_read_body(c, BODY_MAX, on_body);
}
