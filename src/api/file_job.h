/*
 * One request about files: a builtin of the agent (wire/file.h) that does it
 * as the user, and the HTTP request that waits for it. The job is the
 * request's owner; when the client leaves, the builtin is killed.
 *
 *	h_file.c	requests: what is asked for
 *	file_job.c	the builtin from its start to its end, errors
 *	file_answer.c	what comes out of it, as an answer
 *	file_json.c	entries, events and names in JSON, both ways
 *
 * What the builtin writes comes from the sandbox: sizes and order are checked,
 * and nothing of it is kept that the client does not take.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/call.h"
#include "api/event_stream.h"
#include "api/process.h"
#include "base/buf.h"
#include "base/err.h"
#include "wire/file.h"

struct api;
struct file_change;
struct file_job;
struct http_conn;

/* What an answer says about the rest. */
enum job_next {
	JOB_GO_ON,
	JOB_HOLD, /* the client is slow: no more before it took this */
	JOB_OVER, /* the job is gone */
};

struct file_answer {
	/* The body of the request is the builtin's input. */
	bool upload;
	/* Bytes of stdout: all are taken. */
	enum job_next (*output)(struct file_job *j, const char *p, size_t n);
	/* All was done, and all output given: answers, with job_end(). */
	void (*done)(struct file_job *j);
	/* It failed after the answer had begun; NULL: the answer is cut. */
	void (*failed)(struct file_job *j, const struct err *e);
};

struct file_job {
	struct api *api;
	struct http_conn *conn;
	struct process proc;
	const struct file_answer *answer;
	const struct file_change *change; /* whose body is read; h_file.c */
	struct identity who;
	char box_id[ID_CAP];
	/* The type of the entry in the log and its data; NULL: none. */
	const char *audit;
	json_t *note;
	/* The arguments of the builtin, each with its NUL. */
	struct buf words;
	size_t n_words;
	char user[FILE_NAME_MAX + 1];
	/*
	 * It failed while the body was coming. Many clients look for an answer
	 * only when they have sent it all, so a rest that is not too large is
	 * taken and dropped first.
	 */
	struct err failed;
	uint64_t received;
	bool asked, complete; /* the body */
	/* stderr */
	char why[FILE_ERROR_MAX];
	size_t n_why;
	/* stdout: the start of a record; what the client has not taken */
	struct buf in;
	size_t held;
	/* The answer. */
	bool begun; /* it is being streamed */
	bool range; /* a part was asked for */
	bool last;  /* no record may follow */
	json_t *result, *notes;
	/* Of what the next record is about; NULL: nothing came. */
	bool detail; /* it was asked for */
	json_t *details, *entry;
	struct event_stream events;
	struct buf text;
	uint64_t left;      /* bytes of content, or FILE_TO_END */
	unsigned n_entries; /* of a list */
	char *last_path;    /* of its last one */
};

/* A job for the sandbox of the call; owns the request. NULL: refused. */
struct file_job *job_new(struct api *a, struct http_conn *c,
			 const struct call *call, const char *builtin);
/* One more argument. */
void job_word(struct file_job *j, const char *word);
void job_option(struct file_job *j, const char *name, const char *value);
void job_flag(struct file_job *j, const char *name, bool on);
/* Starts it; whatever becomes of it, the request is answered. */
void job_start(struct file_job *j, const struct file_answer *answer);

/* Ends the builtin if it runs, and the job; the request is the caller's. */
void job_end(struct file_job *j);
/* The same with an answer: an error of the request or of the work. */
void job_refuse(struct file_job *j, const struct err *e);
void job_fail(struct file_job *j, const struct err *e);
/* What went wrong with a file, as the client's fault or not: the answer. */
void reply_file_err(struct api *a, struct http_conn *c, const struct err *e);
/* The agent does not do what it should. */
enum job_next job_broken(struct file_job *j);
/* The entry in the log, if there is to be one; `more` is added (taken). */
void job_audit(struct file_job *j, json_t *more);
/* http_reply_start()'s `ready`. */
void job_ready(struct http_conn *c, void *owner);

/* An error of file work inside; EACCES is not a missing key here. */
void reply_file_err(struct api *a, struct http_conn *c, const struct err *e);
/* What a builtin said on stderr; it names files, so it may be no UTF-8. */
void file_error_text(const char *why, size_t n, struct err *e);

extern const struct file_answer answer_entry, answer_made, answer_nothing,
	answer_written, answer_unpacked, answer_content, answer_tar,
	answer_list, answer_events;
