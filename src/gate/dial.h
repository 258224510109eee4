/*
 * The way to a server outside: the name is resolved once, every address it has
 * is checked (address.c), one that passed is connected to, and nothing else.
 * With TLS: the server's name in the hello, its certificate verified against
 * that name, http/1.1 by ALPN. Through `upstream_proxy`, when there is one, by
 * CONNECT: then it is the proxy that resolves names.
 *
 * The struct is embedded in its owner. `done` is called once, from the loop;
 * after dial_cancel() it is not.
 */
#pragma once

#include "gate/gate.h"
#include "http/stream.h"

struct dial;
struct dial_work;
/* On success `d->stream` is connected and the caller's to move. `e` says what
 * is wrong in words for the sandbox; its code: EACCES the address is refused,
 * ENOENT no such name, EPROTO TLS failed, ETIMEDOUT, ECONNREFUSED... */
typedef void dial_fn(struct dial *d, const struct err *e);

/* Zero-initialise; set what comes first. */
struct dial {
	struct box *box;
	char host[POLICY_HOST_CAP]; /* canonical; an address or a name */
	uint16_t port;
	bool tls;
	const struct request *request; /* what it is for; NULL: our own */
	bool asked;                    /* somebody was, about the request */

	struct http_stream stream;
	char address[64]; /* that was connected to, in words */
	bool named;       /* not for everybody: only for this request */

	/* Private. */
	struct dial_work *work; /* while it goes on */
};

/* Are `resolver` and `upstream_proxy` as they should be? For the start. */
int dial_check(const struct conf *c, struct err *e) MUST_CHECK;

void dial_start(struct dial *d, dial_fn *done);
void dial_cancel(struct dial *d);
/* It is done: may it be where it is, by the policies of now? */
bool dial_stays(const struct dial *d);

/*
 * address.c. All of them are IPv6 ones, IPv4 as mapped ones.
 *
 * Why an address must not be connected to, or NULL. Not from what a rule says:
 * the caller asks box_names_address() then.
 */
const char *address_forbidden(const struct in6_addr *a);
enum { ADDRESS_CAP = INET6_ADDRSTRLEN };
/* Without a scope, in the one form that inet_pton() takes. */
int address_read(struct in6_addr *out, const char *s) MUST_CHECK;
void address_text(const struct in6_addr *a, char out[ADDRESS_CAP]);
void address_map(struct in6_addr *out, const void *v4);
socklen_t address_socket(const struct in6_addr *a, uint16_t port,
			 struct sockaddr_storage *out);
