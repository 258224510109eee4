/*
 * Certificates that sandboxes trust. A project has an authority (the key is
 * the keeper's, and its door's); a door has one key of its own, and makes a
 * certificate per host when it is first needed, good for a few days, kept for
 * as long as it is used (a bounded number; the one that was not used for
 * longest goes).
 */
#pragma once

#include "base/err.h"
#include "gate/gate.h"

/* A new authority, as two PEM texts; for the keeper. */
int ca_make(const char *project, struct buf *cert, struct buf *key,
	    struct err *e) MUST_CHECK;
int ca_load(struct ca **out, const char *cert, const char *key,
	    struct err *e) MUST_CHECK;
void ca_free(struct ca *ca);

int leaves_new(struct leaves **out, struct err *e) MUST_CHECK;
void leaves_free(struct leaves *l);
/* The server's side of TLS for this host (a name or an address), with http/1.1
 * by ALPN; valid until the next call. Take it into a stream at once:
 * connections keep what they need. NULL with `e` on failure. */
struct tls_context *leaf_context(struct gate *g, struct project *p,
				 const char *host, struct err *e);
