/*
 * Files and directories of a volume, for who has its token: native requests
 * to the volume's sandbox (volume.h), as root there, so that whatever is in
 * the volume can be seen and removed. What is made belongs to the usual user.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "api/e2b/e2b.h"
#include "api/e2b/volume.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "http/target.h"

enum { PATH_CAP = 2048, DEPTH_MAX = 64 };

struct content {
	struct api *api;
	struct http_conn *conn;
	struct identity who;
	char volume[ID_CAP];
	char box[ID_CAP];
	char path[PATH_CAP]; /* inside the sandbox */
	/* -1: nothing is said. */
	int64_t uid, gid, mode;
	uint64_t depth;
	bool parents, again;
	int status; /* of the answer */
	json_t *body;
	void (*start)(struct content *ct);
	struct volume_wait wait;
	struct inner_ask ask;
	struct inner stream;
	struct buf refusal; /* an answer to `stream` that is an error */
	bool begun;         /* ours has */
	struct deferred gone;
};

/* --- its life --- */

static void content_free(struct deferred *d)
{
	struct content *ct = container_of(d, struct content, gone);

	json_decref(ct->body);
	buf_done(&ct->refusal);
	free(ct);
}

static void content_end(struct content *ct)
{
	volume_leave(&ct->wait);
	inner_ask_close(&ct->ask);
	inner_close(&ct->stream);
	loop_defer(&ct->api->loop, &ct->gone, content_free);
}

static void content_gone(struct http_conn *c, void *owner)
{
	(void)c;
	content_end(owner);
}

static void fail(struct content *ct, int status, const char *msg)
{
	e2b_fail(ct->api, ct->conn, status, msg);
	content_end(ct);
}

static void fail_err(struct content *ct, const struct err *e)
{
	e2b_fail_err(ct->api, ct->conn, e);
	content_end(ct);
}

static void find_box(struct content *ct);

/* True: the sandbox had ended under it, and it begins anew. */
static bool try_again(struct content *ct, int status)
{
	const struct sandbox *s = box_by_id(ct->api, ct->box);

	if (status / 100 == 2 || ct->again || ct->begun ||
	    (s && s->state == BOX_RUNNING))
		return false;
	ct->again = true;
	find_box(ct);
	return true;
}

static void refuse(struct content *ct, int status, const json_t *answer)
{
	if (try_again(ct, status))
		return;
	e2b_pass_error(ct->api, ct->conn, status, answer);
	content_end(ct);
}

/* --- asking --- */

static void put_target(const struct content *ct, struct buf *b,
		       const char *what)
{
	buf_printf(b, "/v1/sandboxes/%s/files/%s?user=0&path=", ct->box, what);
	http_encode(b, ct->path);
	buf_puts(b, "&within=" VOLUME_TOP);
}

static void ask(struct content *ct, const char *method, const char *what,
		json_t *body,
		void (*done)(struct inner_ask *q, int status, json_t *answer))
{
	AUTO(buf_done) struct buf target = { 0 };
	struct err e = { 0 };

	if (body)
		buf_printf(&target, "/v1/sandboxes/%s/%s", ct->box, what);
	else
		put_target(ct, &target, what);
	if (ct->depth && strcmp(what, "list") == 0)
		buf_printf(&target, "&depth=%llu",
			   (unsigned long long)ct->depth);
	if (inner_ask(&ct->ask,
		      &(struct inner_json){ ct->api, &ct->who,
					    http_request_id(ct->conn), method,
					    buf_str(&target), body, done },
		      &e) < 0)
		fail_err(ct, &e);
}

/* --- entries --- */

