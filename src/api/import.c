/*
 * PUT /v1/images/{name}: the body goes into the pipe of a worker, which
 * unpacks it behind walls of its own; we never look at a byte of it.
 *
 *	warden: import -> body to the worker, its lines to us -> "done"
 *	-> warden: commit -> registry (on disk) -> 201
 *
 * The worker has read an attacker's archive: what it says is bounded, checked
 * and cleaned before anybody sees it. Until the registry has the row, every
 * way out removes the volume.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "api/image_json.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "wire/worker.h"

struct import {
	struct api *api;
	struct http_conn *conn;
	struct image image;
	struct warden_call call;
	struct io tar, words;
	struct buf line;
	bool body_done; /* the client has sent everything */
	bool unpacked;  /* the worker has said "done" */
	struct deferred gone;
};

static void import_free(struct deferred *d)
{
	struct import *i = container_of(d, struct import, gone);

	buf_done(&i->line);
	free(i);
}

/* The request is answered, or its client gone. */
static void import_end(struct import *i, bool keep)
{
	struct api *a = i->api;

	warden_cancel(&i->call);
	io_close(&a->loop, &i->tar);
	io_close(&a->loop, &i->words);
	if (!keep)
		warden_chore(&a->warden, WARDEN_IMAGE_REMOVE, i->image.id);
	a->n_imports--;
	loop_defer(&a->loop, &i->gone, import_free);
}

static void import_gone(struct http_conn *c, void *owner)
{
	struct import *i = owner;

	(void)c;
	log_info("image=%s its upload was given up, removing it",
		 i->image.name);
	import_end(i, false);
}

static void fail(struct import *i, const struct err *e)
{
	import_end(i, false);
	reply_err(i->api, i->conn, e);
}

static void fail_image(struct import *i, const char *msg)
{
	import_end(i, false);
	reply_error(i->api, i->conn, 422, "bad_image", msg);
}

static void on_commit(struct warden_call *c, const struct warden_rep *rep,
		      int fds[FD_PASS_MAX])
{
	struct import *i = container_of(c, struct import, call);
	struct api *a = i->api;
	struct audit entry = { .type = "image.create",
			       .who = audit_who(i->conn),
			       .request_id = http_request_id(i->conn) };
	struct err e = { 0 };

	(void)fds;
	if (rep->err.code == EBADMSG) {
		fail_image(i, rep->err.msg);
		return;
	}
	if (rep->err.code) {
		fail(i, &rep->err);
		return;
	}
	i->image.created_ms = clock_wall_ms();
	if (image_put(a, &i->image, &e) < 0) {
		fail(i, &e);
		return;
	}
	log_info("image=%s id=%s bytes=%llu imported", i->image.name,
		 i->image.id, (unsigned long long)i->image.size);
	import_end(i, true);
	entry.data = image_json(&i->image);
	audit_reply(a, i->conn, &entry, 201, image_json(&i->image));
}

static void commit_if_complete(struct import *i)
{
	if (!i->body_done || !i->unpacked || i->call.busy)
		return;
	warden_req_id(&i->call, WARDEN_IMAGE_COMMIT, i->image.id);
	warden_ask(&i->api->warden, &i->call, on_commit);
}

/* Printable ASCII; what else the archive made the worker say becomes '?'. */
static void clean(char *s)
{
	for (; *s; s++)
		if (*s < 0x20 || *s > 0x7e)
			*s = '?';
}

/* "WORD N M": two plain numbers and nothing else. */
static int two_numbers(char *s, uint64_t *a, uint64_t *b)
{
	char *space = strchr(s, ' ');
	int r;

	if (!space)
		return -EINVAL;
	*space = '\0';
	r = parse_u64(s, INT64_MAX, a);
	return r < 0 ? r : parse_u64(space + 1, INT64_MAX, b);
}

/* False: the import is over. */
static bool take_line(struct import *i, char *s)
{
	uint64_t n, bytes;

	clean(s);
	if (str_starts(s, "error ")) {
		fail_image(i, s + strlen("error "));
		return false;
	}
	if (str_starts(s, "progress ") &&
	    two_numbers(s + strlen("progress "), &n, &bytes) == 0)
		return true;
	if (!i->unpacked && str_starts(s, "config "))
		return true;
	if (!i->unpacked && str_starts(s, "done ") &&
	    two_numbers(s + strlen("done "), &n, &bytes) == 0) {
		i->image.entries = n;
		i->image.size = bytes;
		i->unpacked = true;
		/* Bytes behind the archive's end are dropped. */
		io_close(&i->api->loop, &i->tar);
		http_resume_body(i->conn);
		commit_if_complete(i);
		return true;
	}
	fail_image(i, "the unpacking worker said something unexpected");
	return false;
}

static size_t line_max(const struct buf *line)
{
	static const char word[] = "config ";
	size_t n = sizeof(word) - 1;

	return buf_len(line) >= n && memcmp(buf_data(line), word, n) == 0
		       ? WORKER_CONFIG_MAX
		       : WORKER_LINE_MAX;
}

