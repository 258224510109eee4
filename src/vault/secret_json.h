/* A secret as JSON: all about it but its value. */
#pragma once

#include <jansson.h>

#include "vault/secret.h"

/* What is not said is "". A new reference. */
json_t *secret_to_json(const struct secret *s);
/*
 * {"kind", "hosts", ...} with the names of secret_texts. `s` has its name;
 * the rest is set, and checked. "sealed" (base64) is taken if it is there.
 */
int secret_from_json(struct secret *s, const json_t *j,
		     struct err *e) MUST_CHECK;
