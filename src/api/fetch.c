#include "api/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "api/api.h"
#include "base/auto.h"
#include "base/fd.h"
#include "base/guards.h"

int fetch_check(const struct conf *c, struct err *e)
{
	if (fetch_list_check(c->registries, e) < 0)
		return err_wrap(e, "registries");
	if (fetch_list_check(c->registries_insecure, e) < 0)
		return err_wrap(e, "registries_insecure");
	return 0;
}

int fetch_allowed(struct api *a, const char *host, struct err *e)
{
	if (!GUARD(REGISTRIES) || fetch_host_listed(a->conf.registries, host) ||
	    fetch_host_listed(a->conf.registries_insecure, host))
		return 0;
	return err_set(e, EPERM,
		       "registry '%.100s' is not allowed: the operator adds it "
		       "to `registries` in the configuration",
		       host);
}

void fetch_end(struct fetch *f)
{
	if (!f->open)
		return;
	f->open = false;
	warden_cancel(&f->call);
	io_close(&f->api->loop, &f->to);
	io_close(&f->api->loop, &f->from);
	/* It had a password. */
	if (f->out.p)
		explicit_bzero(f->out.p, f->out.cap);
	buf_done(&f->out);
	buf_done(&f->in);
}

static void fail(struct fetch *f, const struct err *e)
{
	fetch_end(f);
	f->ops->failed(f, e);
}

static void fail_words(struct fetch *f, const char *words)
{
	struct err e = { 0 };

	err_set(&e, EREMOTEIO, "%s", words);
	fail(f, &e);
}

static void flush(struct fetch *f)
{
	ssize_t n = 0;

	if (f->to.fd < 0)
		return;
	while (buf_len(&f->out) > 0 && n >= 0)
		n = buf_write(&f->out, f->to.fd);
	/* Gone: its last words come on the other pipe. */
	if (n < 0 && n != -EAGAIN)
		io_close(&f->api->loop, &f->to);
	else
		io_set(&f->api->loop, &f->to,
		       buf_len(&f->out) > 0 ? EPOLLOUT : 0);
}

static void on_room(struct io *io, uint32_t events)
{
	struct fetch *f = container_of(io, struct fetch, to);

	if (events & EPOLLERR) {
		io_close(&f->api->loop, io);
		return;
	}
	flush(f);
	if (buf_len(&f->out) == 0 && f->ops->room)
		f->ops->room(f);
}

/* False: it is over. */
static bool take(struct fetch *f, const struct fetch_record *r)
{
	switch (r->kind) {
	case FETCH_HEAD:
	case FETCH_DATA:
	case FETCH_SENT:
	case FETCH_DONE:
		f->ops->said(f, r);
		return f->open;
	case FETCH_ERROR:
		fail(f, &r->err);
		return false;
	case FETCH_OPEN:
	case FETCH_GET_MANIFEST:
	case FETCH_GET_BLOB:
	case FETCH_HAS_BLOB:
	case FETCH_PUT_BLOB:
	case FETCH_PUT_MANIFEST:
	case FETCH_BYTES:
	case FETCH_KINDS:
		break;
	}
	fail_words(f, "the registry's worker said something unexpected");
	return false;
}

static void on_said(struct io *io, uint32_t events)
{
	struct fetch *f = container_of(io, struct fetch, from);
	ssize_t got = buf_read(&f->in, io->fd, FETCH_RECORD_MAX);
	struct fetch_record r;
	int n;

	(void)events;
	if (got == -EAGAIN)
		return;
	if (got <= 0) {
		fail_words(f, "the registry's worker died");
		return;
	}
	while ((n = fetch_record_get(&f->in, &r)) > 0) {
		if (!take(f, &r))
			return;
		buf_eat(&f->in, (size_t)n);
	}
	if (n < 0)
		fail_words(f, "the registry's worker broke the protocol");
}

static int watch(struct fetch *f, int fds[FD_PASS_MAX])
{
	/* Fewer wake-ups; the limit of the host may be smaller. */
	(void)fcntl(fds[0], F_SETPIPE_SZ, 1 << 20);
	(void)fcntl(fds[1], F_SETPIPE_SZ, 1 << 20);
	f->to.events = 0;
	f->to.fn = on_room;
	f->from.fn = on_said;
	return worker_pipes(&f->api->loop, fds, &f->to, &f->from);
}

static void on_started(struct warden_call *c, const struct warden_rep *rep,
		       int fds[FD_PASS_MAX])
{
	struct fetch *f = container_of(c, struct fetch, call);
	struct err e = rep->err;
	int r;

	if (e.code == 0) {
		r = watch(f, fds);
		if (r < 0)
			err_set(&e, -r, "watch the worker: %s", strerror(-r));
	}
	if (e.code)
		fail(f, &e);
	else
		flush(f);
}

void fetch_begin(struct fetch *f, struct api *a, const struct fetch_ops *ops,
		 const struct fetch_record *open)
{
	*f = (struct fetch){ .api = a, .ops = ops, .open = true };
	f->to.fd = f->from.fd = -1;
	fetch_record_put(&f->out, open);
	f->call.req.op = WARDEN_FETCH;
	warden_ask(&a->warden, &f->call, on_started);
}

void fetch_ask(struct fetch *f, const struct fetch_record *r)
{
	fetch_record_put(&f->out, r);
	flush(f);
}

size_t fetch_queued(const struct fetch *f)
{
	return buf_len(&f->out);
}
