/* Networks, as rules and lines of policy name them. */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* IPv4 as mapped addresses; 128 bits: one address. */
struct network {
	struct in6_addr net;
	unsigned bits;
};

/* An address, with or without brackets; `v4`: it is (mapped) IPv4. */
int network_address(struct in6_addr *out, const char *s, size_t n,
		    bool *v4) MUST_CHECK;
/* ADDRESS[/BITS], without bits behind the prefix. */
int network_read(struct network *x, const char *s, size_t n,
		 struct err *e) MUST_CHECK;
bool network_has(const struct network *x, const struct in6_addr *a);
/* `whole`: with the length of its prefix also when it is one address. */
void network_print(const struct network *x, bool whole, struct buf *out);
