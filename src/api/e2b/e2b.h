/*
 * The wire of the E2B SDKs, translated: their control plane and what a
 * sandbox of theirs serves on port 49983 ("envd"), onto our own API. Nothing
 * is decided here: who may do what, limits and the log are those of the native
 * requests that are made (api/inner.h), or of the functions behind them.
 *
 *	recognise.c	which requests are to a sandbox
 *	routing.c	to whom they go
 *	token.c		access tokens, signatures of file URLs
 *	connect.c	Connect-JSON: unary answers, streams of envelopes
 *	job.c		a few native requests, one after the other
 *	h_*.c		the control plane, an area each
 *	envd_*.c	the data plane: processes, files, watching
 *
 * The control plane are rows of the table of routes like all others, with
 * ROUTE_FOREIGN: they are not in our OpenAPI document. Errors have our own
 * shape, in which their SDKs find the `code` and `message` they look for.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/call.h"

struct api;
struct http_conn;
struct http_head;
struct sandbox;

/* The code interpreter's server inside asks us with the token that it got. */
enum { E2B_CODE_PORT = 49999 };
enum { E2B_ENVD_PORT = 49983, E2B_USER_CAP = 64, E2B_TOKEN_CAP = 80 };
#define E2B_ENVD_VERSION "0.6.13"

/*
 * A request to a sandbox rather than about one: by the field E2b-Sandbox-Id,
 * by the name "PORT-ID.domain", or a signed URL of a file. True: it is taken
 * care of.
 */
bool e2b_by_sandbox(struct api *a, struct http_conn *c);
/* The same question, only asked: tokens speak for these, not the page they
 * come from. */
bool e2b_is_to_sandbox(const struct http_head *h);
/* A URL of a file that carries a signature. */
bool e2b_is_signed(const struct http_head *h);

/* One request to port 49983; the token was checked. Valid in the handler. */
struct envd_call {
	struct sandbox *box;
	struct identity who; /* of its project, SCOPE_USE */
	/* From `Authorization: Basic`, or ?username=; "": the usual one. */
	char user[E2B_USER_CAP];
};

typedef void envd_fn(struct api *a, struct http_conn *c,
		     const struct envd_call *call);

enum envd_flags {
	ENVD_OPEN = 1,   /* needs no token */
	ENVD_SIGNED = 2, /* takes a signature in its place */
	ENVD_ASLEEP = 4, /* does not wake a sandbox that is paused */
};

struct envd_route {
	const char *method, *path; /* exactly */
	envd_fn *fn;
	unsigned flags;
};

/* Each ends at a NULL method. */
extern const struct envd_route envd_host_routes[], envd_process_routes[],
	envd_fs_routes[], envd_file_routes[];

/* --- tokens --- */

/* The token of a sandbox for port 49983, and that of its private ports. */
void e2b_token(const struct api *a, const char *id, char out[E2B_TOKEN_CAP]);
void e2b_traffic_token(const struct api *a, const char *id,
		       char out[E2B_TOKEN_CAP]);
bool e2b_token_opens(const struct api *a, const char *id, const char *token);
bool e2b_traffic_token_opens(const struct api *a, const char *id,
			     const char *token);
/* A signed URL of a file: does it open this sandbox now? Else EACCES. */
int e2b_signature_opens(const struct api *a, const char *id,
			const struct http_head *h, struct err *e) MUST_CHECK;
/* The sandbox whose token it was signed with, or NULL. */
struct sandbox *e2b_box_of_signature(struct api *a, const struct http_head *h);

/* --- answers --- */

/* {"code": status, "message": msg} with our own word besides. */
void e2b_fail(struct api *a, struct http_conn *c, int status, const char *msg);
void e2b_fail_err(struct api *a, struct http_conn *c, const struct err *e);
/* The error of a native request, in their statuses (410 is 404). */
void e2b_pass_error(struct api *a, struct http_conn *c, int status,
		    const json_t *answer);
/* 502, as their proxy says it. */
void e2b_not_found(struct api *a, struct http_conn *c, const char *id);
/* What was kept of a create ({"template", "metadata", ...}), or NULL when the
 * sandbox was not made over E2B. Borrowed. */
const json_t *e2b_kept(const struct sandbox *s);
