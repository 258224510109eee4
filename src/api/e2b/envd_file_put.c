/*
 * POST /files: one file as it is, or a form with several of them. Each becomes
 * a native write, one after the other; bytes go through as they come, and wait
 * in the client's socket when the sandbox does not take them.
 *
 * A write that fails is told when the body is over: many clients look for an
 * answer only when they have sent it all. Files in front of it stay.
 */
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "api/e2b/envd_fs.h"
#include "api/e2b/gunzip.h"
#include "api/e2b/multipart.h"
#include "api/reply.h"
#include "base/auto.h"
#include "base/str.h"
#include "http/target.h"

enum {
	PARTS_MAX = 10000,
	PATHS_MAX = 2 * 1024 * 1024, /* bytes of all paths of a form */
	ANSWER_MAX = 64 * 1024,      /* of a native write */
	ANSWERS_MAX = 8 * 1024 * 1024,
	DROP_MAX = 64 * 1024 * 1024, /* of a body, before a failure is told */
	METADATA_MAX = 4096,         /* all keys and values */
	METADATA_COUNT = 64,
};
static_assert((int)METADATA_COUNT <= (int)FILE_ATTRS_MAX, "all are taken");

struct file_put {
	struct envd_fs fs;
	struct http_conn *conn;
	struct inner in; /* the write at hand */
	bool writing;    /* it was not answered yet */
	bool sent;       /* all of it, so there is nothing but to wait */
	bool form;
	struct multipart parts;
	struct gunzip *packed; /* the body is compressed; or NULL */
	struct buf plain;      /* of it, unpacked and not sent */
	unsigned n_parts;
	size_t paths_n;    /* bytes of their paths */
	char *path;        /* from the query, or NULL */
	json_t *paths;     /* those of a form, as a set */
	json_t *done;      /* what was written */
	struct buf answer; /* of the write at hand */
	size_t answers_n;  /* bytes of all of them */
	struct buf attrs;  /* "user.e2b.KEY=VALUE", each with its NUL */
	size_t n_attrs;
	bool asked, complete; /* the body */
	struct envd_error failed;
	uint64_t dropped;
	struct deferred gone;
};

static void put_free(struct deferred *d)
{
	struct file_put *p = container_of(d, struct file_put, gone);

	multipart_done(&p->parts);
	gunzip_free(p->packed);
	buf_done(&p->plain);
	free(p->path);
	json_decref(p->paths);
	json_decref(p->done);
	buf_done(&p->answer);
	buf_done(&p->attrs);
	free(p);
}

static void put_end(struct file_put *p)
{
	inner_close(&p->in);
	loop_defer(&p->fs.api->loop, &p->gone, put_free);
}

static void put_gone(struct http_conn *c, void *owner)
{
	(void)c;
	put_end(owner);
}

/* --- how it ends --- */

static void tell(struct file_put *p)
{
	put_end(p);
	if (p->failed.status)
		e2b_fail(p->fs.api, p->conn, p->failed.status, p->failed.msg);
	else
		reply_json(p->fs.api, p->conn, 200, json_incref(p->done));
}

static void fail(struct file_put *p, int status, const char *msg)
{
	inner_close(&p->in);
	p->writing = false;
	p->failed.status = status;
	snprintf(p->failed.msg, sizeof(p->failed.msg), "%s", msg);
	if (p->complete)
		tell(p);
	else if (p->asked)
		http_resume_body(p->conn);
}

static void fail_err(struct file_put *p, const struct err *e)
{
	const char *word;

	fail(p,
	     e->code == EBADMSG   ? 400
	     : e->code == ENOTSUP ? 415
				  : reply_status(e->code, &word),
	     e->msg);
}

/* --- one native write --- */

static void pump(struct file_put *p);

static void keep_result(struct file_put *p, const json_t *answer)
{
	const json_t *entry = json_object_get(answer, "entry");
	json_t *metadata = envd_metadata(entry);
	json_t *j = json_pack("{s:O, s:O, s:s}", "name",
			      json_object_get(entry, "name"), "path",
			      json_object_get(entry, "path"), "type", "file");

	if (j && metadata)
		json_object_set(j, "metadata", metadata);
	json_decref(metadata);
	if (j)
		json_array_append_new(p->done, j);
}

static void on_data(struct inner *in, const char *s, size_t n)
{
	struct file_put *p = container_of(in, struct file_put, in);

	if (buf_len(&p->answer) + n <= ANSWER_MAX)
		buf_add(&p->answer, s, n);
}

static void on_room(struct inner *in)
{
	struct file_put *p = container_of(in, struct file_put, in);

	pump(p);
	if (!p->complete)
		http_resume_body(p->conn);
}

