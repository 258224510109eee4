/*
 * Tunnels. A place is asked for by CONNECT, by the server's name in a TLS
 * hello, or by the address alone. When the policy allows all of it, and nobody
 * has to look into it, the bytes pass as they are; else it is TLS with us
 * (exchange.c), or it is refused: where there is a way to say so, in words.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/guards.h"
#include "gate/flow.h"
#include "gate/hello.h"
#include "gate/leaf.h"

static struct request place_request(const struct flow *f, enum scheme s)
{
	return (struct request){
		.scheme = s,
		.host = f->place.host,
		.port = f->place.port,
	};
}

static struct ruling ruling_of(const struct flow *f, enum scheme s)
{
	struct request q = place_request(f, s);

	return box_decide(f->box, &q);
}

/*
 * May bytes that nobody can read pass? A rule about tcp says so, or one about
 * everything: that one only if the web's rules of this place agree, so that
 * "deny * evil.test" in front of "allow *" is no invitation to speak raw.
 */
static bool raw_ruling(struct flow *f, struct ruling *out)
{
	struct ruling http, https;

	if (!f->place.host[0])
		return false;
	*out = ruling_of(f, SCHEME_TCP);
	if (out->verdict != VERDICT_ALLOW && out->verdict != VERDICT_ASK)
		return false;
	if (out->rule && out->rule->schemes == SCHEME_TCP)
		return true;
	if (pass_needs_look(f, f->place.host, f->place.port))
		return false;
	if (out->observed)
		return true;
	http = ruling_of(f, SCHEME_HTTP);
	https = ruling_of(f, SCHEME_HTTPS);
	return http.verdict == out->verdict && https.verdict == out->verdict &&
	       !http.observed && !https.observed;
}

bool connect_is_raw(struct flow *f)
{
	struct ruling r;

	/* What is only watched is looked at first: it may be HTTP. */
	return raw_ruling(f, &r) && !r.observed;
}

bool connect_stays_raw(struct flow *f)
{
	struct ruling r;

	return raw_ruling(f, &r);
}

/* --- refusals --- */

/* An answer in clear text, to CONNECT; then the end. */
void connect_refuse(struct flow *f, const struct refusal *r)
{
	struct buf out = { 0 };

	refusal_answer(r, NULL, true, &out);
	/* It fits into an empty socket; who does not read it has none. */
	(void)http_stream_write(&f->inside, buf_data(&out), buf_len(&out));
	buf_done(&out);
	flow_end(f);
}

static void refuse_raw(struct flow *f, const struct refusal *r)
{
	if (f->proxy && !f->promised)
		connect_refuse(f, r);
	else
		flow_end(f);
}

/* --- TLS with us --- */

static void inspect(struct flow *f)
{
	struct gate *g = f->box->gate;
	struct err e = { 0 };
	struct tls_context *ctx;
	int fd;

	pass_end(f, 0, NULL);
	http_stream_close(&f->outside);
	ctx = leaf_context(g, f->box->project, f->place.host, &e);
	if (!ctx) {
		flow_end(f);
		return;
	}
	http_stream_unwatch(&f->inside);
	fd = f->inside.io.fd;
	http_stream_open(&f->inside, &g->loop, fd, ctx);
	f->bound = true;
	f->scheme = SCHEME_HTTPS;
	exchange_start(f);
}

/* The client can only hear us inside TLS. */
static void refuse_tls(struct flow *f, const struct refusal *r)
{
	f->refusal = xcalloc(1, sizeof(*r));
	*f->refusal = *r;
	inspect(f);
}

/* --- tunnels --- */

void connect_count(struct flow *f)
{
	f->pass.up += f->tunnel.up_bytes;
	f->pass.down += f->tunnel.down_bytes;
}

static void on_tunnel_end(struct tunnel *t, const char *why)
{
	struct flow *f = container_of(t, struct flow, tunnel);
	const struct scan *look = f->look.found ? &f->look : &f->frame_look;
	struct err e = { 0 };

	f->tunnelled = false;
	connect_count(f);
	if (look->found) {
		inject_canary(f->box, &f->pass.request, look->label, &e);
		why = e.msg;
	}
	pass_end(f, 0, why);
	flow_end(f);
}

