/*
 * The first message of TLS (ClientHello): who the client says it wants. A pure
 * function; every byte is a stranger's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "policy/policy.h"

enum { HELLO_MAX = 16 * 1024 };

struct hello {
	char sni[POLICY_HOST_CAP]; /* canonical (host_read()); "": none */
	bool ech;                  /* it may want somebody else, hidden */
	bool http1;                /* ALPN is missing, or offers http/1.1 */
};

/*
 * `n` bytes from the start of the connection. 1: it is whole. 0: more must
 * come (never beyond HELLO_MAX). -EPROTO: it is no TLS. -EBADMSG: malformed,
 * two names, a name that is an address or no host name.
 */
int hello_read(struct hello *h, const void *p, size_t n) MUST_CHECK;
