/*
 * ListDir: one answer, of which the native API gives a page at a time. Each
 * leaves before the next is asked for, so a list of any length takes the
 * memory of one page.
 */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/connect.h"
#include "api/e2b/envd_fs.h"
#include "api/json_text.h"
#include "base/auto.h"
#include "http/target.h"

enum { PAGE = 500 };

static void list_done(struct inner_ask *a, int status, json_t *answer);

static void ask_page(struct fs_call *q)
{
	AUTO(buf_done) struct buf target = { 0 };

	envd_fs_target(&q->fs, &target, "list", buf_data(&q->path));
	buf_printf(&target, "&detail=true&limit=%d&depth=%llu", PAGE,
		   (unsigned long long)q->depth);
	if (q->after)
		buf_puts(&target, q->after);
	fs_call_ask(q, "GET", buf_str(&target), NULL, list_done);
}

/* Behind which entry the next page starts; false: there is none. */
static bool take_next(struct fs_call *q, const json_t *answer)
{
	static const char *const keys[][2] = {
		{ "next_base64", "&after_base64=" }, { "next", "&after=" }
	};
	AUTO(buf_done) struct buf b = { 0 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(keys); i++) {
		const json_t *v = json_object_get(answer, keys[i][0]);

		if (!json_is_string(v))
			continue;
		buf_puts(&b, keys[i][1]);
		http_encode(&b, json_string_value(v));
		free(q->after);
		q->after = xstrdup(buf_str(&b));
		return true;
	}
	return false;
}

/* The client took what was queued. */
static void list_ready(struct http_conn *c, void *owner)
{
	(void)c;
	ask_page(owner);
}

static void start(struct fs_call *q)
{
	static const struct http_field fields[] = {
		{ "Content-Type", "application/json" },
		{ NULL, NULL },
	};

	q->begun = true;
	q->fs.api->metrics.requests[2]++;
	http_reply_start(q->conn, 200, fields, list_ready);
}

static void add_entries(struct buf *b, const json_t *entries, bool first)
{
	size_t i;
	json_t *v;

	json_array_foreach (entries, i, v) {
		json_t *entry = envd_entry(v);

		if (!first || i > 0)
			buf_puts(b, ",");
		json_add(b, entry);
		json_decref(entry);
	}
}

static void list_done(struct inner_ask *a, int status, json_t *answer)
{
	struct fs_call *q = container_of(a, struct fs_call, ask);
	AUTO(buf_done) struct buf b = { 0 };
	struct http_conn *c = q->conn;
	bool first = !q->begun, more;

	if (status != 200) {
		fs_call_error(q, status, answer);
		return;
	}
	if (first) {
		start(q);
		buf_puts(&b, "{\"entries\":[");
	}
	add_entries(&b, json_object_get(answer, "entries"), first);
	more = take_next(q, answer);
	if (!more)
		buf_puts(&b, "]}");
	if (!http_reply_data(c, buf_data(&b), buf_len(&b)) && more)
		return;
	if (more) {
		ask_page(q);
		return;
	}
	fs_call_end(q);
	http_reply_end(c);
}

static void list_start(struct fs_call *q)
{
	const json_t *v = json_object_get(q->message, "depth");
	json_int_t depth = json_integer_value(v);

	if (v && !json_is_integer(v)) {
		fs_call_fail(q, "invalid_argument", "depth is not a number");
		return;
	}
	if (depth < 0) {
		fs_call_fail(q, "invalid_argument", "depth is negative");
		return;
	}
	/* 0 is what a message has that does not say it. */
	q->depth = depth == 0               ? 1
		   : depth > FILE_DEPTH_MAX ? FILE_DEPTH_MAX
					    : (uint64_t)depth;
	ask_page(q);
}

void envd_list_dir(struct api *a, struct http_conn *c,
		   const struct envd_call *call)
{
	fs_call_read(a, c, call, list_start);
}