static void on_ended(struct inner *in, bool whole)
{
	struct file_put *p = container_of(in, struct file_put, in);
	json_t *j =
		json_loadb(buf_data(&p->answer), buf_len(&p->answer), 0, NULL);
	struct envd_error e;

	p->answers_n += buf_len(&p->answer);
	buf_clear(&p->answer);
	p->writing = p->sent = false;
	if (p->answers_n > ANSWERS_MAX) {
		fail(p, 413,
		     "paths and metadata are too long to be told: send the "
		     "rest in another request");
	} else if (whole && in->status == 200) {
		keep_result(p, j);
		pump(p);
		if (!p->complete)
			http_resume_body(p->conn);
	} else {
		envd_fs_error(&p->fs, whole ? in->status : 0, j, &e);
		fail(p, e.status, e.msg);
	}
	json_decref(j);
}

static const struct inner_ops put_inner = { .data = on_data,
					    .room = on_room,
					    .ended = on_ended };

static int begin_write(struct file_put *p, const char *given, struct err *e)
{
	AUTO(buf_done) struct buf path = { 0 };
	AUTO(buf_done) struct buf target = { 0 };
	struct http_field fields[METADATA_COUNT + 1] = { { NULL, NULL } };
	struct inner_request q = { .method = "PUT",
				   .fields = fields,
				   .stream = true };
	const char *at = buf_data(&p->attrs);
	size_t i;

	if (envd_path(given, &path, e) < 0)
		return -e->code;
	envd_fs_target(&p->fs, &target, "content", buf_data(&path));
	buf_puts(&target, "&parents=true&detail=true");
	q.target = buf_str(&target);
	for (i = 0; i < p->n_attrs; i++, at += strlen(at) + 1)
		fields[i] = (struct http_field){ "X-Attribute", at };
	p->in = (struct inner){ .ops = &put_inner };
	p->writing = true;
	return inner_start(&p->in, p->fs.api, &p->fs.who, p->fs.request_id, &q,
			   e);
}

/* --- forms --- */

static int begin_part(struct file_put *p, struct err *e)
{
	const char *given = p->path;

	if (++p->n_parts > PARTS_MAX)
		return err_set(e, E2BIG,
			       "more than %d parts: send the rest in another "
			       "request",
			       PARTS_MAX);
	if (strcmp(buf_str(&p->parts.name), "file") != 0)
		return 0;
	if (!given && !p->parts.has_filename)
		return err_set(e, EINVAL,
			       "neither ?path= nor a file name says where to");
	if (!given)
		given = buf_str(&p->parts.filename);
	p->paths_n += strlen(given);
	if (p->paths_n > PATHS_MAX)
		return err_set(e, E2BIG,
			       "the paths have more than %d bytes: send the "
			       "rest in another request",
			       PATHS_MAX);
	if (json_object_get(p->paths, given))
		return err_set(e, EINVAL,
			       "you cannot upload multiple files to the same "
			       "path '%.100s' in one upload request, only the "
			       "first specified file was uploaded",
			       given);
	json_object_set_new_nocheck(p->paths, given, json_true());
	return begin_write(p, given, e);
}

/* 1: go on; 0: something must come first. */
static int step(struct file_put *p, struct err *e)
{
	int r = multipart_next(&p->parts, e);
	size_t n;

	switch (r) {
	case MULTIPART_PART:
		r = begin_part(p, e);
		return r < 0 ? r : 1;
	case MULTIPART_DATA:
		/* Of a part that is no file, nothing is written. */
		n = inner_send(&p->in, p->parts.data, p->parts.n);
		r = n == p->parts.n;
		multipart_eat(&p->parts, n);
		return r;
	case MULTIPART_PART_END:
		inner_send_end(&p->in);
		p->sent = p->writing;
		return !p->sent;
	case MULTIPART_END:
		if (p->complete)
			tell(p);
		return 0;
	case MULTIPART_MORE:
		if (p->complete)
			return err_set(e, EBADMSG, "the form was cut off");
		return 0;
	default:
		return r;
	}
}

static void pump_file(struct file_put *p);

static void pump(struct file_put *p)
{
	struct err e = { 0 };
	int r = 1;

	if (p->failed.status || p->sent)
		return;
	if (!p->form) {
		pump_file(p);
		return;
	}
	while (r == 1)
		r = step(p, &e);
	if (r < 0)
		fail_err(p, &e);
}

/* --- one file --- */

/* Unpacks what is taken in turn; how many of the bytes were used. */
static size_t unpack(struct file_put *p, const char *s, size_t n)
{
	struct err e = { 0 };
	size_t all = 0, used;

	for (;;) {
		buf_eat(&p->plain, inner_send(&p->in, buf_data(&p->plain),
					      buf_len(&p->plain)));
		if (buf_len(&p->plain) > 0)
			return all;
		if (gunzip_next(p->packed, s + all, n - all, &used, &p->plain,
				&e) < 0) {
			fail_err(p, &e);
			return n;
		}
		all += used;
		if (used == 0 && buf_len(&p->plain) == 0)
			return all;
	}
}

/* The body has ended, and with it the file, when all was sent. */
static void finish_file(struct file_put *p)
{
	struct err e = { 0 };

	if (p->packed)
		unpack(p, "", 0);
	if (p->failed.status || buf_len(&p->plain) > 0)
		return;
	if (p->packed && !gunzip_is_whole(p->packed)) {
		err_set(&e, EBADMSG, "the body is cut off, or no gzip");
		fail_err(p, &e);
		return;
	}
	inner_send_end(&p->in);
	p->sent = true;
}