static json_t *entry_json(const json_t *n)
{
	const char *path = json_string_value(json_object_get(n, "path")),
		   *type = json_string_value(json_object_get(n, "type")),
		   *mode = json_string_value(json_object_get(n, "mode"));
	json_t *time = json_object_get(n, "modified_at"),
	       *target = json_object_get(n, "target"), *j;
	bool known = type && (strcmp(type, "file") == 0 ||
			      strcmp(type, "directory") == 0 ||
			      strcmp(type, "symlink") == 0);

	if (!path || !mode || !str_starts(path, VOLUME_TOP))
		return NULL;
	path += strlen(VOLUME_TOP);
	time = json_is_string(time) ? json_incref(time) : json_time(1);
	j = json_pack(
		"{s:s, s:O, s:s, s:O, s:I, s:O, s:O, s:O, s:O, s:o}", "path",
		*path ? path : "/", "name", json_object_get(n, "name"), "type",
		known ? type : "unknown", "size", json_object_get(n, "size"),
		"mode", (json_int_t)strtol(mode, NULL, 8), "uid",
		json_object_get(n, "uid"), "gid", json_object_get(n, "gid"),
		"atime", time, "ctime", time, "mtime", time);
	if (j && json_is_string(target))
		json_object_set(j, "target", target);
	return j;
}

static void on_entry(struct inner_ask *q, int status, json_t *answer)
{
	struct content *ct = container_of(q, struct content, ask);
	json_t *j = status == 200 ? entry_json(answer) : NULL;

	if (!j) {
		refuse(ct, status, answer);
		return;
	}
	reply_json(ct->api, ct->conn, ct->status, j);
	content_end(ct);
}

static void show(struct content *ct)
{
	ask(ct, "GET", "stat", NULL, on_entry);
}

static void start_stat(struct content *ct)
{
	ct->status = 200;
	show(ct);
}

static void on_list(struct inner_ask *q, int status, json_t *answer)
{
	struct content *ct = container_of(q, struct content, ask);
	json_t *list, *v;
	size_t i;

	if (status != 200) {
		refuse(ct, status, answer);
		return;
	}
	list = json_array();
	json_array_foreach (json_object_get(answer, "entries"), i, v) {
		json_t *j = entry_json(v);

		if (j)
			json_array_append_new(list, j);
	}
	reply_json(ct->api, ct->conn, 200, list);
	content_end(ct);
}

static void start_list(struct content *ct)
{
	ask(ct, "GET", "list", NULL, on_list);
}

/* --- changes --- */

/* All changes run as root, and never outside of the volume. */
static json_t *change_body(const struct content *ct)
{
	return json_pack("{s:s, s:s, s:s}", "path", ct->path, "within",
			 VOLUME_TOP, "user", "0");
}

static void set_id(json_t *body, const char *name, int64_t id)
{
	if (id >= 0)
		json_object_set_new(body, name,
				    json_sprintf("%lld", (long long)id));
}

static void on_owned(struct inner_ask *q, int status, json_t *answer)
{
	struct content *ct = container_of(q, struct content, ask);

	if (status != 200)
		refuse(ct, status, answer);
	else
		show(ct);
}

/* Ends with what it is now. */
static void own(struct content *ct)
{
	json_t *body;

	if (ct->uid < 0 && ct->gid < 0) {
		show(ct);
		return;
	}
	body = change_body(ct);
	set_id(body, "uid", ct->uid);
	set_id(body, "gid", ct->gid);
	ask(ct, "POST", "files/chmod", body, on_owned);
}

static void on_changed(struct inner_ask *q, int status, json_t *answer)
{
	struct content *ct = container_of(q, struct content, ask);

	if (status / 100 == 2)
		own(ct);
	else
		refuse(ct, status, answer);
}

static void set_mode(const struct content *ct, json_t *body)
{
	if (ct->mode >= 0)
		json_object_set_new(
			body, "mode",
			json_sprintf("%04llo", (unsigned long long)ct->mode));
}

static void start_mkdir(struct content *ct)
{
	json_t *body = change_body(ct);

	json_object_set_new(body, "parents", json_boolean(ct->parents));
	json_object_set_new(body, "owner", json_string(""));
	set_mode(ct, body);
	ct->status = 201;
	ask(ct, "POST", "files/mkdir", body, on_changed);
}

static int take_id(const json_t *body, const char *key, int64_t max,
		   int64_t *out, struct err *e)
{
	const json_t *v = json_object_get(body, key);

	if (!v || json_is_null(v))
		return 0;
	*out = json_integer_value(v);
	if (!json_is_integer(v) || *out < 0 || *out > max)
		return err_set(e, EINVAL, "%s: not a number from 0 to %lld",
			       key, (long long)max);
	return 0;
}

