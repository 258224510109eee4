/* What builtins of file work write, as answers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/file_job.h"
#include "api/file_json.h"
#include "api/json_text.h"
#include "api/reply.h"
#include "base/auto.h"

/* --- records --- */

typedef enum job_next record_fn(struct file_job *j,
				const struct file_record *r);

static enum job_next take_records(struct file_job *j, const char *p, size_t n,
				  record_fn *fn)
{
	enum job_next next = JOB_GO_ON, one;
	struct file_record r;
	int len;

	buf_add(&j->in, p, n);
	while ((len = file_record_get(&j->in, &r)) > 0) {
		if (j->last)
			return job_broken(j);
		one = fn(j, &r);
		if (one == JOB_OVER)
			return one;
		if (one == JOB_HOLD)
			next = one;
		buf_eat(&j->in, (size_t)len);
	}
	return len < 0 ? job_broken(j) : next;
}

/* Finishes the job; the request is still to be answered. */
static json_t *take_result(struct file_job *j)
{
	json_t *result = j->result;

	j->result = NULL;
	if (json_array_size(j->notes) > 0)
		json_object_set(result, "notes", j->notes);
	job_end(j);
	return result;
}

static void reply_result(struct file_job *j, int status)
{
	struct api *a = j->api;
	struct http_conn *c = j->conn;

	if (!j->result)
		job_broken(j);
	else
		reply_json(a, c, status, take_result(j));
}

static enum job_next take_note(struct file_job *j, const char *note)
{
	if (json_array_size(j->notes) >= FILE_NOTES_MAX)
		return job_broken(j);
	json_array_append_new(j->notes, json_lossy(note, strlen(note)));
	return JOB_GO_ON;
}

/* A record in front of the one that it belongs to: is it one, and wanted? */
static bool take_details(struct file_job *j, const struct file_record *r)
{
	if (r->kind != FILE_DETAIL || !j->detail || j->details)
		return false;
	j->details = file_detail_json(&r->detail);
	return true;
}

static json_t *whole_entry(struct file_job *j, const struct file_entry *n)
{
	json_t *entry = file_entry_json(n);

	json_object_update(entry, j->details);
	json_decref(j->details);
	j->details = NULL;
	return entry;
}

static enum job_next on_entry(struct file_job *j, const struct file_record *r)
{
	if (r->kind == FILE_NOTE)
		return take_note(j, r->note);
	if (take_details(j, r))
		return JOB_GO_ON;
	if (r->kind != FILE_ENTRY)
		return job_broken(j);
	j->result = whole_entry(j, &r->entry);
	j->last = true;
	return JOB_GO_ON;
}

static enum job_next entry_output(struct file_job *j, const char *p, size_t n)
{
	return take_records(j, p, n, on_entry);
}

static void entry_done(struct file_job *j)
{
	if (j->result)
		job_audit(j, NULL);
	reply_result(j, 200);
}

const struct file_answer answer_entry = {
	.output = entry_output,
	.done = entry_done,
};

static void made_done(struct file_job *j)
{
	if (j->result)
		job_audit(j, NULL);
	reply_result(j, 201);
}

const struct file_answer answer_made = {
	.output = entry_output,
	.done = made_done,
};

static enum job_next nothing_output(struct file_job *j, const char *p, size_t n)
{
	(void)p;
	(void)n;
	return job_broken(j);
}

static void nothing_done(struct file_job *j)
{
	struct api *a = j->api;
	struct http_conn *c = j->conn;

	job_audit(j, NULL);
	job_end(j);
	reply_empty(a, c, 204);
}

const struct file_answer answer_nothing = {
	.output = nothing_output,
	.done = nothing_done,
};

static enum job_next on_written(struct file_job *j, const struct file_record *r)
{
	char hex[2 * SHA256_LEN + 1];
	int i;

	if (take_details(j, r))
		return JOB_GO_ON;
	if (r->kind == FILE_ENTRY && j->detail && !j->entry) {
		j->entry = whole_entry(j, &r->entry);
		return JOB_GO_ON;
	}
	if (r->kind != FILE_WRITTEN)
		return job_broken(j);
	for (i = 0; i < SHA256_LEN; i++)
		snprintf(hex + (size_t)2 * (size_t)i, 3, "%02x",
			 r->written.sha[i]);
	j->result = json_pack("{s:I, s:s}", "size", (json_int_t)r->written.size,
			      "sha256", hex);
	j->last = true;
	return JOB_GO_ON;
}

static enum job_next written_output(struct file_job *j, const char *p, size_t n)
{
	return take_records(j, p, n, on_written);
}

static void result_done(struct file_job *j)
{
	if (j->result)
		job_audit(j, json_incref(j->result));
	if (j->result && j->entry)
		json_object_set(j->result, "entry", j->entry);
	reply_result(j, 200);
}

