/*
 * POST /v1/sandboxes/{ref}/drive: a file between a sandbox and the drive of
 * its project, without a detour over the client. Inside it is the agent's
 * file.read or file.write (wire/file.h), as the user who was asked for.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "api/drive.h"
#include "api/file_job.h"
#include "api/process.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "wire/file.h"

enum { PIECE = 64 * 1024 };

struct copy {
	struct api *api;
	struct http_conn *conn;
	struct drive_who by;
	struct process proc;
	char inside[FILE_PATH_MAX + 1];
	/* Out of the sandbox. */
	struct drive_put *put;
	struct buf head; /* the record in front of the bytes */
	bool begun;
	uint64_t left; /* or FILE_TO_END */
	/* Into it. */
	struct drive_row row;
	int fd;
	uint64_t at;
	/* stderr */
	char why[FILE_ERROR_MAX];
	size_t n_why;
};

static void copy_end(struct copy *c)
{
	process_signal(&c->proc, SIGKILL);
	process_close(&c->proc, false);
	drive_put_give_up(c->put);
	auto_close(&c->fd);
	buf_done(&c->head);
	free(c);
}

static void copy_gone(struct http_conn *conn, void *owner)
{
	(void)conn;
	copy_end(owner);
}

static void copy_fail(struct copy *c, const struct err *e)
{
	struct api *a = c->api;
	struct http_conn *conn = c->conn;

	copy_end(c);
	reply_err(a, conn, e);
}

/* What failed inside is no matter of keys. */
static void copy_fail_inside(struct copy *c, const struct err *e)
{
	struct api *a = c->api;
	struct http_conn *conn = c->conn;

	copy_end(c);
	reply_file_err(a, conn, e);
}

static void copy_broken(struct copy *c)
{
	struct err e = { 0 };

	err_set(&e, EPROTO, "the sandbox's agent broke the protocol");
	copy_fail(c, &e);
}

static void keep_error(struct copy *c, const char *p, size_t n)
{
	size_t room = sizeof(c->why) - c->n_why;

	if (n > room)
		n = room;
	memcpy(c->why + c->n_why, p, n);
	c->n_why += n;
}

/* It ended: 0 when all was done there. */
static int take_end(const struct copy *c, const struct exit_info *x,
		    const struct err *why, struct err *e)
{
	if (why)
		*e = *why;
	else if (x->signaled)
		err_set(e, EIO, "it was ended by signal %u", x->code);
	else if (x->code != 0)
		file_error_text(c->why, c->n_why, e);
	return -e->code;
}

/* --- out of the sandbox --- */

static void on_stored(struct drive_put *p, const struct drive_row *row,
		      const struct err *e)
{
	struct copy *c = p->owner;
	struct api *a = c->api;
	struct http_conn *conn = c->conn;

	c->put = NULL;
	copy_end(c);
	if (row)
		reply_json(a, conn, 200, drive_row_json(row));
	else
		reply_err(a, conn, e);
}

static int add_bytes(struct copy *c, const char *p, size_t n, struct err *e)
{
	if (c->left != FILE_TO_END && n > c->left)
		return err_set(e, EPROTO,
			       "the sandbox's agent broke the protocol");
	if (c->left != FILE_TO_END)
		c->left -= n;
	return drive_put_add(c->put, p, n, e);
}

/* A record, and then the bytes. */
static int take_bytes(struct copy *c, const char *p, size_t n, struct err *e)
{
	struct file_record r;
	int len, rc;

	if (c->begun)
		return add_bytes(c, p, n, e);
	buf_add(&c->head, p, n);
	len = file_record_get(&c->head, &r);
	if (len == 0)
		return 0;
	if (len < 0 || r.kind != FILE_CONTENT)
		return err_set(e, EPROTO,
			       "the sandbox's agent broke the protocol");
	c->begun = true;
	c->left = r.content.length;
	buf_eat(&c->head, (size_t)len);
	rc = add_bytes(c, buf_data(&c->head), buf_len(&c->head), e);
	buf_done(&c->head);
	return rc;
}

