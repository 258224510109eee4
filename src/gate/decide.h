/* A sandbox's policies as one: the parts in their order, the first rule that
 * matches decides, and what none matches is denied. */
#pragma once

#include "gate/gate.h"

struct ruling {
	enum verdict verdict;
	bool observed;           /* let pass by GATE_OBSERVE alone */
	const char *part;        /* its name, or "no rule" */
	const struct rule *rule; /* or NULL */
};

/*
 * GATE_OBSERVE: what would be denied passes as `observed`. An https request of
 * which only the place is known is VERDICT_LOOK then, so that what is written
 * down has a method and a path; of a raw connection nothing more can be known,
 * so whoever can find out whether it is HTTP or TLS does that first.
 */
struct ruling box_decide(const struct box *b, const struct request *r);
/* Could any request to this host be allowed or asked for? `port` 0: any. */
bool box_knows_host(const struct box *b, const char *host, uint16_t port);
/* "policy research, line 4", "no rule of policy research" */
void ruling_text(const struct box *b, const struct ruling *r, struct buf *out);
/*
 * May this address (IPv4 as a mapped one) be reached as `host` though it is
 * nobody's business? Yes, when a `private` line names the network or the host.
 * A rule about an address names it only for those who asked for that address:
 * else whoever owns a name could point it there, past that rule's methods and
 * paths. Metadata services are named by their address alone.
 *
 * The policy that names it must itself let `q` pass, or ask when somebody was
 * asked: a project's own rules add nothing to what an operator's policy lets
 * reach private places. `q` NULL: it is no request of the sandbox.
 */
bool box_names_address(const struct box *b, const struct request *q, bool asked,
		       const char *host, const struct in6_addr *a,
		       uint16_t port);
/*
 * A name that was allowed has this address: does a rule that would have been
 * tried before the one that allowed it deny the address? `why` (or NULL) gets
 * its place in words.
 */
bool box_denies_address(const struct box *b, const struct request *q,
			const struct in6_addr *a, struct buf *why);
/* Was somebody asked about it, now or before? */
bool ruling_asked(const struct ruling *r);