const struct file_answer answer_written = {
	.upload = true,
	.output = written_output,
	.done = result_done,
};

static enum job_next on_unpacked(struct file_job *j,
				 const struct file_record *r)
{
	if (r->kind == FILE_NOTE)
		return take_note(j, r->note);
	if (r->kind != FILE_UNPACKED)
		return job_broken(j);
	j->result = json_pack("{s:I, s:I}", "entries",
			      (json_int_t)r->unpacked.entries, "bytes",
			      (json_int_t)r->unpacked.bytes);
	j->last = true;
	return JOB_GO_ON;
}

static enum job_next unpacked_output(struct file_job *j, const char *p,
				     size_t n)
{
	return take_records(j, p, n, on_unpacked);
}

const struct file_answer answer_unpacked = {
	.upload = true,
	.output = unpacked_output,
	.done = result_done,
};

/* --- bytes --- */

static const struct http_field octets[] = {
	{ "Content-Type", "application/octet-stream" },
	/* No browser is to make a page of what a sandbox wrote. */
	{ "X-Content-Type-Options", "nosniff" },
	{ NULL, NULL },
};

static void count_ok(struct file_job *j)
{
	j->begun = true;
	j->api->metrics.requests[2]++;
}

static enum job_next send_bytes(struct file_job *j, const char *p, size_t n)
{
	if (j->left != FILE_TO_END) {
		if (n > j->left)
			return job_broken(j);
		j->left -= n;
	}
	return http_reply_data(j->conn, p, n) ? JOB_GO_ON : JOB_HOLD;
}

static enum job_next reply_no_range(struct file_job *j, uint64_t size)
{
	struct http_conn *c = j->conn;
	char range[48];
	const struct http_field extra[] = {
		{ "Content-Type", "application/json" },
		{ "Content-Range", range },
		{ NULL, NULL },
	};
	AUTO(buf_done) struct buf b = { 0 };

	snprintf(range, sizeof(range), "bytes */%llu",
		 (unsigned long long)size);
	buf_printf(&b,
		   "{\"code\":416,\"error\":\"no_range\",\"message\":\"the "
		   "file has %llu bytes\",\"request_id\":\"%s\"}",
		   (unsigned long long)size, http_request_id(c));
	j->api->metrics.requests[4]++;
	job_end(j);
	http_reply(c, 416, extra, buf_data(&b), buf_len(&b));
	return JOB_OVER;
}

static void start_part(struct file_job *j, const struct file_record *r)
{
	char range[80];
	const struct http_field extra[] = {
		octets[0],
		octets[1],
		{ "Content-Range", range },
		{ NULL, NULL },
	};
	uint64_t first = r->content.first;

	snprintf(range, sizeof(range), "bytes %llu-%llu/%llu",
		 (unsigned long long)first,
		 (unsigned long long)(first + r->content.length - 1),
		 (unsigned long long)r->content.size);
	http_reply_start_sized(j->conn, 206, extra, r->content.length,
			       job_ready);
}

static enum job_next start_content(struct file_job *j,
				   const struct file_record *r)
{
	static const struct http_field whole[] = {
		{ "Content-Type", "application/octet-stream" },
		{ "X-Content-Type-Options", "nosniff" },
		{ "Accept-Ranges", "bytes" },
		{ NULL, NULL },
	};

	if (r->kind != FILE_CONTENT)
		return job_broken(j);
	j->left = r->content.length;
	if (j->range && j->left == 0)
		return reply_no_range(j, r->content.size);
	count_ok(j);
	if (j->left == FILE_TO_END)
		http_reply_start(j->conn, 200, octets, job_ready);
	else if (j->range)
		start_part(j, r);
	else
		http_reply_start_sized(j->conn, 200, whole, j->left, job_ready);
	return JOB_GO_ON;
}

/* A record, and then the bytes. */
static enum job_next content_output(struct file_job *j, const char *p, size_t n)
{
	struct file_record r;
	enum job_next next;
	int len;

	if (j->begun)
		return send_bytes(j, p, n);
	buf_add(&j->in, p, n);
	len = file_record_get(&j->in, &r);
	if (len <= 0)
		return len < 0 ? job_broken(j) : JOB_GO_ON;
	next = start_content(j, &r);
	if (next == JOB_OVER)
		return next;
	buf_eat(&j->in, (size_t)len);
	if (buf_len(&j->in) == 0)
		return JOB_GO_ON;
	next = send_bytes(j, buf_data(&j->in), buf_len(&j->in));
	if (next != JOB_OVER)
		buf_done(&j->in);
	return next;
}

static void bytes_done(struct file_job *j)
{
	struct http_conn *c = j->conn;

	if (!j->begun) {
		job_broken(j);
		return;
	}
	job_end(j);
	http_reply_end(c);
}