static void start_patch(struct content *ct)
{
	json_t *body;

	ct->status = 200;
	if (ct->mode < 0) {
		own(ct);
		return;
	}
	body = change_body(ct);
	set_mode(ct, body);
	ask(ct, "POST", "files/chmod", body, on_changed);
}

static void on_removed(struct inner_ask *q, int status, json_t *answer)
{
	struct content *ct = container_of(q, struct content, ask);

	if (status / 100 != 2) {
		refuse(ct, status, answer);
		return;
	}
	reply_empty(ct->api, ct->conn, 204);
	content_end(ct);
}

static void start_remove(struct content *ct)
{
	json_t *body;

	if (strcmp(ct->path, VOLUME_TOP) == 0) {
		fail(ct, 400,
		     "the volume itself is removed by DELETE /volumes");
		return;
	}
	body = change_body(ct);
	json_object_set_new(body, "recursive", json_true());
	ask(ct, "POST", "files/remove", body, on_removed);
}

/* --- bytes --- */

enum { REFUSAL_MAX = 16 * 1024 };

static void keep_refusal(struct content *ct, const char *p, size_t n)
{
	if (buf_len(&ct->refusal) + n <= REFUSAL_MAX)
		buf_add(&ct->refusal, p, n);
}

static void pass_refusal(struct content *ct)
{
	json_t *j = json_loadb(buf_data(&ct->refusal), buf_len(&ct->refusal), 0,
			       NULL);

	refuse(ct, ct->stream.status ? ct->stream.status : 503, j);
	json_decref(j);
}

static void on_more(struct http_conn *c, void *owner)
{
	struct content *ct = owner;

	(void)c;
	inner_hold(&ct->stream, false);
}

static void read_head(struct inner *in, const struct http_head *h)
{
	static const struct http_field fields[] = {
		{ "Content-Type", "application/octet-stream" }, { NULL, NULL }
	};
	struct content *ct = container_of(in, struct content, stream);

	if (in->status != 200)
		return;
	ct->begun = true;
	if (h->body == HTTP_LENGTH)
		http_reply_start_sized(ct->conn, 200, fields, h->length,
				       on_more);
	else
		http_reply_start(ct->conn, 200, fields, on_more);
}

static void read_data(struct inner *in, const char *p, size_t n)
{
	struct content *ct = container_of(in, struct content, stream);

	if (!ct->begun)
		keep_refusal(ct, p, n);
	else if (!http_reply_data(ct->conn, p, n))
		inner_hold(in, true);
}

static void read_ended(struct inner *in, bool whole)
{
	struct content *ct = container_of(in, struct content, stream);

	if (!ct->begun) {
		pass_refusal(ct);
		return;
	}
	if (whole)
		http_reply_end(ct->conn);
	else
		http_reply_cut(ct->conn);
	content_end(ct);
}

static const struct inner_ops read_ops = { .head = read_head,
					   .data = read_data,
					   .ended = read_ended };

static void start_stream(struct content *ct, const char *method,
			 const char *more, const struct inner_ops *ops)
{
	AUTO(buf_done) struct buf target = { 0 };
	struct inner_request q = { .method = method,
				   .stream = ops != &read_ops };
	struct err e = { 0 };

	put_target(ct, &target, "content");
	buf_puts(&target, more);
	q.target = buf_str(&target);
	buf_clear(&ct->refusal);
	ct->stream = (struct inner){ .ops = ops };
	if (inner_start(&ct->stream, ct->api, &ct->who,
			http_request_id(ct->conn), &q, &e) < 0)
		fail_err(ct, &e);
}

static void start_read(struct content *ct)
{
	start_stream(ct, "GET", "", &read_ops);
}

static void write_data(struct inner *in, const char *p, size_t n)
{
	keep_refusal(container_of(in, struct content, stream), p, n);
}

static void write_room(struct inner *in)
{
	http_resume_body(container_of(in, struct content, stream)->conn);
}

