/* Values that clients send as they are: sealed for the door of the project
 * before anything else is done with them (vault/seal.h). */
#pragma once

#include <jansson.h>

#include "base/err.h"
#include "vault/seal.h"

/* The key in the answer of GET /v1/vault/key. */
int e2b_vault_key(int status, const json_t *answer, unsigned char key[SEAL_KEY],
		  struct err *e) MUST_CHECK;
/*
 * The body of a native request that sets `s`, with this value, which is wiped
 * in any case; NULL with a message.
 */
json_t *e2b_sealed(const struct secret *s, const unsigned char key[SEAL_KEY],
		   json_t *value, struct err *e);
void e2b_wipe(json_t *value);
