#include "api/import.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "api/reply.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "image/oci.h"
#include "wire/worker.h"

static void end(struct import *i, bool keep)
{
	struct api *a = i->api;

	if (!i->open)
		return;
	i->open = false;
	warden_cancel(&i->call);
	io_close(&a->loop, &i->tar);
	io_close(&a->loop, &i->words);
	if (!keep)
		warden_chore(&a->warden, WARDEN_IMAGE_REMOVE, i->image.id);
	a->n_imports--;
	buf_done(&i->line);
}

void import_end(struct import *i)
{
	end(i, false);
	json_decref(i->image.config);
	i->image.config = NULL;
}

static void fail(struct import *i, const struct err *e)
{
	end(i, false);
	i->ops->failed(i, e);
}

static void fail_image(struct import *i, const char *msg)
{
	struct err e = { 0 };

	err_set(&e, EBADMSG, "%s", msg);
	fail(i, &e);
}

void import_refuse(struct api *a, struct http_conn *c, const struct err *e)
{
	if (e->code == EBADMSG)
		reply_error(a, c, 422, "bad_image", e->msg);
	else
		reply_err(a, c, e);
}

static void on_commit(struct warden_call *c, const struct warden_rep *rep,
		      int fds[FD_PASS_MAX])
{
	struct import *i = container_of(c, struct import, call);
	struct err e = rep->err;

	(void)fds;
	i->image.created_ms = clock_wall_ms();
	if (e.code || image_put(i->api, &i->image, &e) < 0) {
		fail(i, &e);
		return;
	}
	log_info("image=%s id=%s bytes=%llu imported", i->image.name,
		 i->image.id, (unsigned long long)i->image.size);
	end(i, true);
	i->ops->done(i);
}

static void commit_if_complete(struct import *i)
{
	if (!i->fed || !i->unpacked || i->call.busy)
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

/* The worker wants no more: bytes behind the archive's end are dropped. */
static void stop_feeding(struct import *i)
{
	if (i->tar.fd < 0)
		return;
	io_close(&i->api->loop, &i->tar);
	if (!i->fed)
		i->ops->room(i);
}

static bool take_config(struct import *i, const char *s)
{
	struct err e = { 0 };

	if (i->image.config) /* said twice, or by who sent it, too */
		return false;
	i->image.config = oci_run_read(s, strlen(s), &e);
	return i->image.config;
}

static bool take_counts(struct import *i, char *s, uint64_t *n, uint64_t *bytes)
{
	char *space = strchr(s, ' ');

	return !i->unpacked && space && two_numbers(space + 1, n, bytes) == 0;
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
	if (str_starts(s, "config ") && take_config(i, s + strlen("config ")))
		return true;
	if (str_starts(s, "progress ") && take_counts(i, s, &n, &bytes)) {
		if (i->ops->progress)
			i->ops->progress(i, n, bytes);
		return i->open;
	}
	if (str_starts(s, "done ") && take_counts(i, s, &n, &bytes)) {
		i->image.entries = n;
		i->image.size = bytes;
		i->unpacked = true;
		stop_feeding(i);
		if (i->open)
			commit_if_complete(i);
		return i->open;
	}
	fail_image(i, "the unpacking worker said something unexpected");
	return false;
}

static size_t line_max(const struct buf *line)
{
	return buf_len(line) >= WORKER_LINE_MAX &&
			       str_starts(buf_data(line), "config ")
		       ? WORKER_CONFIG_MAX
		       : WORKER_LINE_MAX;
}

/* The worker ends with its warden: then it is not the image's fault. */
static void on_why(struct warden_call *c, const struct warden_rep *rep,
		   int fds[FD_PASS_MAX])
{
	struct import *i = container_of(c, struct import, call);
	struct err e = rep->err;

	(void)fds;
	if (e.code == 0 && i->round != i->api->reconcile.round)
		err_set(&e, WARDEN_AWAY,
			"the warden was restarted while the image was made: "
			"try again");
	if (e.code)
		fail(i, &e);
	else
		fail_image(i, "the archive could not be unpacked");
}

/* The end of the worker may be heard of before that of the warden. */
static void ask_why(struct import *i)
{
	io_close(&i->api->loop, &i->words);
	warden_req_id(&i->call, WARDEN_HOST, "");
	warden_ask(&i->api->warden, &i->call, on_why);
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
			ask_why(i);
		return;
	}
	while (buf_len(&i->line) > 0) {
		char *p = buf_data(&i->line);
		char *nl = memchr(p, '\n', buf_len(&i->line));
		size_t len;

		if (!nl)
			break;
		*nl = '\0';
		len = (size_t)(nl - p) + 1;
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
		stop_feeding(i);
		return;
	}
	io_set(&i->api->loop, io, 0);
	i->ops->room(i);
}

size_t import_feed(struct import *i, const void *p, size_t n)
{
	ssize_t w;

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

void import_fed(struct import *i)
{
	i->fed = true;
	io_close(&i->api->loop, &i->tar);
	commit_if_complete(i);
}

static int watch(struct import *i, int fds[FD_PASS_MAX])
{
	/* Fewer wake-ups; the limit of the host may be smaller. */
	(void)fcntl(fds[0], F_SETPIPE_SZ, 1 << 20);
	i->tar.events = 0;
	i->tar.fn = on_pipe;
	i->words.fn = on_words;
	return worker_pipes(&i->api->loop, fds, &i->tar, &i->words);
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
	i->round = i->api->reconcile.round;
	if (e.code)
		fail(i, &e);
	else
		i->ops->ready(i);
}

int import_check(struct api *a, const char *name, struct err *e)
{
	if (!image_name_valid(name))
		return err_set(e, EINVAL,
			       "'%.64s' is not a name: 1 to 63 of a-z, 0-9, "
			       "'.', '_', ':' and '-'",
			       name);
	if (a->n_imports >= IMPORTS_MAX)
		return err_set(e, EMFILE,
			       "%d images are being made: try again later",
			       IMPORTS_MAX);
	if (a->images.n >= IMAGES_MAX && !image_find(a, name))
		return err_set(e, EMFILE, "there are %d images: remove some",
			       IMAGES_MAX);
	return 0;
}

int import_begin(struct import *i, struct api *a, const struct import_ops *ops,
		 const char *name, const struct import_spec *from,
		 struct err *e)
{
	int r = import_check(a, name, e);

	if (r < 0)
		return r;
	i->api = a;
	i->ops = ops;
	i->tar.fd = i->words.fd = -1;
	if (id_make(i->image.id) < 0)
		return err_set(e, EIO, "no random numbers");
	snprintf(i->image.name, sizeof(i->image.name), "%s", name);
	i->open = true;
	a->n_imports++;
	i->call.req.op = WARDEN_IMAGE_IMPORT;
	i->call.req.import = *from;
	memcpy(i->call.req.import.id, i->image.id, ID_CAP);
	warden_ask(&a->warden, &i->call, on_import);
	return 0;
}
