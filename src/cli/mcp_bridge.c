#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "cli/mcp.h"

enum { GONE = -32000, BAD_REQUEST = -32600, NOT_JSON = -32700 };
enum { BEGIN_MAX = 3 }; /* sessions that are begun again for one message */

static const struct mcp_wire_ops post_ops, listen_ops, goodbye_ops;

void bridge_init(struct bridge *b)
{
	list_init(&b->queue);
	list_init(&b->flying);
	b->listen.ops = &listen_ops;
	b->goodbye.ops = &goodbye_ops;
}

/* --- stdout --- */

/* Waits for the client, also if the pipe was made not to. */
static int write_out(struct buf *b)
{
	struct pollfd p = { .fd = STDOUT_FILENO, .events = POLLOUT };
	ssize_t n = 0;

	while (buf_len(b) > 0 && (n >= 0 || n == -EAGAIN || n == -EINTR)) {
		if (n == -EAGAIN)
			poll(&p, 1, -1);
		n = buf_write(b, STDOUT_FILENO);
	}
	return buf_len(b) > 0 ? (int)n : 0;
}

/* A message is one line: newlines in JSON are only ever space. */
static void say(struct bridge *b, const char *text, size_t n)
{
	AUTO(buf_done) struct buf line = { 0 };
	char *p;
	size_t i;

	buf_add(&line, text, n);
	p = buf_data(&line);
	for (i = 0; i < n; i++)
		if (p[i] == '\n' || p[i] == '\r')
			p[i] = ' ';
	buf_puts(&line, "\n");
	/* Nobody reads any more: there is nothing left to do. */
	if (write_out(&line) < 0)
		bridge_leave(b);
}

static void say_json(struct bridge *b, json_t *j)
{
	AUTO_FREE char *text = json_dumps(j, JSON_COMPACT);

	json_decref(j);
	if (text)
		say(b, text, strlen(text));
}

static void say_error(struct bridge *b, json_t *id, int code, const char *msg)
{
	say_json(b, json_pack("{s:s, s:O?, s:{s:i, s:s}}", "jsonrpc", "2.0",
			      "id", id, "error", "code", code, "message", msg));
}

/* --- messages --- */

static void pump(struct bridge *b);

static void bury(struct deferred *d)
{
	struct bridge_message *m = container_of(d, struct bridge_message, bury);

	json_decref(m->id);
	free(m->text);
	free(m);
}

/* It is over, one way or the other. */
static void settle(struct bridge_message *m)
{
	struct bridge *b = m->bridge;

	wire_close(&m->wire);
	timer_del(&b->loop, &m->again);
	list_del(&m->node);
	if (m->id)
		b->n_calls--;
	if (m->initialize)
		b->beginning = false;
	loop_defer(&b->loop, &m->bury, bury);
	pump(b);
	bridge_room(b);
}

static void give_up(struct bridge_message *m, const char *why)
{
	if (m->id && !m->answered && !m->quiet)
		say_error(m->bridge, m->id, GONE, why);
	else if (!m->answered)
		complain("mcp: %s", why);
	settle(m);
}

static struct bridge_message *message_new(struct bridge *b, const char *text,
					  size_t n)
{
	struct bridge_message *m = xcalloc(1, sizeof(*m));

	m->bridge = b;
	m->text = xcalloc(1, n + 1);
	memcpy(m->text, text, n);
	m->n = n;
	m->wire.ops = &post_ops;
	list_init(&m->node);
	return m;
}

static void fly(struct bridge_message *m);

static void on_again(struct timer *t)
{
	struct bridge_message *m =
		container_of(t, struct bridge_message, again);

	if (m->tries >= BRIDGE_TRIES)
		give_up(m, m->refusal);
	else
		fly(m);
}

enum { FIELDS_MAX = 5 };

static void put_fields(const struct bridge_message *m,
		       struct http_field out[FIELDS_MAX])
{
	const struct bridge *b = m->bridge;
	size_t n = 0;

	out[n++] = (struct http_field){ "Accept", "application/json, "
						  "text/event-stream" };
	if (*m->session)
		out[n++] = (struct http_field){ "Mcp-Session-Id", m->session };
	if (*m->session && *b->version)
		out[n++] = (struct http_field){ "MCP-Protocol-Version",
						b->version };
	if (*m->last_id)
		out[n++] = (struct http_field){ "Last-Event-ID", m->last_id };
	out[n] = (struct http_field){ NULL, NULL };
}

