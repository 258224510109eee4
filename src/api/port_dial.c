#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "api/api.h"
#include "api/reply.h"
#include "base/auto.h"
#include "base/clock.h"

enum {
	DIAL_MS = 5000,
	START_MS = 10 * 1000, /* for a server that the sandbox starts itself */
	AGAIN_MS = 20,        /* and then twice as long each time */
	AGAIN_MAX_MS = 320,
};

static void ask(struct port_dial *d);

static void finish(struct port_dial *d, int code, const char *msg)
{
	struct err e = { 0 };

	timer_del(&d->api->loop, &d->timer);
	http_stream_unwatch(&d->stream);
	if (code)
		err_set(&e, code, "%s", msg);
	d->done(d, &e);
}

/* Is what it runs at its start still on the way? */
static bool is_starting(const struct port_dial *d)
{
	const struct sandbox *s = box_by_id(d->api, d->id);

	return s && json_array_size(s->spec.start) > 0 &&
	       clock_wall_ms() < s->created_ms + START_MS;
}

static void on_again(struct timer *t)
{
	struct port_dial *d = container_of(t, struct port_dial, timer);

	d->v6 = false;
	ask(d);
}

/* Programs that listen on "localhost" may have only one of the two. */
static void refused(struct port_dial *d)
{
	http_stream_close(&d->stream);
	if (!d->v6) {
		d->v6 = true;
		ask(d);
	} else if (is_starting(d)) {
		d->again_ms = d->again_ms ? 2 * d->again_ms : AGAIN_MS;
		if (d->again_ms > AGAIN_MAX_MS)
			d->again_ms = AGAIN_MAX_MS;
		timer_set(&d->api->loop, &d->timer, d->again_ms, on_again);
	} else {
		finish(d, ECONNREFUSED, "");
	}
}

static void on_connected(struct http_stream *s, uint32_t events)
{
	struct port_dial *d = container_of(s, struct port_dial, stream);
	socklen_t n = sizeof(int);
	int code = 0;

	(void)events;
	if (getsockopt(s->io.fd, SOL_SOCKET, SO_ERROR, &code, &n) < 0)
		code = errno;
	if (code == ECONNREFUSED)
		refused(d);
	else
		finish(d, code, strerror(code));
}

static void on_timeout(struct timer *t)
{
	finish(container_of(t, struct port_dial, timer), ETIMEDOUT,
	       "it does not take the connection");
}

static void on_socket(struct warden_call *call, const struct warden_rep *rep,
		      int fds[FD_PASS_MAX])
{
	struct port_dial *d = container_of(call, struct port_dial, call);
	int r;

	if (rep->err.code == ECONNREFUSED) {
		refused(d);
		return;
	}
	if (rep->err.code || fds[0] < 0) {
		finish(d, rep->err.code ? rep->err.code : EPROTO, rep->err.msg);
		return;
	}
	http_stream_open(&d->stream, &d->api->loop, take_fd(&fds[0]), NULL);
	timer_set(&d->api->loop, &d->timer, DIAL_MS, on_timeout);
	r = http_stream_watch(&d->stream, EPOLLOUT, on_connected);
	if (r < 0)
		finish(d, -r, strerror(-r));
}

static void ask(struct port_dial *d)
{
	struct connect_spec *s = &d->call.req.connect;

	warden_req_id(&d->call, WARDEN_CONNECT, d->id);
	s->port = d->port;
	s->flags = d->v6 ? CONNECT_V6 : 0;
	warden_ask(&d->api->warden, &d->call, on_socket);
}

/* Counted at the sandbox, which may go before we do. */
static void count(const struct port_dial *d, int by)
{
	struct sandbox *s = box_by_id(d->api, d->id);

	if (!s)
		return;
	s->n_ports += (unsigned)by;
	box_touch(s);
}

int port_dial(struct port_dial *d, const struct sandbox *s, uint16_t port,
	      void (*done)(struct port_dial *d, const struct err *e),
	      struct err *e)
{
	struct share *place;

	if (s->n_ports >= PORTS_BOX_MAX)
		return err_set(e, EUSERS,
			       "too many connections to sandbox %s at once",
			       s->id);
	place = share_take(&s->api->pools.ports, s->project, 1, e);
	if (!place)
		return -e->code;
	*d = (struct port_dial){ .api = s->api, .port = port, .done = done };
	d->place = place;
	memcpy(d->id, s->id, ID_CAP);
	http_stream_init(&d->stream);
	count(d, 1);
	ask(d);
	return 0;
}

void port_dial_move(struct port_dial *to, struct port_dial *from)
{
	*to = (struct port_dial){ .api = from->api, .port = from->port };
	memcpy(to->id, from->id, ID_CAP);
	http_stream_move(&to->stream, &from->stream);
	to->place = from->place;
	from->place = NULL;
	count(to, 1);
	port_hang_up(from);
}

void port_hang_up(struct port_dial *d)
{
	if (!d->api)
		return;
	warden_cancel(&d->call);
	timer_del(&d->api->loop, &d->timer);
	http_stream_close(&d->stream);
	count(d, -1);
	share_give(d->place, 1);
	d->api = NULL;
}

void port_refuse(struct port_dial *d, struct http_conn *c, const struct err *e)
{
	char msg[400];

	if (e->code == ECONNREFUSED) {
		snprintf(msg, sizeof(msg),
			 "nothing listens on port %u of sandbox %s: start a "
			 "server there, or try again when it is up",
			 d->port, d->id);
		reply_error(d->api, c, 502, "nothing_listens", msg);
	} else if (e->code == ETIMEDOUT) {
		snprintf(msg, sizeof(msg), "port %u of sandbox %s: %s", d->port,
			 d->id, e->msg);
		reply_error(d->api, c, 504, "timeout", msg);
	} else {
		reply_err(d->api, c, e);
	}
}
