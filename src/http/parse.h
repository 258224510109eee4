/*
 * HTTP/1.1 message heads (RFC 9112), strictly: what two programs could read
 * differently is refused, because request smuggling lives on leniency. Pure
 * functions, no I/O; every byte given to them may come from an attacker.
 *
 * Refused: bare CR or LF, control bytes, folded lines, spaces before a colon,
 * empty lines in front, any target but origin-form, no or two Host fields,
 * Content-Length together with Transfer-Encoding, a length that is not plain
 * digits, every transfer coding but "chunked", chunked in HTTP/1.0.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
	HTTP_HEAD_MAX = 16 * 1024, /* a head with its last CRLF */
	HTTP_LINE_MAX = 8 * 1024,  /* a line without its CRLF */
	HTTP_TARGET_MAX = 4 * 1024,
	HTTP_METHOD_MAX = 16,
	HTTP_FIELDS_MAX = 100
};

/* Lists that callers pass end at a NULL name. */
struct http_field {
	const char *name, *value;
};

enum http_body { HTTP_NO_BODY, HTTP_LENGTH, HTTP_CHUNKED, HTTP_UNTIL_CLOSE };

/*
 * One parsed head. The strings are NUL-terminated, contain no control bytes
 * and live until the next parse into the same struct, or http_head_done().
 * Zero-initialise before first use.
 */
struct http_head {
	const char *method; /* requests */
	const char *target; /* as it came */
	const char *path;   /* decoded once: "/v1/a b"; see http/target.h */
	const char *query;  /* as it came, without '?'; "" when there is none */
	/* http_parse_proxy_request() only. */
	const char *authority; /* HOST[:PORT] of the target, or NULL */
	const char *sent;      /* the path, encoded: what is passed on */
	bool slashes;          /* some in `path` came encoded */
	int status;            /* responses */
	const char *reason;
	int minor;            /* HTTP/1.minor: 0 or 1 */
	bool keep_alive;      /* the sender does not want to close */
	bool expect_continue; /* requests */
	enum http_body body;  /* what follows the head */
	uint64_t length;      /* of the body, when HTTP_LENGTH */
	unsigned n_fields;
	struct http_field field[HTTP_FIELDS_MAX];
	char *text; /* owned: what the strings point into */
};

void http_head_done(struct http_head *h);

/*
 * Where a head that arrives in pieces was left off. Zero-initialise for each
 * head. Bad bytes are found as soon as they are there.
 */
struct http_scan {
	size_t at, line;
};

/*
 * `p` holds all bytes from the start of the head. Returns the length of the
 * head when it is complete, 0 when bytes are missing, or the negative HTTP
 * status that refuses it, with `why` in words: -400, -414 or -431.
 */
int http_scan_head(struct http_scan *s, const char *p, size_t n,
		   const char **why) MUST_CHECK;

/*
 * Parses one complete head of `n` bytes (as http_scan_head() found it).
 * 0, or a negative status with `why`: also -417, -501, -505. After a failure
 * `h` has no strings.
 */
int http_parse_request(struct http_head *h, const char *p, size_t n,
		       const char **why) MUST_CHECK;
/*
 * The same for a proxy. Two more forms of targets: "CONNECT host:port" (`path`
 * is "" then) and "http://host[:port]/path"; and paths that have a meaning
 * elsewhere alone: see http_target_proxy().
 */
int http_parse_proxy_request(struct http_head *h, const char *p, size_t n,
			     const char **why) MUST_CHECK;
/*
 * `method` is that of the request: an answer to HEAD has no body. For
 * responses every failure is -400.
 */
int http_parse_response(struct http_head *h, const char *p, size_t n,
			const char *method, const char **why) MUST_CHECK;

/* First field of that name in any case, or NULL. */
const char *http_header(const struct http_head *h, const char *name);
/* Is `token` in the comma-separated list of that field? Case is ignored. */
bool http_has_token(const struct http_head *h, const char *name,
		    const char *token);
/*
 * A request for exactly this upgrade: HTTP/1.1, `Connection: Upgrade` and
 * `Upgrade: protocol`.
 */
bool http_wants_upgrade(const struct http_head *h, const char *protocol);

bool http_is_token(const char *s); /* a method or field name */
bool http_is_value(const char *s); /* a field value: no control bytes */