static void out_output(struct process *p, unsigned stream, const void *data,
		       size_t n)
{
	struct copy *c = container_of(p, struct copy, proc);
	struct err e = { 0 };

	if (stream == 2)
		keep_error(c, data, n);
	else if (take_bytes(c, data, n, &e) < 0) {
		copy_fail(c, &e);
		return;
	}
	process_consumed(p, stream, n);
}

static void out_ended(struct process *p, const struct exit_info *x,
		      const struct err *why)
{
	struct copy *c = container_of(p, struct copy, proc);
	struct err e = { 0 };

	if (take_end(c, x, why, &e) < 0)
		copy_fail_inside(c, &e);
	else if (!c->begun || (c->left != FILE_TO_END && c->left > 0))
		copy_broken(c);
	else
		drive_put_end(c->put, on_stored);
}

static void out_started(struct process *p)
{
	(void)p;
}

static const struct process_ops out_ops = {
	.started = out_started,
	.output = out_output,
	.ended = out_ended,
};

/* --- into the sandbox --- */

static void in_pump(struct process *p)
{
	static char piece[PIECE];
	struct copy *c = container_of(p, struct copy, proc);
	struct err e = { 0 };

	while (c->at < c->row.size) {
		ssize_t n = pread(c->fd, piece, sizeof(piece), (off_t)c->at);
		size_t took;

		if (n <= 0) {
			err_set(&e, EIO, "%.150s cannot be read from the drive",
				c->row.path);
			copy_fail(c, &e);
			return;
		}
		took = process_input(p, piece, (size_t)n);
		c->at += took;
		if (took < (size_t)n)
			return;
	}
	process_input_eof(p);
}

static void in_output(struct process *p, unsigned stream, const void *data,
		      size_t n)
{
	if (stream == 2)
		keep_error(container_of(p, struct copy, proc), data, n);
	process_consumed(p, stream, n);
}

static void in_ended(struct process *p, const struct exit_info *x,
		     const struct err *why)
{
	struct copy *c = container_of(p, struct copy, proc);
	struct api *a = c->api;
	struct http_conn *conn = c->conn;
	struct err e = { 0 };
	json_t *answer;

	if (take_end(c, x, why, &e) < 0) {
		copy_fail_inside(c, &e);
		return;
	}
	audit_add(a,
		  &(struct audit){
			  .type = "drive.get",
			  .box = box_by_id(a, c->by.sandbox),
			  .who = &c->by.who,
			  .request_id = c->by.request,
			  .data = json_pack("{s:s, s:I, s:I, s:s, s:s}", "path",
					    c->row.path, "version",
					    (json_int_t)c->row.version, "size",
					    (json_int_t)c->row.size, "sha256",
					    c->row.sha256, "to", c->inside),
		  });
	answer = drive_row_json(&c->row);
	copy_end(c);
	reply_json(a, conn, 200, answer);
}

static const struct process_ops in_ops = {
	.started = in_pump,
	.output = in_output,
	.room = in_pump,
	.ended = in_ended,
};

/* --- the request --- */

struct wish {
	const char *put, *get, *to, *user, *mode;
	json_int_t version;
	int parents;
};

static int take_wish(const json_t *body, struct wish *w, struct err *e)
{
	json_error_t why;

	*w = (struct wish){ .user = "" };
	if (json_unpack_ex((json_t *)body, &why, JSON_STRICT,
			   "{s?:s, s?:s, s:s, s?:s, s?:s, s?:I, s?:b}", "put",
			   &w->put, "get", &w->get, "to", &w->to, "user",
			   &w->user, "mode", &w->mode, "version", &w->version,
			   "parents", &w->parents) < 0)
		return err_set(e, EINVAL, "%.150s", why.text);
	if (!w->put == !w->get)
		return err_set(e, EINVAL,
			       "one of put (out of the sandbox) and get (into "
			       "it) is needed");
	if (w->put && (w->mode || w->parents))
		return err_set(e, EINVAL, "mode and parents go with get");
	if (strlen(w->user) > FILE_NAME_MAX)
		return err_set(e, EINVAL, "user has more than %d bytes",
			       FILE_NAME_MAX);
	if (w->mode && (strlen(w->mode) > 5 ||
			w->mode[strspn(w->mode, "01234567")] || !*w->mode))
		return err_set(e, EINVAL, "mode is not octal, as in \"0644\"");
	if (w->version < 0)
		return err_set(e, EINVAL, "version is not a version");
	return 0;
}

