/* POST, GET and DELETE /mcp. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "api/mcp/rpc.h"
#include "api/mcp/stream.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"

static const char events_type[] = "text/event-stream";
static const char plain_type[] = "application/json";

static bool accepts(const struct http_head *h, const char *type)
{
	const char *v = http_header(h, "Accept");

	return http_has_token(h, "Accept", type) || (v && strcasestr(v, type));
}

/* Clients that do not say take what most HTTP clients do. */
static bool accepts_anything(const struct http_head *h)
{
	const char *v = http_header(h, "Accept");

	return !v || strstr(v, "*/*");
}

/* Fields that all requests have; the answer is given if they are bad. */
static bool check_fields(struct api *a, struct http_conn *c)
{
	const struct http_head *h = http_request(c);
	const char *version = http_header(h, "MCP-Protocol-Version");

	if (!version || mcp_version_of(version) >= 0)
		return true;
	reply_error(a, c, 400, "bad_request",
		    "MCP-Protocol-Version: this version is not spoken here");
	return false;
}

/* The session that it names; NULL: it was answered. */
static struct mcp_session *session_of(struct api *a, struct http_conn *c,
				      const struct identity *who)
{
	const struct http_head *h = http_request(c);
	const char *id = http_header(h, "Mcp-Session-Id");
	const char *version = http_header(h, "MCP-Protocol-Version");
	struct mcp_session *s = NULL;

	/* The first version with sessions had no such field. */
	if (id)
		s = mcp_session_find(
			a, who, id,
			version ? (enum mcp_version)mcp_version_of(version)
				: MCP_2025_03_26);

	if (s)
		mcp_session_touch(s);
	else if (!id)
		reply_error(a, c, 400, "bad_request",
			    "Mcp-Session-Id is missing: begin with "
			    "'initialize'");
	else
		reply_error(a, c, 404, "not_found",
			    "no such session: begin again with 'initialize'");
	return s;
}

/* --- POST --- */

struct post {
	struct api *api;
	struct identity who;
	size_t bytes; /* that its body may have */
	struct share *share;
};

static void post_free(struct post *p)
{
	share_give(p->share, p->bytes);
	free(p);
}

static void post_gone(struct http_conn *c, void *owner)
{
	(void)c;
	post_free(owner);
}

static void refuse(struct post *p, struct http_conn *c, json_t *id, int code,
		   const char *msg)
{
	reply_json(p->api, c, 400, rpc_error(id, code, msg));
}

static void initialize(struct post *p, struct http_conn *c,
		       const struct rpc_message *m)
{
	AUTO_FREE char *text = NULL;
	const struct sandbox *box = NULL;
	struct mcp_wishes wishes;
	struct mcp_session *s;
	struct err e = { 0 };
	json_t *answer;

	if (mcp_wishes_read(&wishes, http_request(c), &e) == 0 &&
	    *wishes.sandbox)
		box = box_find(p->api, &p->who, wishes.sandbox, &e);
	if (e.code) {
		refuse(p, c, m->id, RPC_BAD_PARAMS, e.msg);
		return;
	}
	s = mcp_session_new(p->api, &p->who, &wishes, &e);
	if (!s) {
		reply_err(p->api, c, &e);
		return;
	}
	if (box)
		mcp_set_box(s, box->id);
	answer = rpc_result(m->id, mcp_initialize(s, m->params));
	text = json_dumps(answer, JSON_COMPACT);
	json_decref(answer);
	reply_text(p->api, c, 200,
		   (const struct http_field[]){ { "Mcp-Session-Id", s->id },
						{ NULL, NULL } },
		   text ? text : "{}");
}

static bool has_requests(const struct rpc_batch *b)
{
	size_t i;

	for (i = 0; i < b->n; i++)
		if (b->msg[i].kind == RPC_REQUEST)
			return true;
	return false;
}

static void take(struct mcp_session *s, struct mcp_stream *st,
		 const struct rpc_message *m)
{
	switch (m->kind) {
	case RPC_REQUEST:
		mcp_start(st, m->id, m->method, m->params);
		break;
	case RPC_NOTIFICATION:
		mcp_notified(s, m->method, m->params);
		break;
	case RPC_ANSWER:
		mcp_answered(s, m->id, m->result, m->error);
		break;
	}
}

