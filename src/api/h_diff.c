/*
 * Comparing two states of disks, and reading files of one: a worker looks
 * (view_job.h), what it says goes to the client as it comes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/event_stream.h"
#include "api/file_job.h"
#include "api/file_json.h"
#include "api/json_text.h"
#include "api/lineage.h"
#include "api/path_list.h"
#include "api/proc_json.h"
#include "api/reply.h"
#include "api/routes.h"
#include "api/snapshots.h"
#include "api/view_job.h"
#include "base/auto.h"
#include "http/target.h"

enum {
	REF_CAP = 192,
	CONTENT_MAX = 1024 * 1024, /* of a file that is shown in a line */
};

/* --- one state that a request needs --- */

static int take_ref(const struct http_head *h, const char *name,
		    char ref[REF_CAP], struct err *e)
{
	int r = http_query(h, name, ref, REF_CAP);

	if (r < 0)
		return err_set(e, EINVAL,
			       "%s is no name of a sandbox, snapshot or image",
			       name);
	return r && *ref ? 1 : 0;
}

/* --- GET /v1/diff --- */

struct diff {
	struct api *api;
	struct http_conn *conn; /* NULL: it left */
	struct identity who;
	char from[REF_CAP];
	struct state_ref side[2];
	bool held[2];
	struct path_list paths;
	bool content;
	struct view_job walk, read;
	struct event_stream es;
	uint64_t added, removed, changed;
	/* The line that waits for contents. */
	json_t *line;
	char *path;
	unsigned want; /* bits: sides whose content is to be read */
	int reading;   /* the side that is being read */
	struct buf bytes;
	struct deferred gone;
};

static const char *const side_names[2] = { "before", "after" };

static void diff_free(struct deferred *d)
{
	struct diff *f = container_of(d, struct diff, gone);

	path_list_done(&f->paths);
	json_decref(f->line);
	free(f->path);
	buf_done(&f->bytes);
	free(f);
}

/* The request is answered, or its client gone. */
static void diff_end(struct diff *d)
{
	int i;

	view_job_stop(&d->walk);
	view_job_stop(&d->read);
	event_stream_gone(&d->es);
	for (i = 0; i < 2; i++)
		if (d->held[i])
			state_release(&d->side[i]);
	loop_defer(&d->api->loop, &d->gone, diff_free);
}

static void diff_gone(struct http_conn *c, void *owner)
{
	(void)c;
	diff_end(owner);
}

static void diff_fail(struct diff *d, const struct err *e)
{
	struct http_conn *c = d->conn;
	struct err why = *e;

	if (d->es.open) {
		json_t *j = error_json(&why);

		json_object_set_new(j, "type", json_string("error"));
		event_stream_send(&d->es, j, NULL);
		diff_end(d);
		http_reply_end(c);
	} else {
		diff_end(d);
		reply_file_err(d->api, c, &why);
	}
}

static void diff_ready(struct http_conn *c, void *owner)
{
	struct diff *d = owner;

	(void)c;
	if (!d->line)
		view_job_resume(&d->walk);
}

static void diff_begin(struct diff *d)
{
	if (!d->es.open)
		event_stream_start(&d->es, d->api, d->conn, diff_ready);
}

static json_t *what_json(unsigned what)
{
	static const char *const names[] = { "type", "content", "mode", "owner",
					     "attributes" };
	json_t *list = json_array();
	size_t i;

	for (i = 0; i < ARRAY_LEN(names); i++)
		if (what >> i & 1)
			json_array_append_new(list, json_string(names[i]));
	return list;
}

static const char *count_change(struct diff *d, const struct view_record *r)
{
	if (r->change.before.type == FILE_NONE) {
		d->added++;
		return "added";
	}
	if (r->change.after.type == FILE_NONE) {
		d->removed++;
		return "removed";
	}
	d->changed++;
	return "changed";
}

