/* Processes in JSON: what clients ask for, and what they are told. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/frame.h"

struct api;
struct http_conn;
struct http_head;

enum {
	RUN_OUTPUT = 256 * 1024, /* kept of each stream of a run */
	RUN_OUTPUT_MAX = 4 * 1024 * 1024,
};

/* What a request is for: which keys its JSON may have. */
enum proc_use {
	PROC_START = 1,
	PROC_RUN = 2,  /* to its end, the answer has the output */
	PROC_ONCE = 4, /* the same in a sandbox of its own */
};

struct proc_request {
	struct spawn spawn; /* points into what is below */
	bool detach;
	const char *input; /* NULL: none */
	size_t input_len;
	uint64_t timeout_ms; /* 0: none */
	size_t max_output;
	json_t *spec; /* borrowed; NULL: none */

	json_t *json;
	struct buf env_text;
};

/* Takes the reference `j`, also when it fails. */
int proc_request_parse(struct proc_request *q, json_t *j, enum proc_use use,
		       struct err *e) MUST_CHECK;
void proc_request_done(struct proc_request *q);

/* Words for people and programs that name a process: letters, digits, "._-". */
bool proc_tag_valid(const char *s);
/* "12" or "tag:NAME", as in a path; `tag` points into `ref`. */
int proc_ref_parse(const char *ref, struct attach *at,
		   struct err *e) MUST_CHECK;
/* "15", "TERM" or "SIGTERM"; 0 when there is no such signal. */
int proc_signal_parse(const json_t *v);
/* {"rows", "cols"} of a terminal. */
int proc_size_parse(const json_t *j, uint16_t *rows, uint16_t *cols,
		    struct err *e) MUST_CHECK;

/* A number behind the '?'; `*out` stays as it is when it is missing. */
int query_number(const struct http_head *h, const char *name, uint64_t max,
		 uint64_t *out, struct err *e) MUST_CHECK;
int query_bool(const struct http_head *h, const char *name, bool *out,
	       struct err *e) MUST_CHECK;

json_t *exit_json(const struct exit_info *x);
/* {"number", "pid", "tag"}; the tag "" is null. */
json_t *started_json(uint32_t number, uint32_t pid, const char *tag);

/* {"error", "message"}, with the words of HTTP answers. */
json_t *error_json(const struct err *e);

/*
 * Why a process did not run, from the agent or from us: an error of the
 * command (no such program) is the client's, and not that of a missing object.
 */
void reply_spawn_err(struct api *a, struct http_conn *c, const struct err *e);
/* False: it is an error of the command. */
bool spawn_err_is_ours(int code);
