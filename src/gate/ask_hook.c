#include "gate/ask_hook.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/product.h"
#include "gate/dial.h"

enum { HOOK_MS = 15000 };

struct hook {
	struct gate *gate;
	struct dial dial;
	struct http_stream stream;
	struct buf out;
	struct timer timer;
	struct deferred gone;
};

static unsigned n_hooks;

/*
 * The operator has named the place, so it may be one of his own network: a
 * "sandbox" whose only rule says so, for who checks addresses.
 */
static struct box *whose(struct gate *g, const struct url *u, struct err *e)
{
	static struct box_part part = { .name = "ask_webhook" };
	static struct box box = { .parts = &part, .n_parts = 1, .link_fd = -1 };
	AUTO(buf_done) struct buf text = { 0 };
	bool v6 = strchr(u->host, ':'), address;
	char host[POLICY_HOST_CAP];

	if (box.gate)
		return &box;
	if (host_read(u->host, strlen(u->host), host, &address) < 0) {
		err_set(e, EINVAL, "its host is none");
		return NULL;
	}
	buf_printf(&text, v6 ? "allow * [%s]:*\n" : "allow * %s:*\n", host);
	if (!address)
		buf_printf(&text, "private %s\n", host);
	if (policy_parse(&part.policy, buf_data(&text), buf_len(&text), e) < 0)
		return NULL;
	box.gate = g;
	return &box;
}

static void hook_free(struct deferred *d)
{
	struct hook *h = container_of(d, struct hook, gone);

	buf_done(&h->out);
	free(h);
}

static void end(struct hook *h, const char *why)
{
	if (why)
		log_warn("ask_webhook: %s", why);
	n_hooks--;
	dial_cancel(&h->dial);
	http_stream_close(&h->stream);
	timer_del(&h->gate->loop, &h->timer);
	loop_defer(&h->gate->loop, &h->gone, hook_free);
}

static void on_late(struct timer *t)
{
	end(container_of(t, struct hook, timer), "it does not answer");
}

static void on_stream(struct http_stream *s, uint32_t events)
{
	struct hook *h = container_of(s, struct hook, stream);
	char answer[64];
	ssize_t n;

	(void)events;
	if (buf_len(&h->out) > 0) {
		n = http_stream_drain(s, &h->out);
		if (n < 0 && n != -EAGAIN) {
			end(h, strerror((int)-n));
			return;
		}
		if (buf_len(&h->out) == 0)
			http_stream_watch(s, EPOLLIN, on_stream);
		return;
	}
	n = http_stream_read(s, answer, sizeof(answer) - 1);
	if (n == -EAGAIN)
		return;
	answer[n > 0 ? n : 0] = '\0';
	end(h, n > 9 && str_starts(answer, "HTTP/1.") && answer[9] == '2'
		       ? NULL
		       : "it was refused");
}

static void on_dial(struct dial *d, const struct err *e)
{
	struct hook *h = container_of(d, struct hook, dial);

	if (e && e->code) {
		end(h, e->msg);
		return;
	}
	http_stream_move(&h->stream, &d->stream);
	if (http_stream_watch(&h->stream, EPOLLOUT, on_stream) < 0)
		end(h, "no memory");
}

/* What stands behind the host; visible ASCII, or "/". */
static const char *target_of(const char *url)
{
	const char *s = strstr(url, "://"), *c;

	s = s ? strchr(s + 3, '/') : NULL;
	for (c = s ? s : ""; *c; c++)
		if (*c <= ' ' || *c > '~' || *c == '#')
			return "/";
	return s ? s : "/";
}

static void put_request(struct buf *out, const struct url *u, const char *url,
			const char *json)
{
	bool v6 = strchr(u->host, ':');

	buf_printf(out, "POST %s HTTP/1.1\r\nHost: ", target_of(url));
	buf_printf(out, v6 ? "[%s]:%u" : "%s:%u", u->host, u->port);
	buf_printf(out,
		   "\r\nUser-Agent: " PRODUCT
		   "\r\nContent-Type: application/json\r\n"
		   "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
		   strlen(json), json);
}

void ask_hook(struct gate *g, const char *json)
{
	const char *text = g->conf->ask_webhook;
	struct err e = { 0 };
	struct box *box;
	struct hook *h;
	struct url u;

	if (*text == '\0')
		return;
	if (n_hooks >= HOOKS_MAX) {
		log_warn("ask_webhook: %d calls are under way, one is left out",
			 HOOKS_MAX);
		return;
	}
	if (url_read(&u, text, &e) < 0 || !(box = whose(g, &u, &e))) {
		log_err("ask_webhook: %s", e.msg);
		return;
	}
	h = xcalloc(1, sizeof(*h));
	h->gate = g;
	http_stream_init(&h->stream);
	put_request(&h->out, &u, text, json);
	h->dial.box = box;
	snprintf(h->dial.host, sizeof(h->dial.host), "%s", u.host);
	h->dial.port = u.port;
	h->dial.tls = u.scheme == SCHEME_HTTPS;
	n_hooks++;
	timer_set(&g->loop, &h->timer, HOOK_MS, on_late);
	dial_start(&h->dial, on_dial);
}
