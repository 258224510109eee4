/* Snapshots as E2B asks for them. */
#pragma once

#include "api/call.h"

struct api;
struct http_conn;

/*
 * DELETE of a template whose name is that of a snapshot: theirs are templates.
 * False: `ref` is none, and nothing was answered.
 */
bool e2b_snapshot_delete(struct api *a, struct http_conn *c,
			 const struct call *call, const char *ref);