static json_t *change_json(struct diff *d, const struct view_record *r)
{
	json_t *j = json_pack("{s:s}", "type", "change");

	json_set_path(j, "path", r->change.after.path);
	json_object_set_new(j, "change", json_string(count_change(d, r)));
	json_object_set_new(j, "what", what_json(r->change.what));
	json_object_set_new(j, "before", file_state_json(&r->change.before));
	json_object_set_new(j, "after", file_state_json(&r->change.after));
	return j;
}

/* Which contents belong into the line. */
static unsigned wanted(const struct diff *d, const struct view_record *r)
{
	const struct file_entry *const e[2] = { &r->change.before,
						&r->change.after };
	unsigned want = 0;
	int i;

	if (!d->content || !(r->change.what & (WHAT_TYPE | WHAT_CONTENT)))
		return 0;
	for (i = 0; i < 2; i++) {
		if (e[i]->type != FILE_REGULAR)
			continue;
		if (e[i]->size > CONTENT_MAX)
			return 0;
		want |= 1U << i;
	}
	return want;
}

static void read_next(struct diff *d);

static enum view_next on_bytes(struct view_job *v, const struct view_record *r)
{
	struct diff *d = container_of(v, struct diff, read);
	struct err e = { 0 };

	if (r->kind == VIEW_DATA &&
	    buf_len(&d->bytes) + r->data.n <= CONTENT_MAX) {
		buf_add(&d->bytes, r->data.p, r->data.n);
		return VIEW_GO_ON;
	}
	err_set(&e, EIO, "the worker that reads files broke the protocol");
	diff_fail(d, &e);
	return VIEW_OVER;
}

static void add_content(json_t *side, const struct buf *b)
{
	AUTO(buf_done) struct buf coded = { 0 };

	if (http_is_utf8(buf_data(b), buf_len(b))) {
		json_object_set_new(side, "content",
				    json_stringn(buf_data(b), buf_len(b)));
		return;
	}
	base64_add(&coded, buf_data(b), buf_len(b));
	json_object_set_new(side, "content_base64",
			    json_string(buf_str(&coded)));
}

static void on_read(struct view_job *v, const struct err *e)
{
	struct diff *d = container_of(v, struct diff, read);

	if (e->code) {
		diff_fail(d, e);
		return;
	}
	add_content(json_object_get(d->line, side_names[d->reading]),
		    &d->bytes);
	buf_clear(&d->bytes);
	read_next(d);
}

static const struct view_ops read_ops = { on_bytes, on_read, NULL };

static void send_line(struct diff *d)
{
	json_t *line = take_ptr(d->line);

	free(take_ptr(d->path));
	if (event_stream_send(&d->es, line, NULL))
		view_job_resume(&d->walk);
}

/* Reads what the line still lacks, then sends it. */
static void read_next(struct diff *d)
{
	struct view_question q = { .work = VIEW_READ, .n_paths = 1 };
	struct err e = { 0 };

	if (d->want == 0) {
		send_line(d);
		return;
	}
	d->reading = d->want & 1 ? 0 : 1;
	d->want &= ~(1U << d->reading);
	q.side[0] = &d->side[d->reading].side;
	q.paths = (const char *const *)&d->path;
	q.inner = true;
	if (view_job_start(&d->read, d->api, who_project(&d->who), &q,
			   &read_ops, &e) < 0)
		diff_fail(d, &e);
}

static enum view_next on_change(struct view_job *v, const struct view_record *r)
{
	struct diff *d = container_of(v, struct diff, walk);
	struct err e = { 0 };
	json_t *j;

	if (r->kind != VIEW_CHANGE) {
		err_set(&e, EIO,
			"the worker that compares disks broke the protocol");
		diff_fail(d, &e);
		return VIEW_OVER;
	}
	if (state_path_is_own(r->change.after.path))
		return VIEW_GO_ON;
	diff_begin(d);
	j = change_json(d, r);
	d->want = wanted(d, r);
	if (d->want == 0)
		return event_stream_send(&d->es, j, NULL) ? VIEW_GO_ON
							  : VIEW_HOLD;
	d->line = j;
	d->path = xstrdup(r->change.after.path);
	read_next(d);
	return d->walk.busy ? VIEW_HOLD : VIEW_OVER;
}

