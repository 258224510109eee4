/* GET /files: the bytes of a file, as the native request sends them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/envd_fs.h"
#include "api/reply.h"
#include "base/auto.h"
#include "http/target.h"

enum { ERROR_MAX = 8 * 1024 };

struct file_get {
	struct envd_fs fs;
	struct http_conn *conn;
	struct inner in;
	struct buf path;
	struct buf error; /* the native answer, when it is one */
	char *range;      /* of the answer, or NULL */
	bool begun;
	struct deferred gone;
};

static void get_free(struct deferred *d)
{
	struct file_get *g = container_of(d, struct file_get, gone);

	buf_done(&g->path);
	buf_done(&g->error);
	free(g->range);
	free(g);
}

static void get_end(struct file_get *g)
{
	inner_close(&g->in);
	loop_defer(&g->fs.api->loop, &g->gone, get_free);
}

static void get_gone(struct http_conn *c, void *owner)
{
	(void)c;
	get_end(owner);
}

static void get_ready(struct http_conn *c, void *owner)
{
	struct file_get *g = owner;

	(void)c;
	inner_hold(&g->in, false);
}

/* --- the answer --- */

/* Under its own name for those who follow a link to it. */
static void add_name(const char *path, struct buf *b)
{
	const char *slash = strrchr(path, '/');

	buf_puts(b, "attachment; filename*=UTF-8''");
	http_encode(b, slash ? slash + 1 : path);
	buf_str(b);
}

static void start(struct file_get *g, bool sized, uint64_t length)
{
	AUTO(buf_done) struct buf name = { 0 };
	struct http_field fields[] = {
		{ "Content-Type", "application/octet-stream" },
		/* No browser is to make a page of what a sandbox wrote. */
		{ "X-Content-Type-Options", "nosniff" },
		{ "Accept-Ranges", "bytes" },
		{ "Content-Disposition", "" },
		{ g->range ? "Content-Range" : NULL, g->range },
		{ NULL, NULL },
	};

	add_name(buf_data(&g->path), &name);
	fields[3].value = buf_data(&name);
	g->begun = true;
	g->fs.api->metrics.requests[2]++;
	if (sized)
		http_reply_start_sized(g->conn, g->in.status, fields, length,
				       get_ready);
	else
		http_reply_start(g->conn, g->in.status, fields, get_ready);
}

static void on_head(struct inner *in, const struct http_head *h)
{
	struct file_get *g = container_of(in, struct file_get, in);
	const char *range = http_header(h, "content-range");

	if (range)
		g->range = xstrdup(range);
	/* One without a length may turn out to be empty: see on_ended(). */
	if ((h->status == 200 || h->status == 206) && h->body == HTTP_LENGTH)
		start(g, true, h->length);
}

static void on_data(struct inner *in, const char *p, size_t n)
{
	struct file_get *g = container_of(in, struct file_get, in);

	if (in->status >= 400) {
		if (buf_len(&g->error) + n <= ERROR_MAX)
			buf_add(&g->error, p, n);
		return;
	}
	if (!g->begun)
		start(g, false, 0);
	if (!http_reply_data(g->conn, p, n))
		inner_hold(in, true);
}

static void tell_error(struct file_get *g, int status)
{
	json_t *j =
		json_loadb(buf_data(&g->error), buf_len(&g->error), 0, NULL);
	struct http_field fields[] = {
		{ "Content-Type", "application/json" },
		{ g->range ? "Content-Range" : NULL, g->range },
		{ NULL, NULL },
	};
	struct api *a = g->fs.api;
	struct http_conn *c = g->conn;
	struct envd_error e;

	envd_fs_error(&g->fs, status, j, &e);
	json_decref(j);
	if (e.status == 416 && g->range) {
		a->metrics.requests[4]++;
		http_reply(c, 416, fields, buf_data(&g->error),
			   buf_len(&g->error));
	} else {
		e2b_fail(a, c, e.status, e.msg);
	}
	get_end(g);
}

static void on_ended(struct inner *in, bool whole)
{
	struct file_get *g = container_of(in, struct file_get, in);
	struct http_conn *c = g->conn;

	if (!whole && g->begun) {
		get_end(g);
		http_reply_cut(c);
		return;
	}
	if (!whole || in->status >= 400) {
		tell_error(g, whole ? in->status : 0);
		return;
	}
	/* Their SDKs look for the length of an empty one. */
	if (!g->begun)
		start(g, true, 0);
	get_end(g);
	http_reply_end(c);
}

static const struct inner_ops get_inner = { .head = on_head,
					    .data = on_data,
					    .ended = on_ended };

/* --- the request --- */

static int get_start(struct file_get *g, struct err *e)
{
	const struct http_head *h = http_request(g->conn);
	AUTO(buf_done) struct buf target = { 0 };
	struct http_field fields[3] = { { NULL, NULL } };
	struct inner_request q = { .method = "GET", .fields = fields };
	char path[HTTP_TARGET_MAX] = "";
	size_t n = 0;

	if (http_query(h, "path", path, sizeof(path)) < 0)
		return err_set(e, EINVAL,
			       "path is given twice, not UTF-8 or has control "
			       "bytes");
	if (envd_path(path, &g->path, e) < 0)
		return -e->code;
	if (http_header(h, "range"))
		fields[n++] =
			(struct http_field){ "Range", http_header(h, "range") };
	if (http_header(h, "if-range"))
		fields[n] = (struct http_field){ "If-Range",
						 http_header(h, "if-range") };
	envd_fs_target(&g->fs, &target, "content", buf_data(&g->path));
	q.target = buf_str(&target);
	g->in.ops = &get_inner;
	return inner_start(&g->in, g->fs.api, &g->fs.who, g->fs.request_id, &q,
			   e);
}

static void envd_file_get(struct api *a, struct http_conn *c,
			  const struct envd_call *call)
{
	struct file_get *g = xcalloc(1, sizeof(*g));
	struct err e = { 0 };

	g->conn = c;
	envd_fs_init(&g->fs, a, c, call);
	http_own(c, g, get_gone);
	if (get_start(g, &e) == 0)
		return;
	get_end(g);
	e2b_fail_err(a, c, &e);
}

const struct envd_route envd_file_routes[] = {
	{ "GET", "/files", envd_file_get, ENVD_SIGNED },
	{ "POST", "/files", envd_file_put, ENVD_SIGNED },
	{ 0 },
};
