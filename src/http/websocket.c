/*
 * A connection goes OPEN -> CLOSING (our close frame is queued, the peer's is
 * awaited) -> DRAINING (no frame matters any more; what is queued leaves, then
 * our side is shut, then the peer has a moment to go) -> ENDED.
 *
 * Owners' calls only queue; everything else is done in a turn of the loop, so
 * that no callback comes from inside of them.
 */
#include "http/websocket.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"

enum {
	READ_MAX = 64 * 1024,
	CLOSE_MS = 5000,
	REASON_MAX = WS_CONTROL_MAX - 2,
	KEY_LEN = 24,                       /* base64 of 16 bytes */
	ACCEPT_CAP = 4 * ((20 + 2) / 3) + 1 /* base64 of a SHA-1 */
};

static void on_turn(struct deferred *d);
static void on_timer(struct timer *t);

static bool key_ok(const char *key)
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				       "abcdefghijklmnopqrstuvwxyz"
				       "0123456789+/";

	return strlen(key) == KEY_LEN && strspn(key, alphabet) == KEY_LEN - 2 &&
	       strcmp(key + KEY_LEN - 2, "==") == 0;
}

/* What is wrong with it, or NULL. */
static const char *handshake_fault(const struct http_head *h)
{
	const char *key = http_header(h, "sec-websocket-key");

	if (strcmp(h->method, "GET") != 0)
		return "a WebSocket is asked for with GET";
	if (h->body != HTTP_NO_BODY)
		return "a WebSocket request has no body";
	if (!key || !key_ok(key))
		return "bad Sec-WebSocket-Key";
	return NULL;
}

static void upgrade_required(struct http_conn *c)
{
	static const struct http_field extra[] = {
		{ "Content-Type", "application/json" },
		{ "Upgrade", "websocket" },
		{ "Sec-WebSocket-Version", "13" },
		{ NULL, NULL }
	};
	AUTO(buf_done) struct buf b = { 0 };

	buf_printf(&b,
		   "{\"code\": 426, \"error\": \"upgrade_required\", "
		   "\"message\": \"ask for a WebSocket, version 13\", "
		   "\"request_id\": \"%s\"}\n",
		   http_request_id(c));
	http_reply(c, 426, extra, buf_data(&b), buf_len(&b));
}

bool websocket_wanted(struct http_conn *c)
{
	const struct http_head *h = http_request(c);
	const char *version = http_header(h, "sec-websocket-version");
	const char *fault;

	if (!http_wants_upgrade(h, "websocket") || !version ||
	    strcmp(version, "13") != 0) {
		upgrade_required(c);
		return false;
	}
	fault = handshake_fault(h);
	if (fault)
		http_error(c, 400, "bad_request", "%s", fault);
	return !fault;
}

static int accept_key(const char *key, char out[ACCEPT_CAP])
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	unsigned char text[KEY_LEN + sizeof(guid)], hash[SHA_DIGEST_LENGTH];

	memcpy(text, key, KEY_LEN);
	memcpy(text + KEY_LEN, guid, sizeof(guid));
	if (!SHA1(text, sizeof(text) - 1, hash))
		return -EIO;
	EVP_EncodeBlock((unsigned char *)out, hash, sizeof(hash));
	return 0;
}

static void queue_turn(struct websocket *ws)
{
	if (ws->queued || ws->state == WS_ENDED)
		return;
	ws->queued = true;
	loop_defer(ws->loop, &ws->turn, on_turn);
}

