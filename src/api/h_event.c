/* Requests about the log: events as they happen, and what was written. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "api/ended.h"
#include "api/proc_json.h"
#include "api/reply.h"
#include "api/routes.h"
#include "audit/entry.h"
#include "base/auto.h"
#include "base/fd.h"
#include "http/target.h"

enum { LIMIT_MAX = 100000 };

static int query_text(const struct http_head *h, const char *name, char *out,
		      size_t cap, struct err *e)
{
	int r = http_query(h, name, out, cap);

	if (r < 0)
		return err_set(e, EINVAL, "%s is given twice, or too long",
			       name);
	if (r == 0)
		*out = '\0';
	return 0;
}

/* A sandbox that lives, or the id of one that did. */
static int find_box(struct api *a, const struct call *call, const char *ref,
		    struct event_filter *f, struct err *e)
{
	const struct sandbox *s = box_find(a, &call->who, ref, e);
	const struct ended *x = s ? NULL : ended_find(a, &call->who, ref);

	if (!s && !x && !id_valid(ref))
		return -e->code;
	err_clear(e);
	memcpy(f->box, s ? s->id : x ? x->id : ref, ID_CAP);
	f->since_ms = s ? s->created_ms : x ? x->created_ms : 0;
	return 0;
}

static int take_common(const struct http_head *h, const struct call *call,
		       struct event_filter *f, struct err *e)
{
	memcpy(f->project, call->who.project, sizeof(f->project));
	if (query_number(h, "after", 1ULL << 53, &f->after, e) < 0 ||
	    query_number(h, "limit", LIMIT_MAX, &f->limit, e) < 0 ||
	    query_text(h, "type", f->type, sizeof(f->type), e) < 0)
		return -e->code;
	return 0;
}

/* A client that comes back says what it has: that counts more. */
static int take_last_id(const struct http_head *h, struct event_filter *f,
			struct err *e)
{
	const char *id = http_header(h, "Last-Event-ID");
	char text[4];
	int r = http_query(h, "after", text, sizeof(text));

	f->from_now = f->follow && r == 0 && !id;
	if (id && parse_u64(id, 1ULL << 53, &f->after) < 0)
		return err_set(e, EINVAL, "Last-Event-ID is not a number");
	return 0;
}

static void h_events(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	const struct http_head *h = http_request(c);
	struct event_filter f = { .follow = true };
	struct err e = { 0 };
	char ref[CALL_ARG_CAP];

	if (take_common(h, call, &f, &e) == 0 &&
	    query_bool(h, "follow", &f.follow, &e) == 0 &&
	    take_last_id(h, &f, &e) == 0 &&
	    query_text(h, "sandbox", ref, sizeof(ref), &e) == 0 && *ref)
		(void)!find_box(a, call, ref, &f, &e);
	if (e.code)
		reply_err(a, c, &e);
	else
		events_send(a, c, &f);
}

static void h_sandbox_log(struct api *a, struct http_conn *c,
			  const struct call *call)
{
	struct event_filter f = { 0 };
	struct err e = { 0 };

	if (take_common(http_request(c), call, &f, &e) < 0 ||
	    find_box(a, call, call->arg[0], &f, &e) < 0)
		reply_err(a, c, &e);
	else
		events_send(a, c, &f);
}

static void h_log_export(struct api *a, struct http_conn *c,
			 const struct call *call)
{
	struct event_filter f = { .raw = true };
	struct err e = { 0 };

	if (take_common(http_request(c), call, &f, &e) < 0)
		reply_err(a, c, &e);
	else
		events_send(a, c, &f);
}

static json_t *span_json(struct span s)
{
	return json_stringn(s.p, s.n);
}