void connect_tunnel(struct flow *f, bool look, struct buf *up, struct buf *down)
{
	bool frames = f->pass.request.scheme != SCHEME_TCP; /* a WebSocket */

	flow_deadline(f, 0);
	f->look.set = look ? inject_canaries(f->box) : NULL;
	f->frame_look.set = frames ? f->look.set : NULL;
	f->tunnelled = true;
	f->tunnel = (struct tunnel){
		.gate = f->box->gate,
		.hold = &f->pass.hold,
		.up_scan = f->look.set ? &f->look : NULL,
		.frame_scan = f->frame_look.set ? &f->frame_look : NULL,
		.down_scan =
			f->pass.inject.mask.set ? &f->pass.inject.mask : NULL,
		.done = on_tunnel_end,
		.idle_ms = FLOW_TUNNEL_MS,
	};
	tunnel_start(&f->tunnel, &f->inside, &f->outside, up, down);
}

static void tunnel(struct flow *f)
{
	connect_tunnel(f, f->pass.request.scheme == SCHEME_TCP, NULL, NULL);
}

/* Who said something and then that this was all, may still listen. */
static void on_leave(struct http_stream *s, uint32_t events)
{
	char c;

	if ((events & (EPOLLHUP | EPOLLERR)) ||
	    recv(s->io.fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) <= 0 ||
	    http_stream_watch(s, 0, on_leave) < 0)
		flow_end(container_of(s, struct flow, inside));
}

static void start_pass(struct flow *f, const char *kind, enum scheme s,
		       pass_go_fn *go, pass_no_fn *no)
{
	/* Nothing is read until it is decided; who leaves is not waited for. */
	http_stream_watch(&f->inside, EPOLLRDHUP, on_leave);
	flow_deadline(f, 0);
	f->pass.kind = kind;
	f->pass.request = place_request(f, s);
	f->pass.head = NULL;
	pass_start(f, go, no);
}

/* --- CONNECT --- */

static bool promise(struct flow *f)
{
	static const char yes[] = "HTTP/1.1 200 Connection established\r\n\r\n";

	f->promised = f->bound = true;
	if (http_stream_write(&f->inside, yes, strlen(yes)) ==
	    (ssize_t)strlen(yes))
		return true;
	flow_end(f);
	return false;
}

static void promise_and_look(struct flow *f)
{
	if (promise(f))
		flow_look(f);
}

static void promise_and_tunnel(struct flow *f)
{
	if (promise(f))
		tunnel(f);
}

/* May requests be made there, so that it depends on what comes? */
static bool may_be_web(const struct flow *f, const struct ruling *tls)
{
	struct ruling web = ruling_of(f, SCHEME_HTTP);

	if (tls->verdict == VERDICT_DENY)
		return web.verdict != VERDICT_DENY ||
		       strcmp(f->place.host, GATE_HOST) == 0;
	return tls->verdict == VERDICT_LOOK ||
	       pass_needs_look(f, f->place.host, f->place.port);
}

/* The head of CONNECT is read: what does the policy say about the place? */
static void connect_decide(struct flow *f)
{
	struct ruling tls = ruling_of(f, SCHEME_HTTPS);
	struct request q = place_request(f, SCHEME_HTTPS);
	struct refusal r;

	if (connect_is_raw(f)) {
		start_pass(f, "tcp", SCHEME_TCP, promise_and_tunnel,
			   connect_refuse);
	} else if (may_be_web(f, &tls)) {
		promise_and_look(f);
	} else if (tls.verdict != VERDICT_DENY) {
		start_pass(f, "tunnel", SCHEME_HTTPS, promise_and_look,
			   connect_refuse);
	} else {
		refusal_policy(&r, f->box, &q, &tls);
		pass_denied(f, "tunnel", &q, &tls, &r);
		connect_refuse(f, &r);
	}
}

void connect_start(struct flow *f, const struct http_head *h)
{
	const char *host = http_header(h, "host");
	struct place other;
	struct refusal r;

	if (h->body != HTTP_NO_BODY || place_read(&f->place, h->authority, 0))
		refusal_set(&r, REFUSE_BAD,
			    "the request is malformed: CONNECT HOST:PORT");
	else if (GUARD(AGREE) && host &&
		 (place_read(&other, host, f->place.port) ||
		  other.port != f->place.port ||
		  strcmp(other.host, f->place.host) != 0))
		refusal_set(&r, REFUSE_BAD,
			    "the request is malformed: CONNECT and Host do "
			    "not agree");
	else {
		connect_decide(f);
		return;
	}
	connect_refuse(f, &r);
}