static int start(struct copy *c, struct sandbox *box, const struct wish *w,
		 const char *builtin, struct err *e)
{
	const char *env[] = { NULL };
	const char *argv[5] = { builtin, c->inside };
	char mode[16];
	struct spawn sp = { .flags = SPAWN_BUILTIN | (w->get ? SPAWN_STDIN : 0),
			    .user = w->user,
			    .cwd = "",
			    .tag = "",
			    .argc = 2,
			    .argv = argv,
			    .env = env };

	snprintf(mode, sizeof(mode), "mode=%s", w->mode ? w->mode : "");
	if (w->mode)
		argv[sp.argc++] = mode;
	if (w->parents)
		argv[sp.argc++] = "parents";
	return process_spawn(&c->proc, box, &sp, e);
}

static int start_out(struct copy *c, struct sandbox *box, const struct wish *w,
		     struct err *e)
{
	struct drive_put want = { .by = c->by, .owner = c };

	if (w->version > 0) {
		want.condition = DRIVE_VERSION;
		want.version = (uint64_t)w->version;
	}
	memcpy(want.project, box->project, sizeof(want.project));
	if (str_copy(c->inside, sizeof(c->inside), w->put) < 0 || !*c->inside)
		return err_set(e, EINVAL, "put is no path of a file");
	if (drive_path_join(want.path, w->to, w->put, e) < 0)
		return -e->code;
	c->put = drive_put_new(c->api, &want, 0, e);
	if (!c->put)
		return -e->code;
	c->proc.ops = &out_ops;
	return start(c, box, w, "file.read", e);
}

static int start_in(struct copy *c, struct sandbox *box, const struct wish *w,
		    struct err *e)
{
	size_t n = strlen(w->to);
	const char *slash = strrchr(w->get, '/'),
		   *last = slash ? slash + 1 : w->get;

	if (drive_path_check(w->get, false, e) < 0)
		return -e->code;
	if (n > 0 && w->to[n - 1] != '/')
		last = "";
	n = (size_t)snprintf(c->inside, sizeof(c->inside), "%s%s", w->to, last);
	if (n >= sizeof(c->inside))
		return err_set(e, ENAMETOOLONG, "to is too long");
	if (drive_find(c->api, box->project, w->get, (uint64_t)w->version,
		       &c->row, e) < 0)
		return -e->code;
	c->fd = drive_open(c->api, &c->row, e);
	if (c->fd < 0)
		return c->fd;
	c->proc.ops = &in_ops;
	return start(c, box, w, "file.write", e);
}

static void on_body(struct http_conn *conn, char *text, size_t n, void *owner)
{
	struct copy *c = owner;
	struct sandbox *box = box_by_id(c->api, c->by.sandbox);
	struct err e = { 0 };
	json_t *body = parse_body(text, n, &e);
	struct wish w;

	(void)conn;
	if (body && take_wish(body, &w, &e) == 0) {
		if (!box)
			err_set(&e, ENOENT, "the sandbox has ended");
		else if (w.put)
			(void)start_out(c, box, &w, &e);
		else
			(void)start_in(c, box, &w, &e);
	}
	json_decref(body);
	if (e.code)
		copy_fail(c, &e);
}

void h_drive_copy(struct api *a, struct http_conn *conn,
		  const struct call *call)
{
	struct err e = { 0 };
	const struct sandbox *s = box_find(a, &call->who, call->arg[0], &e);
	struct copy *c;

	if (!s) {
		reply_err(a, conn, &e);
		return;
	}
	c = xcalloc(1, sizeof(*c));
	c->api = a;
	c->conn = conn;
	c->fd = -1;
	c->by.who = call->who;
	memcpy(c->by.sandbox, s->id, ID_CAP);
	memcpy(c->by.request, http_request_id(conn), sizeof(c->by.request));
	http_own(conn, c, copy_gone);
	http_read_body(conn, BODY_MAX, on_body);
}
