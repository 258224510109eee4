/*
 * Resources: the sandbox's log, and its files by path.
 *
 *	carrel://log		its entries of the log, the newest ones
 *	carrel://file/PATH	a file, relative to the home directory
 *	carrel://file//PATH	one by its absolute path
 *
 * The list has the log and what is in the home directory; it makes no sandbox
 * where there is none, because clients ask for it before anybody wants one.
 */
#include <string.h>

#include "api/json_text.h"
#include "api/mcp/content.h"
#include "api/mcp/rpc.h"
#include "api/mcp/task.h"
#include "base/auto.h"
#include "base/base64.h"
#include "base/product.h"
#include "http/target.h"

#define LOG_URI PRODUCT "://log"
#define FILE_URI PRODUCT "://file/"

enum {
	LIST_MAX = 200,
	BYTES_MAX = 4 * 1024 * 1024, /* of a file */
	LOG_MAX = 256 * 1024,
	URI_MAX = 16 * 1024,
};

/* --- the list --- */

static json_t *log_resource(void)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s}", "uri", LOG_URI, "name",
			 "log", "title", "What was done in the sandbox",
			 "description",
			 "The newest entries of the sandbox's log: commands, "
			 "files, requests to the outside; a line of JSON each",
			 "mimeType", "application/x-ndjson");
}

static json_t *file_resource(const json_t *e)
{
	AUTO(buf_done) struct buf uri = { 0 };
	const char *name = json_string_value(json_object_get(e, "name"));

	buf_puts(&uri, FILE_URI);
	http_encode(&uri, name);
	return json_pack("{s:s, s:s, s:O}", "uri", buf_str(&uri), "name", name,
			 "size", json_object_get(e, "size"));
}

static bool is_file(const json_t *e)
{
	const char *type = json_string_value(json_object_get(e, "type"));

	return type && strcmp(type, "file") == 0 &&
	       !json_object_get(e, "name_base64") &&
	       json_is_string(json_object_get(e, "name"));
}

static void reply_result(struct task *t, json_t *result)
{
	struct mcp_call *c = t->call;

	task_end(t);
	mcp_reply(c, result);
}

static void reply_fail(struct task *t, int code, const char *msg)
{
	struct mcp_call *c = t->call;
	AUTO_FREE char *text = xstrdup(msg);

	task_end(t);
	mcp_fail(c, code, text);
}

static void on_home(struct task *t, int status, json_t *answer)
{
	json_t *list = json_pack("[o]", log_resource());
	const json_t *e;
	size_t i;

	/* Without a home there are no files in it. */
	json_array_foreach (json_object_get(answer, "entries"), i, e) {
		if (status == 200 && is_file(e))
			json_array_append_new(list, file_resource(e));
	}
	reply_result(t, json_pack("{s:o}", "resources", list));
}

void mcp_resources_list(struct mcp_call *c, const json_t *params)
{
	AUTO(buf_done) struct buf target = { 0 };
	const char *box = mcp_box(c->session);
	struct task *t;

	if (json_object_get(params, "cursor")) {
		mcp_fail(c, RPC_BAD_PARAMS, "there is no such page");
		return;
	}
	if (!box) {
		mcp_reply(c, json_pack("{s:[o]}", "resources", log_resource()));
		return;
	}
	t = task_bare(c, params, sizeof(*t));
	snprintf(t->box, sizeof(t->box), "%s", box);
	task_target(t, &target, "/files/list");
	buf_printf(&target, "?path=.&limit=%d", LIST_MAX);
	task_ask(t, "GET", buf_str(&target), NULL, on_home);
}

void mcp_resources_templates(struct mcp_call *c, const json_t *params)
{
	(void)params;
	mcp_reply(c,
		  json_pack("{s:[{s:s, s:s, s:s, s:s}]}", "resourceTemplates",
			    "uriTemplate", FILE_URI "{+path}", "name", "file",
			    "title", "A file of the sandbox", "description",
			    "By its path: relative to the home directory, or "
			    "absolute with a second slash (" FILE_URI
			    "/etc/hosts). At most 4 MiB."));
}

/* --- reading --- */

struct reading {
	struct task task;
	struct task_bytes bytes;
	struct buf content;
	bool log; /* the newest of it is kept */
};

static struct reading *reading_of(struct task *t)
{
	return container_of(t, struct reading, task);
}

static void reading_done(struct task *t)
{
	buf_done(&reading_of(t)->content);
}

