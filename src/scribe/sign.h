/* The log's key (ed25519) and its hashes (SHA-256), by libsodium. */
#pragma once

#include <sodium.h>
#include <stdbool.h>

#include "audit/entry.h"
#include "base/err.h"

struct sign_key {
	unsigned char secret[crypto_sign_SECRETKEYBYTES];
	char public[2 * crypto_sign_PUBLICKEYBYTES + 1]; /* hexadecimal */
};

/* Once, before a filter of system calls. */
int sign_init(struct err *e) MUST_CHECK;
/*
 * The key in the files `key` and `key.pub` of a directory; makes them when
 * they are missing. A public key that belongs to no secret key any more is
 * kept as `key.pub.old`.
 */
int sign_load(int dir_fd, struct sign_key *k, struct err *e) MUST_CHECK;
/* A public key in hexadecimal, from a file. */
int sign_read_public(int dir_fd, const char *path,
		     char out[2 * crypto_sign_PUBLICKEYBYTES + 1],
		     struct err *e) MUST_CHECK;

/* Of `n` bytes and a '}', which closes what was left open. */
void hash_closed(const char *p, size_t n, char out[HASH_HEX + 1]);
void sign_closed(const struct sign_key *k, const char *p, size_t n,
		 char out[SIGNATURE_HEX + 1]);

/* Does the line have the hash that it should have? */
bool entry_hash_ok(const char *line, const struct entry *e);
bool entry_signed_by(const char *line, const struct entry *e,
		     const char *public_hex);