static void on_words(struct io *io, uint32_t events)
{
	struct import *i = container_of(io, struct import, words);
	ssize_t n = buf_read(&i->line, io->fd, WORKER_LINE_MAX);

	(void)events;
	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		if (i->unpacked) /* it has ended, as it should */
			io_close(&i->api->loop, io);
		else
			fail_image(i, "the archive could not be unpacked");
		return;
	}
	while (buf_len(&i->line) > 0) {
		char *p = buf_data(&i->line);
		char *end = memchr(p, '\n', buf_len(&i->line));
		size_t len;

		if (!end)
			break;
		*end = '\0';
		len = (size_t)(end - p) + 1;
		if (!take_line(i, p))
			return;
		buf_eat(&i->line, len);
	}
	if (buf_len(&i->line) >= line_max(&i->line))
		fail_image(i, "the unpacking worker talks too much");
}

static void on_pipe(struct io *io, uint32_t events)
{
	struct import *i = container_of(io, struct import, tar);

	/* The worker reads no more: its last line says why. */
	if (events & EPOLLERR) {
		io_close(&i->api->loop, io);
		http_resume_body(i->conn);
		return;
	}
	io_set(&i->api->loop, io, 0);
	http_resume_body(i->conn);
}

static size_t body_data(struct http_conn *c, const char *p, size_t n,
			void *owner)
{
	struct import *i = owner;
	ssize_t w;

	(void)c;
	if (i->tar.fd < 0) /* over, or about to be */
		return n;
	do
		w = write(i->tar.fd, p, n);
	while (w < 0 && errno == EINTR);
	if (w < 0 && errno != EAGAIN) {
		io_close(&i->api->loop, &i->tar);
		return n;
	}
	if (w < 0)
		w = 0;
	if ((size_t)w < n)
		io_set(&i->api->loop, &i->tar, EPOLLOUT);
	return (size_t)w;
}

static void body_end(struct http_conn *c, void *owner)
{
	struct import *i = owner;

	(void)c;
	i->body_done = true;
	io_close(&i->api->loop, &i->tar);
	commit_if_complete(i);
}

static int watch(struct import *i, int fds[FD_PASS_MAX])
{
	struct loop *l = &i->api->loop;
	int r;

	if (fds[0] < 0 || fds[1] < 0)
		return -EPROTO;
	r = fd_set_nonblock(fds[0], true);
	if (r == 0)
		r = fd_set_nonblock(fds[1], true);
	/* Fewer wake-ups; the limit of the host may be smaller. */
	(void)fcntl(fds[0], F_SETPIPE_SZ, 1 << 20);
	if (r == 0)
		r = io_add(l, &i->tar, fds[0], 0, on_pipe);
	if (r < 0) {
		i->tar.fd = -1;
		return r;
	}
	(void)take_fd(&fds[0]);
	r = io_add(l, &i->words, fds[1], EPOLLIN, on_words);
	if (r < 0) {
		i->words.fd = -1;
		return r;
	}
	(void)take_fd(&fds[1]);
	return 0;
}

static void on_import(struct warden_call *c, const struct warden_rep *rep,
		      int fds[FD_PASS_MAX])
{
	struct import *i = container_of(c, struct import, call);
	struct err e = rep->err;
	int r;

	if (e.code == 0) {
		r = watch(i, fds);
		if (r < 0)
			err_set(&e, -r, "watch the worker: %s", strerror(-r));
	}
	if (e.code)
		fail(i, &e);
	else
		http_stream_body(i->conn, body_data, body_end);
}

static void check_put(struct api *a, struct http_conn *c, const char *name,
		      struct err *e)
{
	if (!image_name_valid(name))
		err_set(e, EINVAL,
			"'%.64s' is not a name: 1 to 63 of a-z, 0-9, '.', "
			"'_', ':' and '-'",
			name);
	else if (http_request(c)->body == HTTP_NO_BODY)
		err_set(e, EINVAL, "the body must be a tar archive");
	else if (a->n_imports >= IMPORTS_MAX)
		err_set(e, EMFILE, "%d images are being made: try again later",
			IMPORTS_MAX);
	else if (a->images.n >= IMAGES_MAX && !image_find(a, name))
		err_set(e, EMFILE, "there are %d images: remove some",
			IMAGES_MAX);
}

void h_image_put(struct api *a, struct http_conn *c, const struct call *call)
{
	const char *name = call->arg[0];
	struct err e = { 0 };
	struct import *i;
	char id[ID_CAP];

	check_put(a, c, name, &e);
	if (e.code == 0 && id_make(id) < 0)
		err_set(&e, EIO, "no random numbers");
	if (e.code) {
		reply_err(a, c, &e);
		return;
	}
	i = xcalloc(1, sizeof(*i));
	i->api = a;
	i->conn = c;
	i->tar.fd = i->words.fd = -1;
	memcpy(i->image.id, id, ID_CAP);
	memcpy(i->image.name, name, strnlen(name, IMAGE_NAME_CAP - 1));
	a->n_imports++;
	http_own(c, i, import_gone);
	warden_req_id(&i->call, WARDEN_IMAGE_IMPORT, id);
	warden_ask(&a->warden, &i->call, on_import);
}