int websocket_start(struct websocket *ws, struct http_conn *c,
		    const char *protocol, const struct websocket_ops *ops)
{
	char accept[ACCEPT_CAP];
	struct http_field extra[] = {
		{ "Sec-WebSocket-Accept", accept },
		{ protocol ? "Sec-WebSocket-Protocol" : NULL, protocol },
		{ NULL, NULL }
	};
	struct loop *l = http_conn_server(c)->loop;
	size_t max = ws->max ? ws->max : WS_MESSAGE_MAX;
	int r;

	*ws = (struct websocket){ .ops = ops, .loop = l, .max = max };
	ws->decoder.max = max;
	list_init(&ws->turn.node);
	http_stream_init(&ws->stream);
	r = accept_key(http_header(http_request(c), "sec-websocket-key"),
		       accept);
	if (r < 0) {
		http_error(c, 500, "internal", "no SHA-1");
		return r;
	}
	r = http_upgrade(c, "websocket", extra, &ws->stream, &ws->in, &ws->out);
	if (r < 0)
		return r;
	ws->alive = true;
	timer_set(l, &ws->timer, WS_PING_MS, on_timer);
	queue_turn(ws);
	return 0;
}

void websocket_abort(struct websocket *ws)
{
	if (!ws->loop || ws->state == WS_ENDED)
		return;
	ws->state = WS_ENDED;
	if (ws->queued)
		list_del(&ws->turn.node);
	ws->queued = false;
	timer_del(ws->loop, &ws->timer);
	http_stream_close(&ws->stream);
	ws_decoder_done(&ws->decoder);
	buf_done(&ws->in);
	buf_done(&ws->out);
}

static void end(struct websocket *ws)
{
	unsigned code = ws->code ? ws->code : WS_LOST;

	websocket_abort(ws);
	ws->ops->closed(ws, code);
}

static void put_close(struct websocket *ws, unsigned code, const char *reason)
{
	char text[WS_CONTROL_MAX] = { (char)(code >> 8), (char)code };
	size_t n = strnlen(reason, REASON_MAX);

	/* Not in the middle of a character. */
	while (n > 0 && ((unsigned char)reason[n] & 0xc0) == 0x80)
		n--;
	memcpy(text + 2, reason, n);
	ws_encode(&ws->out, WS_CLOSE, text, code == WS_NO_CODE ? 0 : n + 2);
}

/* Nothing that the peer sends from now on means anything. */
static void drain(struct websocket *ws, unsigned code)
{
	ws->code = code;
	ws->state = WS_DRAINING;
	buf_clear(&ws->in);
	timer_set(ws->loop, &ws->timer, CLOSE_MS, on_timer);
}

static void take_control(struct websocket *ws, int op, const char *p, size_t n)
{
	if (op == WS_PING && ws->state == WS_OPEN)
		ws_encode(&ws->out, WS_PONG, p, n);
	if (op != WS_CLOSE)
		return;
	if (ws->state == WS_OPEN)
		put_close(ws, ws_close_code(p, n), "");
	drain(ws, ws_close_code(p, n));
}

/* One message of what was read; false when there is none to be had now. */
static bool take_message(struct websocket *ws)
{
	size_t used, n = 0;
	char *p = NULL;
	int r;

	if (ws->state >= WS_DRAINING || buf_len(&ws->in) == 0 ||
	    buf_len(&ws->out) >= WS_OUT_HIGH ||
	    (ws->paused && ws->state == WS_OPEN))
		return false;
	r = ws_decode(&ws->decoder, buf_data(&ws->in), buf_len(&ws->in), &used,
		      &p, &n);
	buf_eat(&ws->in, used);
	if (r < 0) {
		if (ws->state == WS_OPEN)
			put_close(ws, (unsigned)-r, "");
		drain(ws, (unsigned)-r);
		return false;
	}
	if (r >= WS_CLOSE)
		take_control(ws, r, p, n);
	else if (r > 0 && ws->state == WS_OPEN)
		ws->ops->message(ws, r == WS_TEXT, p, n);
	return r > 0;
}

static void flush(struct websocket *ws)
{
	while (buf_len(&ws->out) > 0 && !ws->blocked) {
		ssize_t n = http_stream_drain(&ws->stream, &ws->out);

		if (n == -EAGAIN)
			ws->blocked = true;
		else if (n < 0) /* reading tells how it ended */
			ws->deaf = true;
		if (ws->deaf)
			buf_clear(&ws->out);
	}
	if (buf_len(&ws->out) == 0 && ws->state == WS_DRAINING && !ws->shut) {
		http_stream_shutdown(&ws->stream);
		ws->shut = true;
	}
}

