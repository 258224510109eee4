/*
 * process.Process of a sandbox, parts of it:
 *
 *	envd_process.c		the table, and calls that are over at once
 *	envd_process_start.c	Start: what is asked for, as a spawn of ours
 *	envd_process_stream.c	the events of a process, for Start and Connect
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "api/e2b/e2b.h"
#include "base/err.h"
#include "wire/frame.h"

enum {
	ENVD_START_MAX = 2 * 1024 * 1024, /* body; a spawn is at most half */
	ENVD_INPUT_MAX = 4 * 1024 * 1024,
};

/* How a client names a process: `at` points into `tag`. */
struct envd_ref {
	struct attach at;
	char tag[TAG_MAX + 1];
};

/* {"pid": 12} or {"tag": "name"}, that gets no output yet. */
int envd_ref_parse(const json_t *selector, struct envd_ref *ref,
		   struct err *e) MUST_CHECK;

envd_fn envd_start;

/* What a stream needs to know; copied. */
struct envd_stream_request {
	char id[ID_CAP]; /* the sandbox */
	struct identity who;
	char user[E2B_USER_CAP]; /* that was asked for */
	uint64_t timeout_ms;     /* 0: none */
};

/* From the request's fields. */
int envd_stream_timeout(const struct http_conn *c, uint64_t *ms,
			struct err *e) MUST_CHECK;
/*
 * The events of a new process (`sp`) or of one that is there (`at`), until it
 * ends. Answers the request, now or later, also when that fails.
 */
void envd_stream(struct api *a, struct http_conn *c,
		 const struct envd_stream_request *q, const struct spawn *sp,
		 const struct attach *at);
