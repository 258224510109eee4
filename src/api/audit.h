/*
 * What goes into the log (and so into the event stream). An entry is safe from
 * a crash of any role when the call returns, so it is made before the answer.
 *
 * Types are "object.verb": "sandbox.create", "process.exit", "file.write",
 * "api.call". `data` is small; secrets, contents and environments have no
 * place in it.
 */
#pragma once

#include <jansson.h>

struct api;
struct http_conn;
struct identity;
struct sandbox;

struct audit {
	const char *type;
	const struct sandbox *box;  /* or NULL */
	const struct identity *who; /* NULL: the daemon by itself */
	const char *request_id;     /* or NULL */
	json_t *data;               /* an object or NULL; taken */
};

void audit_add(struct api *a, const struct audit *entry);
