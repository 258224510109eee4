/*
 * E2B's logs of a sandbox, out of ours: what was done with it, not what its
 * processes wrote. The whole log of the sandbox is read, and as many entries
 * are kept as are asked for.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/job.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/clock.h"
#include "http/target.h"

enum {
	LOGS_MAX = 1000,
	LINE_MAX_BYTES = 64 * 1024,
	SEARCH_CAP = 256,
};

struct logs {
	struct api *api;
	struct http_conn *conn;
	struct inner in;
	struct buf line;  /* what is there of the next one */
	json_t *found;    /* entries, in the order of the log */
	bool v2, back;    /* the last ones, and from the last to the first */
	uint64_t from_ms; /* of `back`: up to which; 0: the end of the log */
	uint64_t limit;
	char level[16], search[SEARCH_CAP];
};

static void logs_free(struct logs *l)
{
	inner_close(&l->in);
	buf_done(&l->line);
	json_decref(l->found);
	free(l);
}

static void logs_gone(struct http_conn *c, void *owner)
{
	(void)c;
	logs_free(owner);
}

/* --- entries --- */

static const char *level_of(const char *type)
{
	static const char *const bad[] = { "egress.denied", "canary.", "limit.",
					   "log." };
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++)
		if (str_starts(type, bad[i]))
			return "warn";
	return "info";
}

/* The type and what it is about, in one line. */
static json_t *words(const json_t *entry)
{
	const json_t *data = json_object_get(entry, "data");
	AUTO_FREE char *text =
		json_object_size(data) ? json_dumps(data, JSON_COMPACT) : NULL;

	return json_sprintf("%s%s%s",
			    json_string_value(json_object_get(entry, "type")),
			    text ? " " : "", text ? text : "");
}

static json_t *fields(const json_t *entry)
{
	static const char *const keys[] = { "type", "who", "request_id" };
	json_t *out = json_object();
	size_t i;

	for (i = 0; i < ARRAY_LEN(keys); i++) {
		json_t *v = json_object_get(entry, keys[i]);

		if (json_is_string(v))
			json_object_set(out, keys[i], v);
	}
	json_object_set_new(
		out, "seq",
		json_sprintf("%lld", (long long)json_integer_value(
					     json_object_get(entry, "seq"))));
	return out;
}

static bool is_wanted(const struct logs *l, const json_t *x, uint64_t ms)
{
	const char *level = json_string_value(json_object_get(x, "level"));
	const char *msg = json_string_value(json_object_get(x, "message"));

	if (l->back ? l->from_ms && ms > l->from_ms : ms < l->from_ms)
		return false;
	/* Each level has the ones above it; there are two of them here. */
	if ((strcmp(l->level, "warn") == 0 && strcmp(level, "warn") != 0) ||
	    strcmp(l->level, "error") == 0)
		return false;
	return !*l->search || strstr(msg, l->search);
}

static void take_line(struct logs *l, const char *line, size_t n)
{
	json_t *entry = json_loadb(line, n, 0, NULL), *x;
	const char *type = json_string_value(json_object_get(entry, "type"));
	const char *time = json_string_value(json_object_get(entry, "time"));
	uint64_t ms = 0;

	if (!type || !time || clock_parse(time, &ms) < 0) {
		json_decref(entry);
		return;
	}
	x = json_pack("{s:s, s:s, s:o, s:o}", "timestamp", time, "level",
		      level_of(type), "message", words(entry), "fields",
		      fields(entry));
	json_decref(entry);
	if (is_wanted(l, x, ms) &&
	    (l->back || json_array_size(l->found) < l->limit))
		json_array_append(l->found, x);
	json_decref(x);
	if (json_array_size(l->found) > l->limit)
		json_array_remove(l->found, 0);
}

/* --- the answer --- */

static void turn_around(json_t *list)
{
	size_t i, n = json_array_size(list);

	for (i = 0; i < n; i++) {
		json_t *last = json_incref(json_array_get(list, n - 1));

		json_array_remove(list, n - 1);
		json_array_insert_new(list, i, last);
	}
}

static json_t *plain_lines(const json_t *entries)
{
	json_t *list = json_array(), *x;
	size_t i;

	json_array_foreach ((json_t *)entries, i, x) {
		json_array_append_new(
			list, json_pack("{s:O, s:O}", "timestamp",
					json_object_get(x, "timestamp"), "line",
					json_object_get(x, "message")));
	}
	return list;
}

