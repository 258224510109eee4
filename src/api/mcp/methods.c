/* What can be asked for, and the requests that are under way. */
#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/json_text.h"
#include "api/mcp/fixture.h"
#include "api/mcp/rpc.h"
#include "api/mcp/stream.h"
#include "base/auto.h"
#include "base/product.h"

/* --- requests under way --- */

/* A question of ours to the client, in the course of a call. */
struct ask {
	struct list node;
	json_int_t id;
	struct mcp_call *call;
	mcp_ask_fn *done;
};

static void ask_drop(struct ask *q)
{
	list_del(&q->node);
	free(q);
}

static void drop_asks(struct mcp_call *c)
{
	struct list *n, *next;

	list_each (n, next, &c->session->asks) {
		struct ask *q = container_of(n, struct ask, node);

		if (q->call == c)
			ask_drop(q);
	}
}

static struct mcp_call *call_new(struct mcp_stream *st, json_t *id,
				 const json_t *params)
{
	struct mcp_call *c = xcalloc(1, sizeof(*c));
	json_t *meta = json_object_get(params, "_meta");
	json_t *token = json_object_get(meta, "progressToken");

	c->session = st->session;
	c->api = st->session->api;
	c->who = &st->session->who;
	c->request_id = st->request_id;
	c->stream = st;
	c->id = json_incref(id);
	if (json_is_string(token) || json_is_number(token))
		c->progress_token = json_incref(token);
	list_init(&c->waiting);
	list_add(&c->session->calls, &c->node);
	c->session->n_calls++;
	st->n_calls++;
	return c;
}

/* It is over; `msg` (taken) is its answer, NULL: there is none. */
static void end(struct mcp_call *c, json_t *msg)
{
	struct mcp_stream *st = c->stream;

	mcp_box_forget(c);
	drop_asks(c);
	list_del(&c->node);
	c->session->n_calls--;
	st->n_calls--;
	json_decref(c->id);
	json_decref(c->progress_token);
	free(c);
	if (msg)
		mcp_stream_answer(st, msg);
}

void mcp_drop(struct mcp_call *c)
{
	mcp_box_forget(c);
	if (c->stop)
		c->stop(c);
	end(c, NULL);
}

void mcp_reply(struct mcp_call *c, json_t *result)
{
	end(c, rpc_result(c->id, result));
}

void mcp_fail(struct mcp_call *c, int code, const char *msg)
{
	end(c, rpc_error(c->id, code, msg));
}

void mcp_content(struct mcp_call *c, json_t *content, bool is_error)
{
	json_t *result = json_pack("{s:o}", "content", content);

	if (is_error)
		json_object_set_new(result, "isError", json_true());
	mcp_reply(c, result);
}

static json_t *text_content(const char *text)
{
	return json_pack("[{s:s, s:o}]", "type", "text", "text",
			 json_lossy(text, strlen(text)));
}

void mcp_text(struct mcp_call *c, const char *text)
{
	mcp_content(c, text_content(text), false);
}

void mcp_error(struct mcp_call *c, const char *fmt, ...)
{
	AUTO_FREE char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	mcp_content(c, text_content(text ? text : "no memory"), true);
}

/* --- what is told in between --- */

static json_t *number(double d)
{
	json_int_t whole = (json_int_t)d;

	return (double)whole == d ? json_integer(whole) : json_real(d);
}

void mcp_progress(struct mcp_call *c, double at, double total,
		  const char *message)
{
	json_t *params;

	if (!c->progress_token)
		return;
	params = json_pack("{s:O, s:o}", "progressToken", c->progress_token,
			   "progress", number(at));
	if (total > 0)
		json_object_set_new(params, "total", number(total));
	if (message && c->session->version >= MCP_2025_03_26)
		json_object_set_new(params, "message",
				    json_lossy(message, strlen(message)));
	mcp_stream_tell(c->stream,
			rpc_notification("notifications/progress", params),
			false);
}

static const char *const levels[] = {
	"debug", "info",     "notice", "warning",
	"error", "critical", "alert",  "emergency"
};
static_assert(ARRAY_LEN(levels) == MCP_LEVELS, "a word for each");

static int level_of(const char *text)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(levels); i++)
		if (strcmp(levels[i], text) == 0)
			return (int)i;
	return -1;
}

void mcp_log(struct mcp_call *c, unsigned level, const char *text)
{
	if (level < c->session->log_level)
		return;
	mcp_stream_tell(
		c->stream,
		rpc_notification("notifications/message",
				 json_pack("{s:s, s:s, s:o}", "level",
					   levels[level], "logger", PRODUCT,
					   "data",
					   json_lossy(text, strlen(text)))),
		false);
}

bool mcp_ask(struct mcp_call *c, const char *method, json_t *params,
	     mcp_ask_fn *done)
{
	struct mcp_session *s = c->session;
	json_int_t id = (json_int_t)++s->n_asks;
	struct ask *q;

	if (!mcp_stream_tell(c->stream, rpc_request(id, method, params), true))
		return false;
	q = xcalloc(1, sizeof(*q));
	q->id = id;
	q->call = c;
	q->done = done;
	list_add(&s->asks, &q->node);
	return true;
}

void mcp_answered(struct mcp_session *s, const json_t *id, const json_t *result,
		  const json_t *error)
{
	struct list *n, *next;

	list_each (n, next, &s->asks) {
		struct ask *q = container_of(n, struct ask, node);
		struct mcp_call *c = q->call;
		mcp_ask_fn *done = q->done;

		if (!json_is_integer(id) || json_integer_value(id) != q->id)
			continue;
		ask_drop(q);
		done(c, result, error);
		return;
	}
}