static bool wants_read(const struct websocket *ws)
{
	if (ws->state == WS_DRAINING)
		return true;
	return buf_len(&ws->in) == 0 && buf_len(&ws->out) < WS_OUT_HIGH &&
	       !(ws->paused && ws->state == WS_OPEN);
}

static void on_ready(struct http_stream *s, uint32_t events)
{
	struct websocket *ws = container_of(s, struct websocket, stream);
	ssize_t n;

	if (events & EPOLLOUT) {
		ws->alive |= ws->blocked;
		ws->blocked = false;
	}
	if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && wants_read(ws)) {
		n = http_stream_fill(s, &ws->in, READ_MAX);
		ws->alive |= n > 0;
		if (n == 0 || (n < 0 && n != -EAGAIN))
			ws->failure = n ? (int)n : -ECONNRESET;
		if (ws->state == WS_DRAINING)
			buf_clear(&ws->in);
	} else if (events & (EPOLLHUP | EPOLLERR)) {
		/* Cannot be masked, and says that nobody is there: what was
		 * not taken of a peer that left without a close is lost. */
		ws->failure = -ECONNRESET;
	}
	on_turn(&ws->turn);
}

static void watch(struct websocket *ws)
{
	uint32_t events = wants_read(ws) ? EPOLLIN : 0;

	if (ws->blocked)
		events |= EPOLLOUT;
	if (http_stream_watch(&ws->stream, events, on_ready) < 0)
		ws->failure = -ENOMEM;
}

static bool is_ready(const struct websocket *ws)
{
	return ws->stopped && ws->state == WS_OPEN && !ws->failure &&
	       !ws->deaf &&
	       buf_len(&ws->out) < (ws->draining ? 1 : WS_OUT_HIGH / 2);
}

/* All that can be done now: messages, what they led to, and what is queued. */
static void on_turn(struct deferred *d)
{
	struct websocket *ws = container_of(d, struct websocket, turn);

	if (ws->queued)
		list_del(&d->node);
	ws->queued = false;
	do {
		flush(ws);
		if (is_ready(ws)) {
			ws->stopped = ws->draining = false;
			ws->ops->ready(ws);
		}
	} while (!ws->failure && take_message(ws));
	if (ws->state == WS_ENDED)
		return;
	flush(ws);
	watch(ws);
	if (ws->failure)
		end(ws);
}

static void on_timer(struct timer *t)
{
	struct websocket *ws = container_of(t, struct websocket, timer);

	if (ws->state != WS_OPEN || (!ws->alive && !ws->paused)) {
		end(ws);
		return;
	}
	ws->alive = false;
	/* Whoever has not taken the last bytes gets the next with them. */
	if (!ws->blocked)
		ws_encode(&ws->out, WS_PING, "", 0);
	timer_set(ws->loop, t, WS_PING_MS, on_timer);
	queue_turn(ws);
}

bool websocket_send(struct websocket *ws, bool text, const void *p, size_t n)
{
	if (ws->state != WS_OPEN)
		return true;
	ws_encode(&ws->out, text ? WS_TEXT : WS_BINARY, p, n);
	queue_turn(ws);
	ws->stopped |= ws->ops->ready && buf_len(&ws->out) >= WS_OUT_HIGH;
	return buf_len(&ws->out) < WS_OUT_HIGH;
}

void websocket_drain(struct websocket *ws)
{
	ws->stopped = ws->draining = ws->ops->ready != NULL;
	queue_turn(ws);
}

void websocket_pause(struct websocket *ws)
{
	ws->paused = true;
}

void websocket_resume(struct websocket *ws)
{
	ws->paused = false;
	queue_turn(ws);
}

void websocket_close(struct websocket *ws, unsigned code, const char *reason)
{
	if (ws->state != WS_OPEN)
		return;
	put_close(ws, code, reason ? reason : "");
	ws->code = code;
	ws->state = WS_CLOSING;
	timer_set(ws->loop, &ws->timer, CLOSE_MS, on_timer);
	queue_turn(ws);
}
