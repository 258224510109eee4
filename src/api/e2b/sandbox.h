/* Sandboxes as E2B asks for them and shows them. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "api/call.h"
#include "base/err.h"

struct api;
struct e2b_template;
struct http_conn;
struct sandbox;

enum { E2B_TIMEOUT_V1_S = 15, E2B_TIMEOUT_S = 300 };

/*
 * The body of a create as a native one, which the caller owns; NULL with a
 * message. `timeout_s`: when the body has none. `template` is to be ended with
 * e2b_template_done() in any case. What it may reach is not in it yet: see
 * network.h.
 */
json_t *e2b_spec(struct api *a, const struct identity *who, const json_t *body,
		 unsigned timeout_s, struct e2b_template *template,
		 struct err *e);
/* A number of seconds of `body`, as a native time in `out` (taken over by the
 * caller); `fallback` when it is missing. */
int e2b_seconds(const json_t *body, const char *key, double fallback,
		double *out, struct err *e) MUST_CHECK;

/* "Sandbox": what create, connect and fork answer, with its tokens. */
json_t *e2b_sandbox_json(struct api *a, struct http_conn *c,
			 const struct sandbox *s);
/* "SandboxDetail", and the shorter one of lists. Only who may use it gets to
 * see its token. */
json_t *e2b_detail_json(struct api *a, struct http_conn *c,
			const struct identity *who, const struct sandbox *s);
json_t *e2b_listed_json(const struct sandbox *s);
/* What its maker said about it; a borrowed object, or NULL. */
const json_t *e2b_metadata(const struct sandbox *s);
const char *e2b_template_of(const struct sandbox *s);
bool e2b_is_paused(const struct sandbox *s);