/* --- the methods --- */

static const char instructions[] =
	"You have a Linux machine of your own: a sandbox that is made when you "
	"first use it. Run commands, read and write files, and take snapshots "
	"before what you may want to undo. What is in it stays until the "
	"session ends. The network is closed but for what is allowed: "
	"use request_access to ask for more.";

static json_t *capabilities(const struct api *a)
{
	json_t *j = json_pack("{s:{s:b}, s:{s:b, s:b}, s:{}}", "tools",
			      "listChanged", 0, "resources", "subscribe",
			      (int)a->conf.mcp_fixture, "listChanged", 0,
			      "logging");

	if (a->conf.mcp_fixture) {
		json_object_set_new(j, "prompts", json_object());
		json_object_set_new(j, "completions", json_object());
	}
	return j;
}

static void take_client(struct mcp_session *s, const json_t *params)
{
	const json_t *can = json_object_get(params, "capabilities");
	const json_t *info = json_object_get(params, "clientInfo");
	const char *name = json_string_value(json_object_get(info, "name"));
	size_t i, n = name ? strlen(name) : 0;

	s->can_sample = json_object_get(can, "sampling");
	s->can_elicit = json_object_get(can, "elicitation");
	if (n >= sizeof(s->client))
		n = utf8_whole(name, sizeof(s->client) - 1);
	/* It becomes a label, which has no control bytes. */
	for (i = 0; i < n; i++)
		s->client[i] = iscntrl((unsigned char)name[i]) ? '?' : name[i];
	s->client[n] = '\0';
}

json_t *mcp_initialize(struct mcp_session *s, const json_t *params)
{
	const json_t *v = json_object_get(params, "protocolVersion");
	int known =
		json_is_string(v) ? mcp_version_of(json_string_value(v)) : -1;

	s->version = known >= 0 ? (enum mcp_version)known : MCP_VERSIONS - 1;
	take_client(s, params);
	return json_pack("{s:s, s:o, s:{s:s, s:s, s:s}, s:s}",
			 "protocolVersion", mcp_version_text(s->version),
			 "capabilities", capabilities(s->api), "serverInfo",
			 "name", PRODUCT, "title", PRODUCT_NAME, "version",
			 PRODUCT_VERSION, "instructions", instructions);
}

static void ping(struct mcp_call *c, const json_t *params)
{
	(void)params;
	mcp_reply(c, json_object());
}

static void set_level(struct mcp_call *c, const json_t *params)
{
	const json_t *v = json_object_get(params, "level");
	int level = json_is_string(v) ? level_of(json_string_value(v)) : -1;

	if (level < 0) {
		mcp_fail(c, RPC_BAD_PARAMS,
			 "'level' is one of debug, info, notice, warning, "
			 "error, critical, alert and emergency");
		return;
	}
	c->session->log_level = (unsigned)level;
	mcp_reply(c, json_object());
}

static const struct mcp_method methods[] = {
	{ "ping", ping },
	{ "logging/setLevel", set_level },
	{ "tools/list", mcp_tools_list },
	{ "tools/call", mcp_tools_call },
	{ "resources/list", mcp_resources_list },
	{ "resources/templates/list", mcp_resources_templates },
	{ "resources/read", mcp_resources_read },
	{ 0 },
};

static const struct mcp_method *find_in(const struct mcp_method *table,
					const char *name)
{
	for (; table->name; table++)
		if (strcmp(table->name, name) == 0)
			return table;
	return NULL;
}

static const struct mcp_method *find(const struct api *a, const char *name)
{
	const struct mcp_method *m = NULL;

	if (a->conf.mcp_fixture)
		m = find_in(mcp_fixture_methods, name);
	return m ? m : find_in(methods, name);
}

static bool is_under_way(const struct mcp_session *s, const json_t *id,
			 struct mcp_call **which)
{
	struct list *n, *next;

	list_each (n, next, (struct list *)&s->calls) {
		*which = container_of(n, struct mcp_call, node);
		if (json_equal((*which)->id, id))
			return true;
	}
	return false;
}

void mcp_start(struct mcp_stream *st, json_t *id, const char *method,
	       json_t *params)
{
	struct mcp_session *s = st->session;
	struct mcp_call *other, *c;
	bool twice = is_under_way(s, id, &other);
	const struct mcp_method *m = find(s->api, method);

	c = call_new(st, id, params);
	if (twice) {
		mcp_fail(c, RPC_BAD_REQUEST,
			 "a request with this id is under way");
		return;
	}
	if (s->n_calls > MCP_CALLS_MAX) {
		mcp_fail(c, RPC_REFUSED,
			 "too many requests at once: wait for some to end");
		return;
	}
	/* It is kept, and is in all that is told. */
	if (json_string_length(c->progress_token) > RPC_ID_MAX)
		mcp_fail(c, RPC_BAD_PARAMS,
			 "'progressToken' has more than 256 bytes");
	else if (m)
		m->fn(c, params);
	else
		mcp_fail(c, RPC_NO_METHOD, "there is no such method");
}

void mcp_notified(struct mcp_session *s, const char *method,
		  const json_t *params)
{
	const json_t *id = json_object_get(params, "requestId");
	struct mcp_call *c;

	if (strcmp(method, "notifications/cancelled") != 0 || !id ||
	    !is_under_way(s, id, &c))
		return;
	mcp_box_forget(c);
	if (c->stop)
		c->stop(c);
	/* The HTTP request has to be answered with something. */
	mcp_fail(c, RPC_CANCELLED, "cancelled");
}
