/*
 * Credentials on the way out. The door has a project's secrets; a sandbox has
 * placeholders for those that its spec names. A request to a host (method,
 * path) that such a secret is bound to gets the real one: whatever the sandbox
 * sent in its place is overwritten, and a placeholder anywhere else in the
 * head is refused (it would be worthless, and shows a mistake).
 */
#pragma once

#include "gate/gate.h"
#include "gate/scan.h"
#include "http/parse.h"

/* Must this host be inspected, because a secret or a canary could matter? */
bool inject_needs_look(const struct box *b, const char *host, uint16_t port);

struct inject;
/* `e` with a code: refused, in words for the sandbox. Called once, from the
 * loop or before inject_start() returns; not after inject_cancel(). */
typedef void inject_fn(struct inject *j, const struct err *e);

/*
 * Some credentials must be fetched first (OAuth2), or need the body (SigV4):
 * then it takes a while. Zero-initialise; set what comes first.
 */
struct inject {
	struct box *box;
	const struct request *request;
	const struct http_head *head; /* as the sandbox sent it */
	const char *target;           /* path and query, encoded, canonical */
	/* The body, when inject_wants_body() said so. */
	const void *body;
	size_t body_n;

	/*
	 * The result: fields that the request has instead of those of the same
	 * names (value NULL: none), ending at a NULL name; `fields` itself is
	 * NULL when there are none. And the target, when it is another.
	 */
	struct http_field *fields;
	const char *new_target; /* NULL: as it is */
	const char *names[4];   /* secrets that were used, for the log */
	unsigned n_names;
	bool identity;    /* ask for an answer that is not compressed */
	struct scan mask; /* what must not come back in the answer */

	/* Private. */
	inject_fn *done;
	void *state;
};

/* The body has to be there as a whole, at most `*max` bytes of it. */
bool inject_wants_body(const struct box *b, const struct request *r,
		       const struct http_head *head, size_t *max);
void inject_start(struct inject *j, inject_fn *done);
void inject_cancel(struct inject *j);
/* Wipes and frees the result. */
void inject_done(struct inject *j);

/*
 * Words that must not leave in a body (canaries), for scan_look(); NULL: none.
 * Heads are looked at by inject_start(). inject_canary() writes down that one
 * was found, and puts the refusal into `e`.
 */
const struct scan_set *inject_canaries(struct box *b);
void inject_canary(struct box *b, const struct request *r, unsigned label,
		   struct err *e);
/* A field of the answer, with what must not come back masked. */
void inject_mask_text(struct inject *j, const char *text, struct buf *out);
/* A field's name; as a whole, because servers change the case of names. */
void inject_mask_name(struct inject *j, const char *name, struct buf *out);
/* Its uses may be others now. Streams that are open go on with the words that
 * they began with: all of them stay until the end. */
void inject_uses(struct box *b);
void inject_forget(struct box *b);

/* A one-time code of a secret that the sandbox may use (totp.c). */
enum { TOTP_CAP = 16 };
int totp_code(struct box *b, const char *name, char out[TOTP_CAP],
	      struct err *e) MUST_CHECK;
/* The same for a person: any secret of the project. */
int totp_code_of(struct project *p, const char *name, char out[TOTP_CAP],
		 struct err *e) MUST_CHECK;
