/* A request about templates that has a JSON body, which is answered at once. */
#pragma once

#include <jansson.h>

#include "api/call.h"

struct api;
struct http_conn;

struct asked {
	struct api *api;
	struct http_conn *conn;
	struct call call;
	/* Answers. The object is the caller's, and so is the struct. */
	void (*fn)(struct asked *q, json_t *body);
};

void asked_body(struct api *a, struct http_conn *c, const struct call *call,
		void (*fn)(struct asked *q, json_t *body));
