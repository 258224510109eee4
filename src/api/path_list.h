/*
 * Paths of a request about states of disks: absolute, in the form that
 * workers take (wire/view.h).
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"
#include "wire/view.h"

struct http_head;

/* Zero-initialise. */
struct path_list {
	char **v;
	size_t n;
};

/* "path" and "path_base64" behind the '?', each as often as one likes. */
int path_list_query(struct path_list *l, const struct http_head *h,
		    struct err *e) MUST_CHECK;
/* "paths" and "paths_base64" of an object: lists of strings, or missing. */
int path_list_json(struct path_list *l, const json_t *body,
		   struct err *e) MUST_CHECK;
void path_list_done(struct path_list *l);

/*
 * A path without "." and slashes too many; one that is not absolute or has a
 * ".." is refused.
 */
int path_clean(const char *path, struct buf *out, struct err *e) MUST_CHECK;