static const char *uri_of(const struct task *t)
{
	return task_str(t, "uri", "");
}

static void on_data(struct task *t, const char *p, size_t n)
{
	struct reading *r = reading_of(t);

	if (!r->log && buf_len(&r->content) + n > BYTES_MAX) {
		reply_fail(t, RPC_REFUSED,
			   "the file has more than 4 MiB: take a part of it "
			   "with read_file or run_command");
		return;
	}
	buf_add(&r->content, p, n);
	if (r->log && buf_len(&r->content) > 2 * LOG_MAX)
		buf_eat(&r->content, buf_len(&r->content) - LOG_MAX);
}

/* Whole lines, the newest. */
static void cut_log(struct buf *b)
{
	const char *nl;

	if (buf_len(b) <= LOG_MAX)
		return;
	buf_eat(b, buf_len(b) - LOG_MAX);
	nl = memchr(buf_data(b), '\n', buf_len(b));
	if (nl)
		buf_eat(b, (size_t)(nl - buf_data(b)) + 1);
}

static json_t *content_json(const struct reading *r)
{
	const char *p = buf_data(&r->content);
	size_t n = buf_len(&r->content);
	AUTO(buf_done) struct buf coded = { 0 };
	json_t *j = json_pack("{s:s}", "uri", uri_of(&r->task));
	const char *image = image_type(p, n);

	if (!image && !is_binary(p, n)) {
		json_object_set_new(j, "mimeType",
				    json_string(r->log ? "application/x-ndjson"
						       : "text/plain"));
		json_object_set_new(j, "text", json_lossy(p, n));
		return j;
	}
	base64_add(&coded, p, n);
	json_object_set_new(
		j, "mimeType",
		json_string(image ? image : "application/octet-stream"));
	json_object_set_new(j, "blob", json_string(buf_str(&coded)));
	return j;
}

static void on_end(struct task *t, int status, json_t *error, bool whole)
{
	struct reading *r = reading_of(t);

	if (status / 100 != 2 || !whole) {
		reply_fail(t, status == 404 ? RPC_NOT_FOUND : RPC_REFUSED,
			   inner_message(status, error));
		return;
	}
	if (r->log)
		cut_log(&r->content);
	reply_result(t, json_pack("{s:[o]}", "contents", content_json(r)));
}

/* What is behind a prefix, decoded; false: it is no path. */
static bool take_path(const char *s, struct buf *out)
{
	for (; *s; s++) {
		int high, low;

		if (*s != '%') {
			buf_add(out, s, 1);
			continue;
		}
		high = http_hex_value(s[1]);
		low = high < 0 ? -1 : http_hex_value(s[2]);
		if (low < 0 || (high == 0 && low == 0))
			return false;
		buf_add(out, &(char){ (char)(high << 4 | low) }, 1);
		s += 2;
	}
	return buf_len(out) > 0;
}

static void read_begin(struct task *t)
{
	AUTO(buf_done) struct buf target = { 0 }, path = { 0 };
	struct reading *r = reading_of(t);
	const char *uri = uri_of(t);
	struct inner_request q = { .method = "GET" };

	t->done = reading_done;
	r->log = strcmp(uri, LOG_URI) == 0;
	if (r->log) {
		task_target(t, &target, "/log");
	} else {
		/* mcp_resources_read() has looked at it. */
		(void)take_path(uri + strlen(FILE_URI), &path);
		task_target(t, &target, "/files/content");
		target_add(&target, "path", buf_str(&path));
	}
	q.target = buf_str(&target);
	r->bytes = (struct task_bytes){ .data = on_data, .ended = on_end };
	task_fetch(t, &q, &r->bytes);
}

void mcp_resources_read(struct mcp_call *c, const json_t *params)
{
	const char *uri = json_string_value(json_object_get(params, "uri"));
	AUTO(buf_done) struct buf path = { 0 };

	if (!uri || strlen(uri) > URI_MAX) {
		mcp_fail(c, RPC_BAD_PARAMS, "'uri' of the resource is missing");
		return;
	}
	if (strcmp(uri, LOG_URI) != 0 &&
	    (strncmp(uri, FILE_URI, strlen(FILE_URI)) != 0 ||
	     !take_path(uri + strlen(FILE_URI), &path))) {
		mcp_fail(c, RPC_NOT_FOUND,
			 "there is no such resource: see resources/list and "
			 "resources/templates/list");
		return;
	}
	task_new(c, params, sizeof(struct reading), read_begin);
}
