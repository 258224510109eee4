/*
 * Files in JSON. A name is any bytes but NUL and '/'. Where it is UTF-8, it is
 * a string. Where not, the string "path" has U+FFFD for what cannot be said,
 * and "path_base64" beside it has the name itself; the same for "name",
 * "target", "to" and "next". Requests take each of their paths either way:
 * "path" or "path_base64" (with '-' and '_', or '+' and '/'), which is also
 * for names with control bytes behind a '?'.
 */
#pragma once

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/file.h"

struct http_head;

/* Sets `key`, and "key_base64" if need be. */
void json_set_path(json_t *j, const char *key, const char *path);
json_t *file_entry_json(const struct file_entry *n);
/* The same without its names: one side of a comparison; none is null. */
json_t *file_state_json(const struct file_entry *n);
/* What an entry has in addition when it was asked for. */
json_t *file_detail_json(const struct file_detail *d);
/* {"type", "path", "to"} */
json_t *file_event_json(const struct file_record *r);

/*
 * A path of a request, as query parameter or member of the body: 1 and its
 * bytes with a NUL, 0 when it is missing, -EINVAL.
 */
int path_from_query(const struct http_head *h, const char *name,
		    struct buf *path, struct err *e) MUST_CHECK;
int path_from_json(const json_t *j, const char *name, struct buf *path,
		   struct err *e) MUST_CHECK;
/* The same from `n` bytes of text or base64: 1 or -EINVAL; `name` is for the
 * message. */
int path_take_text(const char *name, const char *text, size_t n,
		   struct buf *path, struct err *e) MUST_CHECK;
int path_take_base64(const char *name, const char *text, size_t n,
		     struct buf *path, struct err *e) MUST_CHECK;
