/* Reading JSON that somebody else wrote: what the documents have in common. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/oci.h"

/* The JSON object (or array) of a document called `what`, or NULL. */
json_t *doc_load(const void *p, size_t n, const char *what, struct err *e);
/* The string member `key` if it is one and fits; else "". */
void doc_text(const json_t *o, const char *key, char *out, size_t cap);
/* A descriptor: digest and size must be good, the media type may be missing. */
int doc_blob(const json_t *o, const char *what, struct oci_blob *b,
	     struct err *e) MUST_CHECK;
/* `j` as text, added to `b`; takes the reference. */
void doc_add(struct buf *b, json_t *j);

static inline void auto_json(json_t **j)
{
	json_decref(*j);
}
#define AUTO_JSON AUTO(auto_json)