static void on_walked(struct view_job *v, const struct err *e)
{
	struct diff *d = container_of(v, struct diff, walk);
	struct http_conn *c = d->conn;

	if (e->code) {
		diff_fail(d, e);
		return;
	}
	diff_begin(d);
	event_stream_send(&d->es,
			  json_pack("{s:s, s:I, s:I, s:I}", "type", "done",
				    "added", (json_int_t)d->added, "removed",
				    (json_int_t)d->removed, "changed",
				    (json_int_t)d->changed),
			  NULL);
	diff_end(d);
	http_reply_end(c);
}

static const struct view_ops walk_ops = { on_change, on_walked, NULL };

static void compare(struct diff *d)
{
	struct view_question q = { .work = VIEW_DIFF,
				   .side = { &d->side[0].side,
					     &d->side[1].side },
				   .paths = (const char *const *)d->paths.v,
				   .n_paths = d->paths.n };
	struct err e = { 0 };

	if (view_job_start(&d->walk, d->api, who_project(&d->who), &q,
			   &walk_ops, &e) < 0)
		diff_fail(d, &e);
}

static void on_from(struct state_ref *r, const struct err *e)
{
	struct diff *d = container_of(r, struct diff, side[0]);

	if (e->code)
		diff_fail(d, e);
	else
		compare(d);
}

static void on_to(struct state_ref *r, const struct err *e)
{
	struct diff *d = container_of(r, struct diff, side[1]);

	if (e->code) {
		diff_fail(d, e);
		return;
	}
	d->held[0] = true;
	if (*d->from)
		state_hold(&d->side[0], d->api, &d->who, d->from, on_from);
	else
		state_hold_base(&d->side[0], r, on_from);
}

static int diff_query(struct diff *d, char to[REF_CAP], struct err *e)
{
	const struct http_head *h = http_request(d->conn);
	int r = take_ref(h, "from", d->from, e);

	if (r >= 0)
		r = take_ref(h, "to", to, e);
	if (r < 0)
		return r;
	if (r == 0)
		return err_set(e, EINVAL,
			       "to is missing: a sandbox, snapshot or image");
	r = query_bool(h, "content", &d->content, e);
	return r < 0 ? r : path_list_query(&d->paths, h, e);
}

static void h_diff(struct api *a, struct http_conn *c, const struct call *call)
{
	struct diff *d = xcalloc(1, sizeof(*d));
	char to[REF_CAP] = "";
	struct err e = { 0 };

	d->api = a;
	d->conn = c;
	d->who = call->who;
	http_own(c, d, diff_gone);
	if (diff_query(d, to, &e) < 0) {
		diff_fail(d, &e);
		return;
	}
	d->held[1] = true;
	state_hold(&d->side[1], a, &d->who, to, on_to);
}

/* --- GET /v1/states/content --- */

struct peek {
	struct api *api;
	struct http_conn *conn;
	struct identity who;
	struct state_ref side;
	bool held, begun;
	struct path_list path;
	struct view_job read;
	struct deferred gone;
};

static void peek_free(struct deferred *d)
{
	struct peek *p = container_of(d, struct peek, gone);

	path_list_done(&p->path);
	free(p);
}

static void peek_end(struct peek *p)
{
	view_job_stop(&p->read);
	if (p->held)
		state_release(&p->side);
	loop_defer(&p->api->loop, &p->gone, peek_free);
}

static void peek_gone(struct http_conn *c, void *owner)
{
	(void)c;
	peek_end(owner);
}

static void peek_fail(struct peek *p, const struct err *e)
{
	struct http_conn *c = p->conn;
	struct err why = *e;

	peek_end(p);
	if (p->begun)
		http_reply_cut(c); /* nobody is to take it for whole */
	else
		reply_file_err(p->api, c, &why);
}

static void peek_ready(struct http_conn *c, void *owner)
{
	(void)c;
	view_job_resume(&((struct peek *)owner)->read);
}