/* POST, or GET for the rest of a stream. Nothing is settled in here. */
static void fly(struct bridge_message *m)
{
	struct bridge *b = m->bridge;
	bool resume = *m->last_id;
	struct http_field fields[FIELDS_MAX];
	const struct mcp_wire_request q = {
		.method = resume ? "GET" : "POST",
		.target = resume ? "/mcp" : b->target,
		.fields = fields,
		.body = resume ? NULL : m->text,
		.body_n = m->n,
	};

	put_fields(m, fields);
	*m->refusal = '\0';
	if (wire_start(&m->wire, b->cli, &b->loop, &q, m->refusal) == 0)
		return;
	m->tries++;
	timer_set(&b->loop, &m->again, BRIDGE_AGAIN_MS, on_again);
}

static void launch(struct bridge_message *m)
{
	struct bridge *b = m->bridge;

	list_del(&m->node);
	list_add(&b->flying, &m->node);
	b->n_queue--;
	if (m->id)
		b->n_calls++;
	if (m->initialize)
		b->beginning = true;
	memcpy(m->session, b->session, sizeof(m->session));
	if (m->initialize)
		*m->session = '\0';
	fly(m);
}

/* Requests wait for others to end; what cancels one of them does not. */
static void pump(struct bridge *b)
{
	struct list *n, *next;

	list_each (n, next, &b->queue) {
		struct bridge_message *m =
			container_of(n, struct bridge_message, node);

		if (b->leaving || (b->beginning && !m->initialize))
			break;
		if (!m->id || m->initialize || b->n_calls < BRIDGE_CALLS_MAX)
			launch(m);
	}
	if (b->draining && list_empty(&b->queue) && list_empty(&b->flying))
		bridge_leave(b);
}

static void enqueue(struct bridge_message *m, bool first)
{
	struct bridge *b = m->bridge;

	list_add(first ? b->queue.next : &b->queue, &m->node);
	b->n_queue++;
}

void bridge_take(struct bridge *b, const char *text, size_t n)
{
	struct bridge_message *m;
	json_t *j = json_loadb(text, n, 0, NULL);
	const char *method = json_string_value(json_object_get(j, "method"));
	json_t *id = json_object_get(j, "id");

	if (!j) {
		say_error(b, NULL, NOT_JSON, "this line is not JSON");
		return;
	}
	m = message_new(b, text, n);
	if (method && (json_is_string(id) || json_is_number(id)))
		m->id = json_incref(id);
	m->initialize = method && m->id && strcmp(method, "initialize") == 0;
	json_decref(j);
	if (m->initialize) {
		buf_clear(&b->hello);
		buf_add(&b->hello, text, n);
		json_decref(b->hello_id);
		b->hello_id = json_incref(m->id);
	}
	enqueue(m, false);
	pump(b);
}

void bridge_refuse_long(struct bridge *b)
{
	say_error(b, NULL, BAD_REQUEST,
		  "this line is longer than 8 MiB, and was left out");
}

bool bridge_is_full(const struct bridge *b)
{
	return b->n_queue >= BRIDGE_QUEUE_MAX;
}

void bridge_drain(struct bridge *b)
{
	b->draining = true;
	pump(b);
}

/* --- answers --- */

static void listen_now(struct bridge *b);

/* The session is known now. */
static void begun(struct bridge_message *m, const json_t *answer)
{
	struct bridge *b = m->bridge;
	const json_t *result = json_object_get(answer, "result");
	const json_t *v = json_object_get(result, "protocolVersion");

	memcpy(b->session, m->wire.session, sizeof(b->session));
	if (!json_is_string(v) ||
	    str_copy(b->version, sizeof(b->version), json_string_value(v)) < 0)
		*b->version = '\0';
	listen_now(b);
}

static bool is_answer_to(const struct bridge_message *m, const json_t *j)
{
	return m->id && !json_object_get(j, "method") &&
	       json_equal(json_object_get(j, "id"), m->id);
}

static void on_message(struct mcp_wire *w, const char *text, size_t n)
{
	struct bridge_message *m = container_of(w, struct bridge_message, wire);
	json_t *j = json_loadb(text, n, JSON_DECODE_ANY, NULL);

	/* A refusal in the words of HTTP, not of JSON-RPC. */
	if (!json_is_array(j) && !json_object_get(j, "jsonrpc")) {
		const char *msg =
			json_string_value(json_object_get(j, "message"));

		snprintf(m->refusal, sizeof(m->refusal), "%s",
			 msg ? msg : "what came is not an answer");
		json_decref(j);
		return;
	}
	if (is_answer_to(m, j)) {
		m->answered = true;
		if (m->initialize && json_object_get(j, "result"))
			begun(m, j);
	}
	if (!m->quiet)
		say(m->bridge, text, n);
	json_decref(j);
}

