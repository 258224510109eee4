/*
 * Packets of the resolver inside: one question in, one answer out (RFC 1035,
 * EDNS of RFC 6891, extended errors of RFC 8914). Pure functions; every byte
 * of a question is a stranger's.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "policy/policy.h"

enum {
	DNS_HEADER = 12,
	DNS_NAME_MAX = 255, /* as it is sent */
	DNS_QUERY_MAX = 1232,
	DNS_ANSWER_MAX = 1024,
	DNS_TTL = 60,
};

enum dns_type { DNS_A = 1, DNS_OPT = 41 };

enum dns_rcode {
	DNS_OK = 0,
	DNS_FORMERR = 1,
	DNS_SERVFAIL = 2,
	DNS_NXDOMAIN = 3,
	DNS_NOTIMP = 4,
	DNS_REFUSED = 5,
};

struct dns_query {
	uint16_t id, type;
	bool recursion; /* wanted; said again */
	bool edns;
	/* The question as it came, to be said again: letters and all. Its name
	 * is "" when it is no host name. */
	unsigned char question[DNS_NAME_MAX + 4];
	size_t question_n;
	char host[POLICY_HOST_CAP];
};

/*
 * `n` bytes of a datagram. DNS_OK; another code to be answered with; or
 * -EBADMSG: no answer at all (too short, or an answer itself).
 */
int dns_read(struct dns_query *q, const void *p, size_t n) MUST_CHECK;

/* How many bytes of `out` it is. `address` NULL: none; `why` (of a name that
 * is denied) goes with it when the query has EDNS. */
size_t dns_answer(const struct dns_query *q, enum dns_rcode code,
		  const struct in_addr *address, const char *why,
		  unsigned char out[DNS_ANSWER_MAX]);