static void pump_file(struct file_put *p)
{
	if (p->complete && !p->writing)
		tell(p);
	else if (p->complete)
		finish_file(p);
	else if (p->packed)
		unpack(p, "", 0);
}

/* --- the body --- */

static size_t drop(struct file_put *p, size_t n)
{
	p->dropped += n;
	if (p->dropped > DROP_MAX)
		tell(p);
	return n;
}

static size_t body_data(struct http_conn *c, const char *s, size_t n,
			void *owner)
{
	struct file_put *p = owner;

	(void)c;
	if (p->failed.status)
		return drop(p, n);
	if (p->packed)
		return unpack(p, s, n);
	if (!p->form)
		return inner_send(&p->in, s, n);
	/* A piece is parsed to its end before the next is taken. */
	if (buf_len(&p->parts.in) >= HTTP_READ_MAX)
		return 0;
	multipart_feed(&p->parts, s, n);
	pump(p);
	return n;
}

static void body_end(struct http_conn *c, void *owner)
{
	struct file_put *p = owner;

	(void)c;
	p->complete = true;
	if (p->failed.status) {
		tell(p);
		return;
	}
	pump(p);
}

/* --- the request --- */

static int add_metadata(struct file_put *p, const char *key, const char *value,
			struct err *e)
{
	const char *s;

	if (!*key || p->n_attrs == METADATA_COUNT)
		return err_set(e, EINVAL,
			       "metadata has 1 to %d keys, none of them empty",
			       METADATA_COUNT);
	buf_puts(&p->attrs, ENVD_ATTRIBUTE);
	for (s = key; *s; s++) {
		char low = (char)tolower((unsigned char)*s);

		buf_add(&p->attrs, &low, 1);
	}
	buf_printf(&p->attrs, "=%s", value);
	buf_add(&p->attrs, "", 1);
	p->n_attrs++;
	return 0;
}

/* X-Metadata-KEY: VALUE */
static int take_metadata(struct file_put *p, const struct http_head *h,
			 struct err *e)
{
	static const char prefix[] = "X-Metadata-";
	size_t n = strlen(prefix), total = 0;
	unsigned i;

	for (i = 0; i < h->n_fields; i++) {
		const char *name = h->field[i].name, *v = h->field[i].value;

		if (strncasecmp(name, prefix, n) != 0)
			continue;
		total += strlen(name + n) + strlen(v);
		if (total > METADATA_MAX)
			return err_set(e, EINVAL,
				       "metadata has more than %d bytes",
				       METADATA_MAX);
		if (add_metadata(p, name + n, v, e) < 0)
			return -e->code;
	}
	return 0;
}

static int take_path(struct file_put *p, const struct http_head *h,
		     struct err *e)
{
	char path[HTTP_TARGET_MAX];
	int r = http_query(h, "path", path, sizeof(path));

	if (r < 0)
		return err_set(e, EINVAL,
			       "path is given twice, not UTF-8 or has control "
			       "bytes");
	if (r == 1 && *path)
		p->path = xstrdup(path);
	return 0;
}

static bool is_form(const char *type)
{
	return type && strncasecmp(type, "multipart/", 10) == 0;
}

static int take_coding(struct file_put *p, const struct http_head *h,
		       struct err *e)
{
	const char *coding = http_header(h, "content-encoding");

	if (!coding || strcasecmp(coding, "identity") == 0)
		return 0;
	if (strcasecmp(coding, "gzip") != 0 || p->form)
		return err_set(e, ENOTSUP,
			       "Content-Encoding %.32s is not taken here: of "
			       "all, gzip is, for a body that is the file",
			       coding);
	p->packed = gunzip_new();
	return p->packed ? 0 : err_set(e, ENOMEM, "no memory to unpack");
}

static int put_start(struct file_put *p, struct err *e)
{
	const struct http_head *h = http_request(p->conn);
	const char *type = http_header(h, "content-type");

	p->form = is_form(type);
	if (take_path(p, h, e) < 0 || take_metadata(p, h, e) < 0 ||
	    take_coding(p, h, e) < 0)
		return -e->code;
	if (p->form)
		return multipart_init(&p->parts, type, e);
	if (!p->path)
		return err_set(e, EINVAL, "path is missing");
	return begin_write(p, p->path, e);
}

void envd_file_put(struct api *a, struct http_conn *c,
		   const struct envd_call *call)
{
	struct file_put *p = xcalloc(1, sizeof(*p));
	struct err e = { 0 };

	p->conn = c;
	p->done = json_array();
	p->paths = json_object();
	envd_fs_init(&p->fs, a, c, call);
	http_own(c, p, put_gone);
	if (put_start(p, &e) < 0) {
		p->complete = http_request(c)->expect_continue;
		fail_err(p, &e);
	}
	/* Who waits for our word has been told no. */
	if (p->complete)
		return;
	p->asked = true;
	http_stream_body(c, body_data, body_end);
}
