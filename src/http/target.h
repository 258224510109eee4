/*
 * Request targets: percent-decoding, done once and in one place, and its
 * inverse for clients.
 *
 * A decoded path starts with '/', is UTF-8 and has no control byte, no
 * backslash, no empty, "." or ".." segment (a slash at the end is allowed),
 * and no slash that was encoded: what a route table compares is what there is.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "http/parse.h"

/*
 * `target` in origin-form. `path` has room for strlen(target) + 1 bytes;
 * `query` points behind the '?' or to the end of `target`. 0 or -EINVAL.
 */
int http_target_split(const char *target, char *path,
		      const char **query) MUST_CHECK;

/*
 * For a proxy, whose policy compares `path` while a server elsewhere reads
 * `sent`: what that server could take for another path is refused. `sent` is
 * the path in its normal form (RFC 3986, 6.2.2), with as much room as `path`.
 *
 * Encoded slashes may be there: `path` has them as slashes, and `*slashes` says
 * so; http_path_kept() is the other reading, with "%2F" in their place. Besides
 * what http_target_split() refuses: a path that was encoded twice, and ".;x"
 * and "..;x", which some servers take for "." and "..".
 */
int http_target_proxy(const char *target, char *path, char *sent,
		      const char **query, bool *slashes) MUST_CHECK;
/* `out` has room for strlen(sent) + 1 bytes. */
void http_path_kept(const char *sent, char *out);

/*
 * The decoded value of a query parameter ('+' is a space). 1 when it is there
 * ("?all" has the value ""), 0 when not, -EINVAL when it is given twice or is
 * not UTF-8 or has control bytes, -ENAMETOOLONG when it does not fit.
 */
int http_query(const struct http_head *h, const char *name, char *out,
	       size_t cap) MUST_CHECK;

/*
 * The same for one that may be given several times: `*at` is the head's query
 * first, and moves on. 0: there is no more.
 */
int http_query_next(const char **at, const char *name, char *out,
		    size_t cap) MUST_CHECK;

/* Appends a query (that was checked) without the parameter of this name. */
void http_query_without(struct buf *out, const char *query, const char *name);

/* Appends `s` percent-encoded, as one path segment or query value. */
void http_encode(struct buf *b, const char *s);

static inline bool http_is_utf8(const char *s, size_t n)
{
	return str_is_utf8(s, n);
}
/* 0 to 15, or -1. */
int http_hex_value(char c);