static void write_ended(struct inner *in, bool whole)
{
	struct content *ct = container_of(in, struct content, stream);

	if (whole && in->status / 100 == 2)
		own(ct);
	else
		pass_refusal(ct);
}

static const struct inner_ops write_ops = { .data = write_data,
					    .room = write_room,
					    .ended = write_ended };

static size_t body_data(struct http_conn *c, const char *p, size_t n,
			void *owner)
{
	struct content *ct = owner;

	(void)c;
	ct->begun = true; /* what is sent cannot be sent again */
	return inner_send(&ct->stream, p, n);
}

static void body_end(struct http_conn *c, void *owner)
{
	struct content *ct = owner;

	(void)c;
	inner_send_end(&ct->stream);
}

static void start_write(struct content *ct)
{
	char more[64] = "&owner=&parents=true";
	size_t n = strlen(more);

	if (ct->mode >= 0)
		snprintf(more + n, sizeof(more) - n, "&mode=%04llo",
			 (unsigned long long)ct->mode);
	ct->status = 201;
	start_stream(ct, "PUT", more, &write_ops);
	if (ct->stream.api)
		http_stream_body(ct->conn, body_data, body_end);
}

/* --- who asks, and for what --- */

static void on_box(struct volume_wait *w, const char *box, int status,
		   const char *why)
{
	struct content *ct = container_of(w, struct content, wait);

	if (!box) {
		fail(ct, status, why);
		return;
	}
	memcpy(ct->box, box, ID_CAP);
	ct->start(ct);
}

static void find_box(struct content *ct)
{
	const struct volume *v = volume_by_id(ct->api, ct->volume);
	struct err e = { 0 };

	if (!v)
		fail(ct, 404, "the volume is gone");
	else if (volume_box(ct->api, v, &ct->who, http_request_id(ct->conn),
			    &ct->wait, &e) < 0)
		fail_err(ct, &e);
}

/* Is it the token of the volume in the path? */
static bool token_fits(struct api *a, struct http_conn *c, const char *id)
{
	static const char scheme[] = "Bearer ";
	const char *given = http_header(http_request(c), "Authorization");
	char want[PORT_MAC_CAP];
	bool fits;

	if (!id_valid(id) || !given ||
	    strncasecmp(given, scheme, strlen(scheme)) != 0)
		return false;
	given += strlen(scheme);
	e2b_volume_token(a, id, want);
	fits = strlen(given) == strlen(want) &&
	       CRYPTO_memcmp(given, want, strlen(want)) == 0;
	explicit_bzero(want, sizeof(want));
	return fits;
}

/* NULL: it was answered why not. */
static const struct volume *opened(struct api *a, struct http_conn *c,
				   const struct call *call)
{
	const struct volume *v;

	if (!token_fits(a, c, call->arg[0])) {
		e2b_fail(a, c, 401, "this is not the token of the volume");
		return NULL;
	}
	v = volume_by_id(a, call->arg[0]);
	if (v && !v->making && !v->removing)
		return v;
	e2b_fail(a, c, 404, "the volume is gone");
	return NULL;
}

static int take_path(struct content *ct, const struct http_head *h,
		     struct err *e)
{
	char text[PATH_CAP - sizeof(VOLUME_TOP)] = "/";

	if (http_query(h, "path", text, sizeof(text)) < 0)
		return err_set(e, EINVAL, "path: too long, or not text");
	if (volume_path(text, ct->path, sizeof(ct->path)) < 0)
		return err_set(e, EINVAL, "path: '..' leads nowhere");
	return 0;
}

static int take_number(const struct http_head *h, const char *name,
		       uint64_t max, int64_t *out, struct err *e)
{
	char text[24];
	uint64_t v;
	int r = http_query(h, name, text, sizeof(text));

	if (r == 0)
		return 0;
	if (r < 0 || parse_u64(text, max, &v) < 0)
		return err_set(e, EINVAL, "%s: not a number from 0 to %llu",
			       name, (unsigned long long)max);
	*out = (int64_t)v;
	return 0;
}

static int take_query(struct content *ct, const struct http_head *h,
		      struct err *e)
{
	char force[8] = "";
	int64_t depth = 1;