/* --- after the first bytes --- */

static void refuse_name(struct flow *f, const char *sni)
{
	struct request q = place_request(f, SCHEME_HTTPS);
	struct ruling none = { .part = "no rule" };
	struct refusal r;

	if (*sni)
		refusal_set(&r, REFUSE_HOST,
			    "the tunnel is to %.254s, and the TLS hello in it "
			    "to %.254s: they must agree",
			    f->place.host, sni);
	else
		refusal_set(&r, REFUSE_HOST,
			    "the TLS hello names no server (SNI): nobody can "
			    "tell whether it is %.254s",
			    f->place.host);
	pass_denied(f, "tunnel", &q, &none, &r);
	if (*sni)
		memcpy(f->place.host, sni, strlen(sni) + 1);
	refuse_tls(f, &r);
}

static bool is_address(const char *host)
{
	struct in6_addr a;

	return address_read(&a, host) == 0;
}

/* Which server, as far as the hello says it. An address has no name. */
static bool name_agrees(const struct flow *f, const char *sni)
{
	if (!GUARD(SNI))
		return true;
	if (!*sni)
		return is_address(f->place.host);
	return !f->bound || strcmp(sni, f->place.host) == 0;
}

/* Logs the reason: the client gets only a TLS alert, because the handshake
 * fails at ALPN. */
static void refuse_http2(struct flow *f, const struct ruling *why)
{
	struct request q = place_request(f, SCHEME_HTTPS);
	struct refusal r;

	refusal_set(&r, REFUSE_BAD,
		    "the gate looks into connections to %.200s and speaks "
		    "HTTP/1.1 there, and this client nothing but "
		    "HTTP/2: " HTTP2_REMEDY,
		    f->place.host);
	pass_denied(f, "tunnel", &q, why, &r);
	refuse_tls(f, &r);
}

static void tls_decide(struct flow *f, const struct hello *h)
{
	struct ruling tls = ruling_of(f, SCHEME_HTTPS);
	struct request q = place_request(f, SCHEME_HTTPS);
	struct refusal r;

	if (tls.verdict == VERDICT_DENY) {
		refusal_policy(&r, f->box, &q, &tls);
		pass_denied(f, "tunnel", &q, &tls, &r);
		refuse_tls(f, &r);
	} else if (tls.verdict == VERDICT_LOOK || (GUARD(ECH) && h->ech) ||
		   pass_needs_look(f, f->place.host, f->place.port)) {
		if (h->http1)
			inspect(f);
		else
			refuse_http2(f, &tls);
	} else if (f->pass.state == PASS_OPEN) {
		tunnel(f);
	} else {
		start_pass(f, "tunnel", SCHEME_HTTPS, tunnel, refuse_tls);
	}
}

void connect_hello(struct flow *f, const struct hello *h)
{
	if (!name_agrees(f, h->sni)) {
		refuse_name(f, h->sni);
		return;
	}
	if (*h->sni)
		memcpy(f->place.host, h->sni, strlen(h->sni) + 1);
	tls_decide(f, h);
}

static void deny_bytes(struct flow *f, const char *what)
{
	struct request q = place_request(f, SCHEME_TCP);
	struct ruling none = { .part = "no rule" };
	struct refusal r;

	refusal_set(&r, REFUSE_BAD, "%s", what);
	pass_denied(f, "tcp", &q, &none, &r);
	flow_end(f);
}

void connect_bad_hello(struct flow *f)
{
	deny_bytes(f, "a malformed TLS hello");
}

void connect_raw(struct flow *f)
{
	struct ruling r;

	if (raw_ruling(f, &r)) {
		pass_end(f, 0, NULL);
		start_pass(f, "tcp", SCHEME_TCP, tunnel, refuse_raw);
		return;
	}
	deny_bytes(f, "neither TLS nor HTTP, and no tcp rule allows it");
}