static void answer(struct logs *l)
{
	if (l->v2 && l->back)
		turn_around(l->found);
	reply_json(l->api, l->conn, 200,
		   l->v2 ? json_pack("{s:O}", "logs", l->found)
			 : json_pack("{s:o, s:O}", "logs",
				     plain_lines(l->found), "logEntries",
				     l->found));
}

static void on_data(struct inner *in, const char *p, size_t n)
{
	struct logs *l = container_of(in, struct logs, in);

	while (n) {
		const char *end = memchr(p, '\n', n);
		size_t len = end ? (size_t)(end - p) : n;

		/* What is longer than any entry is none. */
		if (buf_len(&l->line) + len <= LINE_MAX_BYTES)
			buf_add(&l->line, p, len);
		p += len + (end != NULL);
		n -= len + (end != NULL);
		if (end && in->status == 200) {
			take_line(l, buf_data(&l->line), buf_len(&l->line));
			buf_clear(&l->line);
		}
	}
}

static void on_ended(struct inner *in, bool whole)
{
	struct logs *l = container_of(in, struct logs, in);
	json_t *why = NULL;

	if (whole && in->status == 200) {
		answer(l);
	} else {
		why = json_loadb(buf_data(&l->line), buf_len(&l->line), 0,
				 NULL);
		e2b_pass_error(l->api, l->conn, whole ? in->status : 0, why);
		json_decref(why);
	}
	logs_free(l);
}

static const struct inner_ops ops = { .data = on_data, .ended = on_ended };

/* --- the request --- */

static int take_number(const struct http_head *h, const char *name,
		       uint64_t max, uint64_t *out, struct err *e)
{
	char text[24];
	int r = http_query(h, name, text, sizeof(text));

	if (r < 0 || (r == 1 && parse_u64(text, max, out) < 0))
		return err_set(e, EINVAL, "%s: not a number", name);
	return 0;
}

static int take_query(struct logs *l, const struct http_head *h, struct err *e)
{
	char word[16] = "";

	l->limit = LOGS_MAX;
	if (take_number(h, "limit", LOGS_MAX, &l->limit, e) < 0 ||
	    take_number(h, l->v2 ? "cursor" : "start", INT64_MAX, &l->from_ms,
			e) < 0)
		return -e->code;
	if (http_query(h, "direction", word, sizeof(word)) < 0 ||
	    http_query(h, "level", l->level, sizeof(l->level)) < 0 ||
	    http_query(h, "search", l->search, sizeof(l->search)) < 0)
		return err_set(e, EINVAL,
			       "direction, level, search: not valid");
	l->back = strcmp(word, "backward") == 0;
	return 0;
}

static void logs_start(struct api *a, struct http_conn *c,
		       const struct call *call, bool v2)
{
	struct logs *l = xcalloc(1, sizeof(*l));
	char id[ID_CAP], target[96];
	const struct inner_request q = { .method = "GET", .target = target };
	struct err e = { 0 };

	l->api = a;
	l->conn = c;
	l->v2 = v2;
	l->in.ops = &ops;
	l->found = json_array();
	snprintf(id, sizeof(id), "%.*s", (int)strcspn(call->arg[0], "-"),
		 call->arg[0]);
	if (!id_valid(id))
		err_set(&e, ENOENT, "no sandbox '%.64s'", call->arg[0]);
	snprintf(target, sizeof(target), "/v1/sandboxes/%s/log", id);
	if (e.code || take_query(l, http_request(c), &e) < 0 ||
	    inner_start(&l->in, a, &call->who, http_request_id(c), &q, &e) <
		    0) {
		e2b_fail_err(a, c, &e);
		logs_free(l);
		return;
	}
	http_own(c, l, logs_gone);
}

static void h_logs_v1(struct api *a, struct http_conn *c,
		      const struct call *call)
{
	logs_start(a, c, call, false);
}

static void h_logs(struct api *a, struct http_conn *c, const struct call *call)
{
	logs_start(a, c, call, true);
}

const struct route e2b_logs_routes[] = {
	E2B_ROW("GET", "/sandboxes/{id}/logs", h_logs_v1, "E2B: logs, old"),
	E2B_ROW("GET", "/v2/sandboxes/{id}/logs", h_logs, "E2B: logs"),
	{ 0 },
};