	if (take_path(ct, h, e) < 0 ||
	    take_number(h, "uid", 65535, &ct->uid, e) < 0 ||
	    take_number(h, "gid", 65535, &ct->gid, e) < 0 ||
	    take_number(h, "mode", 07777, &ct->mode, e) < 0 ||
	    take_number(h, "depth", DEPTH_MAX, &depth, e) < 0)
		return -e->code;
	if (http_query(h, "force", force, sizeof(force)) < 0)
		return err_set(e, EINVAL, "force: not true or false");
	ct->parents = strcmp(force, "true") == 0;
	ct->depth = depth > 0 ? (uint64_t)depth : 1;
	return 0;
}

static struct content *content_new(struct api *a, struct http_conn *c,
				   const struct call *call,
				   void (*start)(struct content *ct))
{
	const struct volume *v = opened(a, c, call);
	struct err e = { 0 };
	struct content *ct;

	if (!v)
		return NULL;
	ct = xcalloc(1, sizeof(*ct));
	ct->api = a;
	ct->conn = c;
	ct->uid = ct->gid = ct->mode = -1;
	ct->start = start;
	ct->wait.ready = on_box;
	memcpy(ct->volume, v->id, ID_CAP);
	ct->who.scope = SCOPE_USE;
	memcpy(ct->who.project, v->project, sizeof(ct->who.project));
	snprintf(ct->who.name, sizeof(ct->who.name), "volume:%s", v->name);
	http_own(c, ct, content_gone);
	if (take_query(ct, http_request(c), &e) == 0)
		return ct;
	fail_err(ct, &e);
	return NULL;
}

static void handle(struct api *a, struct http_conn *c, const struct call *call,
		   void (*start)(struct content *ct))
{
	struct content *ct = content_new(a, c, call, start);

	if (ct)
		find_box(ct);
}

static void h_list(struct api *a, struct http_conn *c, const struct call *call)
{
	handle(a, c, call, start_list);
}

static void h_mkdir(struct api *a, struct http_conn *c, const struct call *call)
{
	handle(a, c, call, start_mkdir);
}

static void h_stat(struct api *a, struct http_conn *c, const struct call *call)
{
	handle(a, c, call, start_stat);
}

static void h_remove(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	handle(a, c, call, start_remove);
}

static void h_read(struct api *a, struct http_conn *c, const struct call *call)
{
	handle(a, c, call, start_read);
}

static void h_write(struct api *a, struct http_conn *c, const struct call *call)
{
	handle(a, c, call, start_write);
}

static void patch_body(struct http_conn *c, char *text, size_t n, void *owner)
{
	struct content *ct = owner;
	struct err e = { 0 };

	(void)c;
	ct->body = parse_body(text, n, &e);
	if (!ct->body || take_id(ct->body, "uid", 65535, &ct->uid, &e) < 0 ||
	    take_id(ct->body, "gid", 65535, &ct->gid, &e) < 0 ||
	    take_id(ct->body, "mode", 07777, &ct->mode, &e) < 0)
		fail_err(ct, &e);
	else
		find_box(ct);
}

static void h_patch(struct api *a, struct http_conn *c, const struct call *call)
{
	struct content *ct = content_new(a, c, call, start_patch);

	if (ct)
		http_read_body(c, BODY_MAX, patch_body);
}

#define ROW(method, what, fn)          \
	{ method,                      \
	  "/volumecontent/{id}/" what, \
	  fn,                          \
	  SCOPE_READ,                  \
	  ROUTE_FOREIGN | ROUTE_TOKEN, \
	  "",                          \
	  NULL,                        \
	  NULL,                        \
	  NULL,                        \
	  200 }

const struct route e2b_volume_content_routes[] = {
	ROW("GET", "dir", h_list),       ROW("POST", "dir", h_mkdir),
	ROW("GET", "path", h_stat),      ROW("PATCH", "path", h_patch),
	ROW("DELETE", "path", h_remove), ROW("GET", "file", h_read),
	ROW("PUT", "file", h_write),     { 0 },
};