static void take_all(struct post *p, struct http_conn *c, struct mcp_session *s,
		     const struct rpc_batch *b)
{
	struct mcp_stream *st = NULL;
	size_t i;

	if (has_requests(b)) {
		st = mcp_stream_new(s, c, accepts(http_request(c), events_type),
				    b->is_batch);
		mcp_stream_charge(st, b->size);
		mcp_stream_hold(st);
	}
	for (i = 0; i < b->n; i++)
		take(s, st, &b->msg[i]);
	if (st)
		mcp_stream_release(st);
	else
		reply_empty(p->api, c, 202);
}

static void dispatch(struct post *p, struct http_conn *c,
		     const struct rpc_batch *b)
{
	const struct rpc_message *first = &b->msg[0];
	struct mcp_session *s;

	if (!b->is_batch && first->kind == RPC_REQUEST &&
	    strcmp(first->method, "initialize") == 0) {
		initialize(p, c, first);
		return;
	}
	s = session_of(p->api, c, &p->who);
	if (!s)
		return;
	if (b->is_batch && s->version != MCP_2025_03_26)
		refuse(p, c, NULL, RPC_BAD_REQUEST,
		       "this version of the protocol has no batches");
	else if (!mcp_stream_fits(s, b->size))
		reply_error(p->api, c, 503, "try_again",
			    "too much is under way: wait for some to end");
	else
		take_all(p, c, s, b);
}

static void on_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	AUTO(rpc_batch_done) struct rpc_batch b = { 0 };
	struct post *p = owner;
	struct err e = { 0 };
	int r;

	http_own(c, NULL, NULL);
	r = rpc_parse(&b, body, n, &e);
	if (r < 0)
		refuse(p, c, NULL, r, e.msg);
	else
		dispatch(p, c, &b);
	post_free(p);
}

static bool is_json(const struct http_head *h)
{
	const char *v = http_header(h, "Content-Type");
	size_t n = sizeof(plain_type) - 1;

	return v && strncasecmp(v, plain_type, n) == 0 &&
	       (v[n] == '\0' || strchr("; \t", v[n]));
}

static void h_post(struct api *a, struct http_conn *c, const struct call *call)
{
	const struct http_head *h = http_request(c);
	size_t bytes = h->body == HTTP_LENGTH && h->length < MCP_MESSAGE_MAX
			       ? (size_t)h->length
			       : MCP_MESSAGE_MAX;
	struct err e = { 0 };
	struct share *share;
	struct post *p;

	if (!check_fields(a, c))
		return;
	if (!is_json(h)) {
		reply_error(a, c, 415, "bad_request",
			    "Content-Type is not application/json");
		return;
	}
	if (!accepts(h, plain_type) && !accepts(h, events_type) &&
	    !accepts_anything(h)) {
		reply_error(a, c, 406, "bad_request",
			    "answers are application/json or "
			    "text/event-stream: accept both");
		return;
	}
	share = share_take(&a->pools.bodies, call->who.project, bytes, &e);
	if (!share) {
		reply_err(a, c, &e);
		return;
	}
	p = xcalloc(1, sizeof(*p));
	p->api = a;
	p->who = call->who;
	p->bytes = bytes;
	p->share = share;
	http_own(c, p, post_gone);
	http_read_body(c, MCP_MESSAGE_MAX, on_body);
}

/* --- GET and DELETE --- */

static void h_get(struct api *a, struct http_conn *c, const struct call *call)
{
	const struct http_head *h = http_request(c);
	const char *last = http_header(h, "Last-Event-ID");
	struct mcp_session *s;
	struct err e = { 0 };

	if (!check_fields(a, c))
		return;
	if (!accepts(h, events_type)) {
		reply_error(a, c, 406, "bad_request",
			    "the answer is text/event-stream: accept it");
		return;
	}
	s = session_of(a, c, &call->who);
	if (!s)
		return;
	if (!last)
		mcp_stream_listen(s, c);
	else if (mcp_stream_resume(s, c, last, &e) < 0)
		reply_err(a, c, &e);
}

static void h_delete(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	struct mcp_session *s;

	if (!check_fields(a, c))
		return;
	s = session_of(a, c, &call->who);
	if (s)
		mcp_session_end(s, c);
}

#define ROW(method, fn, summary, status)                    \
	{ method,  "/mcp", fn,   SCOPE_READ, ROUTE_FOREIGN, \
	  summary, NULL,   NULL, NULL,       status }
const struct route mcp_routes[] = {
	ROW("POST", h_post, "Messages of MCP", 200),
	ROW("GET", h_get, "Events of a session of MCP", 200),
	ROW("DELETE", h_delete, "End a session of MCP", 204),
	{ 0 },
};