const struct file_answer answer_content = {
	.output = content_output,
	.done = bytes_done,
};

static enum job_next tar_output(struct file_job *j, const char *p, size_t n)
{
	static const struct http_field extra[] = {
		{ "Content-Type", "application/x-tar" },
		{ "X-Content-Type-Options", "nosniff" },
		{ NULL, NULL },
	};

	if (!j->begun) {
		count_ok(j);
		j->left = FILE_TO_END;
		http_reply_start(j->conn, 200, extra, job_ready);
	}
	return send_bytes(j, p, n);
}

const struct file_answer answer_tar = {
	.output = tar_output,
	.done = bytes_done,
};

/* --- lists --- */

static void start_list(struct file_job *j)
{
	static const struct http_field extra[] = {
		{ "Content-Type", "application/json" },
		{ NULL, NULL },
	};

	if (j->begun)
		return;
	count_ok(j);
	http_reply_start(j->conn, 200, extra, job_ready);
	buf_puts(&j->text, "{\"entries\":[");
}

/* The members of an object of their own, without its opening brace. */
static void add_next(struct file_job *j, bool more)
{
	AUTO(buf_done) struct buf b = { 0 };
	json_t *rest = json_object();

	if (more && j->last_path)
		json_set_path(rest, "next", j->last_path);
	else
		json_object_set_new(rest, "next", json_null());
	json_add(&b, rest);
	json_decref(rest);
	buf_puts(&j->text, "],");
	buf_add(&j->text, buf_data(&b) + 1, buf_len(&b) - 1);
}

static enum job_next on_listed(struct file_job *j, const struct file_record *r)
{
	json_t *entry;

	start_list(j);
	if (take_details(j, r))
		return JOB_GO_ON;
	if (r->kind == FILE_END) {
		add_next(j, r->more);
		j->last = true;
		return JOB_GO_ON;
	}
	if (r->kind != FILE_ENTRY || j->n_entries == FILE_LIST_MAX)
		return job_broken(j);
	if (j->n_entries++ > 0)
		buf_puts(&j->text, ",");
	entry = whole_entry(j, &r->entry);
	json_add(&j->text, entry);
	json_decref(entry);
	free(j->last_path);
	j->last_path = xstrdup(r->entry.path);
	return JOB_GO_ON;
}

static enum job_next list_output(struct file_job *j, const char *p, size_t n)
{
	enum job_next next = take_records(j, p, n, on_listed);

	if (next == JOB_OVER || buf_len(&j->text) == 0)
		return next;
	if (!http_reply_data(j->conn, buf_data(&j->text), buf_len(&j->text)))
		next = JOB_HOLD;
	buf_clear(&j->text);
	return next;
}

static void list_done(struct file_job *j)
{
	struct http_conn *c = j->conn;

	if (!j->last) {
		job_broken(j);
		return;
	}
	job_end(j);
	http_reply_end(c);
}

const struct file_answer answer_list = {
	.output = list_output,
	.done = list_done,
};

/* --- events --- */

static json_t *whole_event(struct file_job *j, const struct file_record *r)
{
	json_t *event = file_event_json(r);

	if (j->entry)
		json_object_set_new(event, "file", j->entry);
	j->entry = NULL;
	return event;
}

static enum job_next on_event(struct file_job *j, const struct file_record *r)
{
	if (take_details(j, r))
		return JOB_GO_ON;
	if (r->kind == FILE_ENTRY && j->detail && !j->entry) {
		j->entry = whole_entry(j, &r->entry);
		return JOB_GO_ON;
	}
	if (r->kind != FILE_EVENT)
		return job_broken(j);
	if (!j->begun) {
		j->begun = true;
		event_stream_start(&j->events, j->api, j->conn, job_ready);
	}
	return event_stream_send(&j->events, whole_event(j, r), NULL)
		       ? JOB_GO_ON
		       : JOB_HOLD;
}

static enum job_next events_output(struct file_job *j, const char *p, size_t n)
{
	return take_records(j, p, n, on_event);
}

static void end_events(struct file_job *j)
{
	struct http_conn *c = j->conn;

	job_end(j);
	http_reply_end(c);
}

static void events_done(struct file_job *j)
{
	if (j->begun)
		end_events(j);
	else
		job_broken(j);
}

static void events_failed(struct file_job *j, const struct err *e)
{
	event_stream_send(&j->events,
			  json_pack("{s:s, s:s, s:o}", "type", "error", "error",
				    "ended", "message",
				    json_lossy(e->msg, strlen(e->msg))),
			  NULL);
	end_events(j);
}

const struct file_answer answer_events = {
	.output = events_output,
	.done = events_done,
	.failed = events_failed,
};
