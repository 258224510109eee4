/*
 * The value of a secret, sealed to a project's public key (crypto_box_seal):
 * only the project's door can open it. What is sealed is
 *
 *	NAME PLACE PLACE... newline VALUE
 *
 * so that nobody on the way can give it another name or send it elsewhere.
 */
#pragma once

#include "vault/secret.h"

enum { SEAL_KEY = 32 };

/* Appends it. The value has 1 to SECRET_VALUE_MAX bytes. */
int secret_seal(const struct secret *s, const unsigned char key[SEAL_KEY],
		const void *value, size_t n, struct buf *out,
		struct err *e) MUST_CHECK;

/* The value in memory of its own; wiped by sealed_free(). */
struct sealed_value {
	char *p; /* NUL-terminated */
	size_t n;
};
int secret_open(const struct secret *s, const unsigned char key[SEAL_KEY],
		const unsigned char private_key[SEAL_KEY],
		struct sealed_value *out, struct err *e) MUST_CHECK;
void sealed_free(struct sealed_value *v);
