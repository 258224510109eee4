/* A process as a stream of events; see docs of GET .../processes/{number}. */
#pragma once

#include "base/err.h"

struct api;
struct attach;
struct http_conn;
struct identity;
struct sandbox;
struct spawn;

/*
 * Exactly one of `sp` (a new process) and `at` is given. Answers the request,
 * now or later, also when that fails.
 */
void proc_stream_start(struct api *a, struct http_conn *c, struct sandbox *s,
		       const struct identity *who, const struct spawn *sp,
		       const struct attach *at);
