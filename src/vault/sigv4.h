/*
 * Signatures of AWS, version 4. Pure functions. What is sent must be what was
 * signed, so the target is written anew in the form that is signed.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Of the request; names in any case, values as they are sent. */
struct sigv4_field {
	const char *name, *value;
};

enum { SIGV4_FIELDS_MAX = 100, SIGV4_DATE_CAP = 20, SIGV4_HASH_CAP = 65 };

struct sigv4 {
	const char *method;
	const char *host;   /* the value of the Host field */
	const char *target; /* path and query, encoded */
	const char *key_id, *key;
	const char *token; /* of a session; "": none */
	const char *region, *service;
	uint64_t time_s;
	const char *payload; /* sigv4_hash() of the body, or a word for it */
	/* More to sign (x-amz-*), without those that are made here: host,
	 * x-amz-date, x-amz-content-sha256, x-amz-security-token. */
	const struct sigv4_field *fields;
	size_t n_fields;
};

void sigv4_hash(const void *p, size_t n, char out[SIGV4_HASH_CAP]);
/* The fields Authorization and x-amz-date, and the target. -E2BIG: too many
 * fields. */
int sigv4_sign(const struct sigv4 *s, struct buf *authorization,
	       char date[SIGV4_DATE_CAP], struct buf *target) MUST_CHECK;
