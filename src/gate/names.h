/*
 * The resolver inside: answers from policy and asks nobody. A name that some
 * rule could allow has a synthetic address of 198.18.0.0/15 (and no AAAA);
 * others do not exist, with the reason as an extended error (RFC 8914).
 *
 * Names and addresses are pairs in the sandbox's state, so they stay what they
 * are over a restart. Each sandbox has a block of addresses; which one depends
 * on its id, so that an address which one learned from another means nothing.
 */
#pragma once

#include "gate/gate.h"

/* The datagram sockets of a sandbox (box.dns, box.udp) are readable. */
void names_read(struct box *b, struct io *io);
/* The name behind a synthetic address (IPv4 as a mapped one), or NULL. Good
 * until the next question is read. */
const char *names_host(struct box *b, const struct in6_addr *a);
bool names_is_synthetic(const struct in6_addr *a);
