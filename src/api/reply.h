/* Answers: one shape of errors, one table from errno to status. */
#pragma once

#include <jansson.h>

#include "base/err.h"
#include "http/server.h"

struct api;

/* An error of ours; the request is finished. */
void reply_err(struct api *a, struct http_conn *c, const struct err *e);
/* The status for an errno, and the word that clients know it by. */
int reply_status(int code, const char **word);
void reply_error(struct api *a, struct http_conn *c, int status,
		 const char *word, const char *msg);
/* Takes the reference. */
void reply_json(struct api *a, struct http_conn *c, int status, json_t *j);
/* JSON text, and fields that end at a NULL name (or NULL). */
void reply_text(struct api *a, struct http_conn *c, int status,
		const struct http_field *extra, const char *json);
void reply_empty(struct api *a, struct http_conn *c, int status);
/* A time as clients see it; 0 is null. */
json_t *json_time(uint64_t wall_ms);
/* A body that must be a JSON object; NULL with a message. */
json_t *parse_body(const char *body, size_t n, struct err *e);