/* `initialize` and what follows it, in front of all that waits. */
static void say_hello(struct bridge *b)
{
	static const char ready[] = "{\"jsonrpc\":\"2.0\",\"method\":"
				    "\"notifications/initialized\"}";
	struct bridge_message *hello =
		message_new(b, buf_data(&b->hello), buf_len(&b->hello));
	struct bridge_message *then = message_new(b, ready, sizeof(ready) - 1);

	*b->session = '\0';
	hello->quiet = then->quiet = true;
	hello->initialize = true;
	hello->id = json_incref(b->hello_id);
	enqueue(then, true);
	enqueue(hello, true);
}

/* The daemon has forgotten the session: begin another, say it again. */
static bool begin_again(struct bridge_message *m)
{
	struct bridge *b = m->bridge;

	if (!*m->session || *m->last_id || !b->hello_id || m->quiet ||
	    b->leaving || m->begun++ >= BEGIN_MAX)
		return false;
	list_del(&m->node);
	if (m->id)
		b->n_calls--;
	enqueue(m, true);
	/* Others may have noticed it before. */
	if (strcmp(m->session, b->session) == 0)
		say_hello(b);
	pump(b);
	return true;
}

static void on_ended(struct mcp_wire *w, int status, bool whole)
{
	struct bridge_message *m = container_of(w, struct bridge_message, wire);

	if (status == 404 && !m->answered && begin_again(m))
		return;
	if (m->answered || (!m->id && status >= 200 && status < 300)) {
		settle(m);
		return;
	}
	if (*m->refusal) {
		give_up(m, m->refusal);
		return;
	}
	/* Cut in the middle: what is missing may be had. */
	if (w->sse && *w->last_id && ++m->tries < BRIDGE_TRIES) {
		memcpy(m->last_id, w->last_id, sizeof(m->last_id));
		timer_set(&m->bridge->loop, &m->again, BRIDGE_AGAIN_MS,
			  on_again);
		return;
	}
	give_up(m, whole ? "the daemon did not answer this"
			 : "the daemon went away before it answered: what was "
			   "asked for may have been done");
}

static const struct mcp_wire_ops post_ops = { .message = on_message,
					      .ended = on_ended };

/* --- what the daemon says by itself --- */

static void on_listen_again(struct timer *t)
{
	listen_now(container_of(t, struct bridge, listen_again));
}

static void listen_now(struct bridge *b)
{
	const struct http_field fields[] = {
		{ "Accept", "text/event-stream" },
		{ "Mcp-Session-Id", b->session },
		{ *b->version ? "MCP-Protocol-Version" : NULL, b->version },
		{ NULL, NULL },
	};
	const struct mcp_wire_request q = { .method = "GET",
					    .target = "/mcp",
					    .fields = fields };
	char why[MESSAGE_CAP];

	wire_close(&b->listen);
	if (*b->session && !b->leaving &&
	    wire_start(&b->listen, b->cli, &b->loop, &q, why) < 0)
		timer_set(&b->loop, &b->listen_again, BRIDGE_LISTEN_MS,
			  on_listen_again);
}

static void on_heard(struct mcp_wire *w, const char *text, size_t n)
{
	if (w->sse)
		say(container_of(w, struct bridge, listen), text, n);
}

static void on_listened(struct mcp_wire *w, int status, bool whole)
{
	struct bridge *b = container_of(w, struct bridge, listen);

	(void)whole;
	/* Unknown here: the next message begins another. */
	if (status != 404 && !b->leaving)
		timer_set(&b->loop, &b->listen_again, BRIDGE_LISTEN_MS,
			  on_listen_again);
}

static const struct mcp_wire_ops listen_ops = { .message = on_heard,
						.ended = on_listened };

/* --- the end --- */

static void on_parted(struct mcp_wire *w, int status, bool whole)
{
	(void)status;
	(void)whole;
	container_of(w, struct bridge, goodbye)->loop.stop = true;
}

static const struct mcp_wire_ops goodbye_ops = { .ended = on_parted };

static void on_late(struct timer *t)
{
	container_of(t, struct bridge, late)->loop.stop = true;
}

void bridge_leave(struct bridge *b)
{
	const struct http_field fields[] = {
		{ "Mcp-Session-Id", b->session },
		{ NULL, NULL },
	};
	const struct mcp_wire_request q = { .method = "DELETE",
					    .target = "/mcp",
					    .fields = fields };
	char why[MESSAGE_CAP];

	if (b->leaving)
		return;
	b->leaving = true;
	timer_set(&b->loop, &b->late, BRIDGE_GOODBYE_MS, on_late);
	if (!*b->session ||
	    wire_start(&b->goodbye, b->cli, &b->loop, &q, why) < 0)
		b->loop.stop = true;
}
