/* A sandbox as clients see it. */
#pragma once

#include <jansson.h>

struct api;
struct buf;
struct ended;
struct http_conn;
struct sandbox;

json_t *box_json(const struct sandbox *s);
/* The same as text, with the text of its spec: to print that takes as long as
 * all the rest. */
void box_text(const struct sandbox *s, const char *spec, struct buf *out);
/* Answers with it, status 200. */
void reply_box(struct api *a, struct http_conn *c, struct sandbox *s);
json_t *ended_json(const struct ended *x);
