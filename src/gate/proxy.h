/*
 * The proxy between us and the world, `upstream_proxy`, and how it is asked:
 * CONNECT, with the name and password of the setting (Basic). Pure.
 */
#pragma once

#include "gate/gate.h"
#include "http/parse.h"

struct upstream_proxy {
	char host[POLICY_HOST_CAP];
	uint16_t port;
	char user[128]; /* "NAME:PASSWORD"; "": none */
};

/* "http://[USER:PASSWORD@]HOST[:PORT]" */
int proxy_read(struct upstream_proxy *p, const char *url,
	       struct err *e) MUST_CHECK;
/* The request for a way to host:port. */
void proxy_ask(const struct upstream_proxy *p, const char *host, uint16_t port,
	       struct buf *out);
/* `head`: a whole one. 0, or -EPROTO with what the proxy said. */
int proxy_answer(const char *head, size_t n, struct err *e) MUST_CHECK;
