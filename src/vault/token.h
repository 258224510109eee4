/*
 * Tokens of OAuth 2 (RFC 6749): what is asked for, and what the answer says.
 * Pure functions; every byte of an answer is a stranger's.
 */
#pragma once

#include <stdint.h>

#include "vault/secret.h"

/* The lines of the value of such a secret; those that are missing are "". */
enum token_line {
	TOKEN_CLIENT_SECRET,
	TOKEN_REFRESH,
	/* Of a person's consent, for once. */
	TOKEN_CODE,
	TOKEN_VERIFIER,
	TOKEN_REDIRECT,
	TOKEN_ACCESS, /* one that nobody renews */
	TOKEN_LINES
};

struct token_value {
	char *text; /* owned: what the lines point into */
	const char *line[TOKEN_LINES];
};
void token_value_read(struct token_value *v, const char *value);
void token_value_done(struct token_value *v); /* wipes */

/* The body of a request for a token. */
void token_request(const struct secret *s, const struct token_value *v,
		   struct buf *out);

/* Zero-initialise. */
struct token {
	struct buf access, refresh, error; /* "": none */
	bool expires;                      /* it says when */
	uint64_t expires_s; /* ... from now; 0: it is over already */
};
void token_done(struct token *t); /* wipes */
/* -EBADMSG: it is no JSON object, or has strange letters in its texts. */
int token_read(struct token *t, const char *p, size_t n) MUST_CHECK;