/* The last entry that is signed and on disk. */
static json_t *head_json(const struct api *a, struct err *e)
{
	char path[CONF_PATH + 16], line[ENTRY_LINE_MAX], key[128];
	AUTO_CLOSE int dir_fd = -1;
	struct entry head;
	const char *why;

	snprintf(path, sizeof(path), "%s/audit", a->conf.state_dir);
	dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0 ||
	    read_file_at(dir_fd, "head", line, sizeof(line)) < 0 ||
	    read_file_at(dir_fd, "key.pub", key, sizeof(key)) < 0) {
		err_set(e, LOG_AWAY, "the log has not begun yet");
		return NULL;
	}
	line[strcspn(line, "\n")] = '\0';
	key[strcspn(key, "\n")] = '\0';
	if (entry_parse(line, strlen(line), &head, &why) < 0) {
		err_set(e, EIO, "the log's head is damaged: %s", why);
		return NULL;
	}
	return json_pack("{s:I, s:o, s:o, s:o, s:s, s:s}", "seq",
			 (json_int_t)head.seq, "time", span_json(head.time),
			 "hash", span_json(head.hash), "signature",
			 span_json(head.signature), "public_key", key, "entry",
			 line);
}

static void h_log_head(struct api *a, struct http_conn *c,
		       const struct call *call)
{
	struct err e = { 0 };
	json_t *j = head_json(a, &e);

	/* Paths of the host are for those who see all of it. */
	if (j && *call->who.project == '\0')
		json_object_set_new(
			j, "directory",
			json_sprintf("%s/audit", a->conf.state_dir));
	if (j)
		reply_json(a, c, 200, j);
	else
		reply_err(a, c, &e);
}

#define COMMON_QUERY                                             \
	{ "after", "integer", "entries with a greater number" }, \
		{ "type", "string", "the start of their type" }, \
		{ "limit", "integer", "so many, then the answer ends" }

static const struct route_query event_query[] = {
	COMMON_QUERY,
	{ "sandbox", "string", "a name or id: only its entries" },
	{ "follow", "boolean", "false: end at the end of the log" },
	{ 0 },
};

static const struct route_query log_query[] = { COMMON_QUERY, { 0 } };

static const struct route_query export_query[] = {
	{ "after", "integer", "entries with a greater number" },
	{ 0 },
};

const struct route event_routes[] = {
	{ "GET", "/v1/events", h_events, SCOPE_READ, ROUTE_ALONE,
	  "Entries of the log as they are made; from now on, or behind `after` "
	  "or Last-Event-ID",
	  event_query, NULL, "application/x-ndjson", 200 },
	{ "GET", "/v1/sandboxes/{id}/log", h_sandbox_log, SCOPE_READ,
	  ROUTE_ALONE, "What the log has about a sandbox, alive or not",
	  log_query, NULL, "application/x-ndjson", 200 },
	{ "GET", "/v1/log/export", h_log_export, SCOPE_ADMIN,
	  ROUTE_ALONE | ROUTE_OPERATOR | ROUTE_ANYWAY | ROUTE_UNLOGGED,
	  "The log, line by line, as it is", export_query, NULL,
	  "application/x-ndjson", 200 },
	{ "GET", "/v1/sandboxes/{id}/recordings", h_recording_list, SCOPE_READ,
	  ROUTE_ALONE, "List the recordings of its terminals", NULL, NULL,
	  "RecordingList", 200 },
	{ "GET", "/v1/sandboxes/{id}/recordings/{recording}", h_recording_get,
	  SCOPE_USE, ROUTE_ALONE, "A recording, as an asciicast", NULL, NULL,
	  "application/x-asciicast", 200 },
	{ "DELETE", "/v1/sandboxes/{id}/recordings/{recording}",
	  h_recording_delete, SCOPE_USE, ROUTE_ALONE | ROUTE_ANYWAY,
	  "Remove a recording", NULL, NULL, NULL, 204 },
	{ "GET", "/v1/log/head", h_log_head, SCOPE_READ, ROUTE_ALONE,
	  "The last signed entry, to be kept elsewhere", NULL, NULL, "LogHead",
	  200 },
	{ 0 },
};