static void peek_begin(struct peek *p)
{
	static const struct http_field octets[] = {
		{ "Content-Type", "application/octet-stream" },
		/* No browser is to make a page of what a sandbox wrote. */
		{ "X-Content-Type-Options", "nosniff" },
		{ NULL, NULL },
	};

	if (p->begun)
		return;
	p->begun = true;
	p->api->metrics.requests[2]++;
	http_reply_start(p->conn, 200, octets, peek_ready);
}

static enum view_next on_data(struct view_job *v, const struct view_record *r)
{
	struct peek *p = container_of(v, struct peek, read);
	struct err e = { 0 };

	if (r->kind == VIEW_DATA) {
		peek_begin(p);
		return http_reply_data(p->conn, r->data.p, r->data.n)
			       ? VIEW_GO_ON
			       : VIEW_HOLD;
	}
	err_set(&e, EIO, "the worker that reads files broke the protocol");
	peek_fail(p, &e);
	return VIEW_OVER;
}

static void on_peeked(struct view_job *v, const struct err *e)
{
	struct peek *p = container_of(v, struct peek, read);
	struct http_conn *c = p->conn;

	if (e->code) {
		peek_fail(p, e);
		return;
	}
	peek_begin(p); /* of an empty file */
	peek_end(p);
	http_reply_end(c);
}

static const struct view_ops peek_ops = { on_data, on_peeked, NULL };

static void on_state(struct state_ref *r, const struct err *e)
{
	struct peek *p = container_of(r, struct peek, side);
	struct view_question q = { .work = VIEW_READ,
				   .side = { &r->side },
				   .paths = (const char *const *)p->path.v,
				   .n_paths = 1 };
	struct err why = *e;

	if (e->code == 0)
		(void)!view_job_start(&p->read, p->api, who_project(&p->who),
				      &q, &peek_ops, &why);
	if (why.code)
		peek_fail(p, &why);
}

static void h_content(struct api *a, struct http_conn *c,
		      const struct call *call)
{
	struct peek *p = xcalloc(1, sizeof(*p));
	const struct http_head *h = http_request(c);
	char ref[REF_CAP] = "";
	struct err e = { 0 };
	int r = take_ref(h, "state", ref, &e);

	p->api = a;
	p->conn = c;
	p->who = call->who;
	http_own(c, p, peek_gone);
	if (r == 0)
		r = err_set(&e, EINVAL,
			    "state is missing: a sandbox, snapshot or image");
	if (r > 0)
		r = path_list_query(&p->path, h, &e);
	if (r == 0 && p->path.n != 1)
		r = err_set(&e, EINVAL, "one path, not %zu", p->path.n);
	if (r < 0) {
		peek_fail(p, &e);
		return;
	}
	p->held = true;
	state_hold(&p->side, a, &call->who, ref, on_state);
}

/* --- the table --- */

#define PATHS_QUERY(what)                                                 \
	{ "path", "string", what }, { "path_base64", "string",            \
				      "the same, for names that are not " \
				      "UTF-8" }

static const struct route_query diff_query_rows[] = {
	{ "to", "string", "a sandbox, snapshot or image" },
	{ "from", "string",
	  "what it is compared with; by default what it started from" },
	{ "content", "boolean",
	  "contents of files that changed, up to 1 MiB each" },
	PATHS_QUERY("only this and what is below; may be repeated"),
	{ 0 },
};

static const struct route_query content_query[] = {
	{ "state", "string", "a sandbox, snapshot or image" },
	PATHS_QUERY("of the file, absolute"),
	{ 0 },
};

const struct route state_routes[] = {
	{ "GET", "/v1/diff", h_diff, SCOPE_READ, 0,
	  "How one state of a disk differs from another", diff_query_rows, NULL,
	  "application/x-ndjson", 200 },
	{ "GET", "/v1/states/content", h_content, SCOPE_READ, 0,
	  "A file of a sandbox, snapshot or image", content_query, NULL,
	  "application/octet-stream", 200 },
	{ 0 },
};
