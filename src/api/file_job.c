#include "api/file_job.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/audit.h"
#include "api/json_text.h"
#include "api/reply.h"
#include "base/auto.h"

enum {
	WORDS_MAX = 16 + FILE_ATTRS_MAX,
	DROP_MAX = 64 * 1024 * 1024, /* of a body, before its failure is told */
};

/*
 * What went wrong inside, as the client's fault or not. Different from the
 * table of reply.c: EACCES there is a missing key.
 */
static const struct {
	int code, status;
	const char *word;
} statuses[] = {
	{ ENOENT, 404, "not_found" },
	{ EACCES, 403, "forbidden" },
	{ EPERM, 403, "forbidden" },
	{ EROFS, 403, "read_only" },
	{ EINVAL, 400, "bad_request" },
	{ ESRCH, 400, "no_user" },
	{ E2BIG, 400, "too_large" },
	{ EISDIR, 400, "is_a_directory" },
	{ ENOTDIR, 400, "not_a_directory" },
	{ ENAMETOOLONG, 400, "too_large" },
	{ ELOOP, 400, "too_deep" },
	{ EXDEV, 400, "crosses_devices" },
	{ EEXIST, 409, "conflict" },
	{ ENOTEMPTY, 409, "not_empty" },
	{ EBUSY, 409, "busy" },
	{ ETXTBSY, 409, "busy" },
	{ EFBIG, 413, "too_large" },
	{ EBADMSG, 422, "bad_archive" },
	{ ENOTSUP, 422, "not_supported" },
	{ ENOSPC, 507, "no_space" },
	{ EDQUOT, 507, "no_space" },
};

static void job_free(struct file_job *j)
{
	event_stream_gone(&j->events);
	json_decref(j->note);
	json_decref(j->result);
	json_decref(j->notes);
	json_decref(j->details);
	json_decref(j->entry);
	buf_done(&j->words);
	buf_done(&j->in);
	buf_done(&j->text);
	free(j->last_path);
	free(j);
}

void job_end(struct file_job *j)
{
	process_signal(&j->proc, SIGKILL);
	process_close(&j->proc, false);
	job_free(j);
}

static void job_gone(struct http_conn *c, void *owner)
{
	(void)c;
	job_end(owner);
}

struct file_job *job_new(struct api *a, struct http_conn *c,
			 const struct call *call, const char *builtin)
{
	struct err e = { 0 };
	const struct sandbox *s = box_find(a, &call->who, call->arg[0], &e);
	struct file_job *j;

	if (!s) {
		reply_err(a, c, &e);
		return NULL;
	}
	j = xcalloc(1, sizeof(*j));
	j->api = a;
	j->conn = c;
	j->who = call->who;
	memcpy(j->box_id, s->id, ID_CAP);
	j->note = json_object();
	j->notes = json_array();
	job_word(j, builtin);
	http_own(c, j, job_gone);
	return j;
}

void job_word(struct file_job *j, const char *word)
{
	buf_add(&j->words, word, strlen(word) + 1);
	j->n_words++;
}

void job_option(struct file_job *j, const char *name, const char *value)
{
	buf_printf(&j->words, "%s=%s", name, value);
	buf_add(&j->words, "", 1);
	j->n_words++;
}

void job_flag(struct file_job *j, const char *name, bool on)
{
	if (on)
		job_word(j, name);
}

void job_refuse(struct file_job *j, const struct err *e)
{
	struct api *a = j->api;
	struct http_conn *c = j->conn;

	job_end(j);
	reply_err(a, c, e);
}

void reply_file_err(struct api *a, struct http_conn *c, const struct err *e)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(statuses); i++)
		if (statuses[i].code == e->code) {
			reply_error(a, c, statuses[i].status, statuses[i].word,
				    e->msg);
			return;
		}
	reply_err(a, c, e);
}

static void tell_failed(struct file_job *j, const struct err *e)
{
	struct api *a = j->api;
	struct http_conn *c = j->conn;
	struct err why = *e; /* it may be the job's */

	job_end(j);
	reply_file_err(a, c, &why);
}

static size_t body_data(struct http_conn *c, const char *p, size_t n,
			void *owner);
static void body_end(struct http_conn *c, void *owner);

/* Is it worth it to take what is missing of the body? */
static bool may_drop(const struct file_job *j)
{
	const struct http_head *h = http_request(j->conn);

	if (!j->answer->upload || j->complete)
		return false;
	if (!j->asked && h->expect_continue)
		return false; /* it waits for our word */
	return h->body != HTTP_LENGTH || h->length - j->received <= DROP_MAX;
}

static void drop_body(struct file_job *j, const struct err *e)
{
	j->failed = *e;
	j->received = 0;
	process_signal(&j->proc, SIGKILL);
	process_close(&j->proc, false);
	if (j->asked)
		http_resume_body(j->conn);
	else
		http_stream_body(j->conn, body_data, body_end);
	j->asked = true;
}

void job_fail(struct file_job *j, const struct err *e)
{
	struct http_conn *c = j->conn;

	if (may_drop(j)) {
		drop_body(j, e);
	} else if (!j->begun) {
		tell_failed(j, e);
	} else if (j->answer->failed) {
		j->answer->failed(j, e);
	} else {
		log_debug("request=%s cut off: %s", http_request_id(c), e->msg);
		job_end(j);
		http_reply_cut(c);
	}
}

enum job_next job_broken(struct file_job *j)
{
	struct err e = { 0 };

	log_warn("sandbox=%s its agent answers %s with nonsense, ending that",
		 j->box_id, buf_data(&j->words));
	err_set(&e, EPROTO, "the sandbox's agent broke the protocol");
	job_fail(j, &e);
	return JOB_OVER;
}

void job_audit(struct file_job *j, json_t *more)
{
	json_object_update(j->note, more);
	json_decref(more);
	if (!j->audit)
		return;
	audit_add(j->api, &(struct audit){
				  .type = j->audit,
				  .box = box_by_id(j->api, j->box_id),
				  .who = &j->who,
				  .request_id = http_request_id(j->conn),
				  .data = json_incref(j->note),
			  });
}

/* --- the builtin --- */

void job_ready(struct http_conn *c, void *owner)
{
	struct file_job *j = owner;
	size_t n = j->held;

	(void)c;
	j->held = 0;
	process_consumed(&j->proc, 1, n);
}

static size_t body_data(struct http_conn *c, const char *p, size_t n,
			void *owner)
{
	struct file_job *j = owner;

	(void)c;
	if (!j->failed.code) {
		n = process_input(&j->proc, p, n);
		j->received += n;
		return n;
	}
	j->received += n;
	if (j->received > DROP_MAX)
		tell_failed(j, &j->failed);
	return n;
}

static void body_end(struct http_conn *c, void *owner)
{
	struct file_job *j = owner;

	(void)c;
	j->complete = true;
	if (j->failed.code)
		tell_failed(j, &j->failed);
	else
		process_input_eof(&j->proc);
}

static void on_started(struct process *p)
{
	struct file_job *j = container_of(p, struct file_job, proc);

	if (!j->answer->upload)
		return;
	j->asked = true;
	http_stream_body(j->conn, body_data, body_end);
}

static void on_room(struct process *p)
{
	http_resume_body(container_of(p, struct file_job, proc)->conn);
}

static void keep_error(struct file_job *j, const char *p, size_t n)
{
	size_t room = sizeof(j->why) - j->n_why;

	if (n > room)
		n = room;
	memcpy(j->why + j->n_why, p, n);
	j->n_why += n;
}

static void on_output(struct process *p, unsigned stream, const void *data,
		      size_t n)
{
	struct file_job *j = container_of(p, struct file_job, proc);

	if (stream == 2) {
		keep_error(j, data, n);
		process_consumed(p, 2, n);
		return;
	}
	j->held += n;
	if (j->answer->output(j, data, n) == JOB_GO_ON)
		job_ready(j->conn, j);
}

void file_error_text(const char *why, size_t n, struct err *e)
{
	json_t *text;
	int code;

	file_error_get(why, n, e);
	code = e->code;
	text = json_lossy(e->msg, strlen(e->msg));
	err_clear(e);
	err_set(e, code, "%s", json_string_value(text));
	e->msg[utf8_whole(e->msg, strlen(e->msg))] = '\0';
	json_decref(text);
}

static void on_ended(struct process *p, const struct exit_info *x,
		     const struct err *why)
{
	struct file_job *j = container_of(p, struct file_job, proc);
	struct err e = { 0 };

	if (why && why->code == ENOENT) /* of an older version */
		err_set(&e, ENOTSUP, "%s", why->msg);
	else if (why)
		e = *why;
	else if (x->signaled)
		err_set(&e, EIO, "it was ended by signal %u%s", x->code,
			x->code == SIGKILL ? " (out of memory?)" : "");
	else if (x->code != 0)
		file_error_text(j->why, j->n_why, &e);
	if (e.code)
		job_fail(j, &e);
	else
		j->answer->done(j);
}

static const struct process_ops job_process = {
	.started = on_started,
	.output = on_output,
	.room = on_room,
	.ended = on_ended,
};

void job_start(struct file_job *j, const struct file_answer *answer)
{
	const char *argv[WORDS_MAX + 1] = { NULL }, *at = buf_data(&j->words);
	struct spawn s = {
		.flags = SPAWN_BUILTIN | (answer->upload ? SPAWN_STDIN : 0),
		.user = j->user,
		.cwd = "",
		.tag = "",
		.argv = argv,
		.env = (const char *[]){ NULL },
	};
	struct sandbox *box = box_by_id(j->api, j->box_id);
	struct err e = { 0 };

	for (; s.argc < j->n_words && s.argc < WORDS_MAX; s.argc++) {
		argv[s.argc] = at;
		at += strlen(at) + 1;
	}
	j->answer = answer;
	j->proc.ops = &job_process;
	if (!box)
		err_set(&e, ENOENT, "the sandbox has ended");
	else if (process_spawn(&j->proc, box, &s, &e) == 0)
		return;
	job_refuse(j, &e);
}
