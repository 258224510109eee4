/*
 * The sandbox of a session. It is made by the first call that needs one, with
 * a native request of the session's identity, and left in the way that was
 * wished for when the session ends.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/mcp/stream.h"
#include "api/reply.h"
#include "base/auto.h"

void mcp_box_init(struct mcp_session *s)
{
	list_init(&s->box.waiters);
}

static struct sandbox *find(struct mcp_session *s, const char *ref)
{
	struct err e = { 0 };

	return box_find(s->api, &s->who, ref, &e);
}

static void own(struct mcp_session *s, const char *id)
{
	if (s->box.n_ours < MCP_BOXES_MAX)
		memcpy(s->box.ours[s->box.n_ours++], id, ID_CAP);
}

/* Those that have ended make room. */
bool mcp_has_room(struct mcp_session *s)
{
	unsigned i, n = 0;

	for (i = 0; i < s->box.n_ours; i++)
		if (find(s, s->box.ours[i]))
			memmove(s->box.ours[n++], s->box.ours[i], ID_CAP);
	s->box.n_ours = n;
	return n < MCP_BOXES_MAX - MCP_CALLS_MAX;
}

static const char session_label[] = "mcp-session";
static const char keep_label[] = "mcp-keep";

/* Copies have the labels, too, but never the name. */
static void name_for(const char *session, char out[NAME_CAP])
{
	snprintf(out, NAME_CAP, "mcp-%.12s", session + 1);
}

static const char *label_of(const struct sandbox *box, const char *name)
{
	const char *v =
		json_string_value(json_object_get(box->spec.labels, name));

	return v ? v : "";
}

void mcp_boxes_find(struct api *a)
{
	char name[NAME_CAP];
	struct list *n, *next;

	list_each (n, next, &a->boxes.all) {
		const struct sandbox *box =
			container_of(n, struct sandbox, all);
		const char *session = label_of(box, session_label);

		if (!box_visible(box) || !id_valid(session))
			continue;
		name_for(session, name);
		if (strcmp(box->spec.name, name) == 0)
			mcp_found_box(a, box, session);
	}
}

void mcp_box_adopt(struct mcp_session *s, const struct sandbox *box)
{
	/* What cannot be read is nothing to be removed for. */
	if (mcp_keep_of(label_of(box, keep_label), &s->wishes.keep) < 0)
		s->wishes.keep = MCP_KEEP;
	own(s, box->id);
	memcpy(s->box.id, box->id, ID_CAP);
}

const char *mcp_box(const struct mcp_session *s)
{
	return *s->box.id ? s->box.id : NULL;
}

static bool is_ours(const struct mcp_session *s, const char *id)
{
	unsigned i;

	for (i = 0; i < s->box.n_ours; i++)
		if (strcmp(s->box.ours[i], id) == 0)
			return true;
	return false;
}

void mcp_set_box(struct mcp_session *s, const char *id)
{
	if (id_valid(id))
		memcpy(s->box.id, id, ID_CAP);
}

void mcp_copied_box(struct mcp_session *s, const char *of, const char *id)
{
	if (id_valid(id) && is_ours(s, of))
		own(s, id);
}

/* --- those who wait for it --- */

static struct mcp_call *next_waiter(struct mcp_session *s)
{
	struct mcp_call *c;

	if (list_empty(&s->box.waiters))
		return NULL;
	c = container_of(s->box.waiters.next, struct mcp_call, waiting);
	mcp_box_forget(c);
	return c;
}

void mcp_box_forget(struct mcp_call *c)
{
	list_del(&c->waiting);
}

static void fail(struct mcp_call *c, const char *why)
{
	if (c->stop)
		c->stop(c);
	mcp_error(c, "%s", why);
}

/* `then` may end the session, or cancel those who wait: one at a time, and
 * the rest in the next turn. */
static void on_ready(struct timer *t)
{
	struct mcp_session *s = container_of(t, struct mcp_session, box.ready);
	struct mcp_call *c = next_waiter(s);

	if (!c)
		return;
	timer_set(&s->api->loop, t, 0, on_ready);
	c->then(c, s->box.id);
}

static void on_made(struct inner_ask *q, int status, json_t *answer)
{
	struct mcp_session *s = container_of(q, struct mcp_session, box.ask);
	const char *id = json_string_value(json_object_get(answer, "id"));
	struct mcp_call *c;
	char why[300];

	s->box.making = false;
	if (status == 201 && id && id_valid(id)) {
		memcpy(s->box.id, id, ID_CAP);
		own(s, id);
		timer_set(&s->api->loop, &s->box.ready, 0, on_ready);
		return;
	}
	snprintf(why, sizeof(why), "no sandbox could be made: %s",
		 inner_message(status, answer));
	while ((c = next_waiter(s)))
		fail(c, why);
}

/* One that is idle is paused, and woken by the next call. */
static json_t *new_spec(const struct mcp_session *s)
{
	const struct mcp_wishes *w = &s->wishes;
	uint64_t pause_s = s->api->conf.mcp_pause_ms / 1000;
	char name[NAME_CAP];
	json_t *spec =
		json_pack("{s:{s:s, s:s, s:s}}", "labels", "mcp",
			  *s->client ? s->client : "client", session_label,
			  s->id, keep_label, mcp_keep_text(w->keep));

	name_for(s->id, name);
	/* If one is kept it has the name: the next does without. */
	if (!box_by_name(s->api, who_project(&s->who), name))
		json_object_set_new(spec, "name", json_string(name));
	if (*w->image)
		json_object_set_new(spec, "image", json_string(w->image));
	if (*w->policy)
		json_object_set_new(spec, "policy", json_string(w->policy));
	if (pause_s > 0) {
		json_object_set_new(spec, "idle-timeout",
				    json_integer((json_int_t)pause_s));
		json_object_set_new(spec, "idle-action", json_string("pause"));
	}
	return spec;
}

static int make(struct mcp_call *c, struct err *e)
{
	struct mcp_session *s = c->session;

	if (!mcp_has_room(s))
		return err_set(
			e, EUSERS,
			"this session has made too many sandboxes: go on "
			"in one of them with switch_sandbox");
	if (inner_ask(&s->box.ask,
		      &(struct inner_json){ s->api, &s->who, c->request_id,
					    "POST", "/v1/sandboxes",
					    new_spec(s), on_made },
		      e) < 0)
		return -e->code;
	s->box.making = true;
	return 0;
}

/* 0 when there is one or will be. */
static int have(struct mcp_call *c, struct err *e)
{
	struct mcp_session *s = c->session;
	struct sandbox *box;

	if (s->box.making)
		return 0;
	if (*s->box.id && find(s, s->box.id))
		return 0;
	if (*s->box.id) {
		err_set(e, ENOENT,
			"the sandbox %s of this session has ended, and what "
			"was in it is gone%s",
			s->box.id,
			*s->wishes.sandbox ? ""
					   : ": the next call gets a new one");
		*s->box.id = '\0';
		return -e->code;
	}
	if (!*s->wishes.sandbox)
		return make(c, e);
	box = box_find(s->api, &s->who, s->wishes.sandbox, e);
	if (!box)
		return -e->code;
	memcpy(s->box.id, box->id, ID_CAP);
	return 0;
}

void mcp_with_box(struct mcp_call *c,
		  void (*then)(struct mcp_call *c, const char *box))
{
	struct mcp_session *s = c->session;
	struct err e = { 0 };

	if (have(c, &e) < 0) {
		fail(c, e.msg);
		return;
	}
	c->then = then;
	list_add(&s->box.waiters, &c->waiting);
	if (!s->box.making)
		timer_set(&s->api->loop, &s->box.ready, 0, on_ready);
}

/* --- the end --- */

struct parting {
	struct inner_ask ask;
	char box[ID_CAP];
	struct partings *all;
};

/* Of one session; outlives it. */
struct partings {
	struct api *api;
	struct http_conn *conn; /* waits for all, or NULL */
	unsigned left;
	struct deferred bury;
	struct parting each[MCP_BOXES_MAX];
};

static void bury(struct deferred *d)
{
	free(container_of(d, struct partings, bury));
}

static void conn_gone(struct http_conn *c, void *owner)
{
	struct partings *p = owner;

	(void)c;
	p->conn = NULL;
}

static void parted(struct partings *p)
{
	if (--p->left > 0)
		return;
	if (p->conn)
		reply_empty(p->api, p->conn, 204);
	loop_defer(&p->api->loop, &p->bury, bury);
}

static void on_parted(struct inner_ask *q, int status, json_t *answer)
{
	struct parting *one = container_of(q, struct parting, ask);

	if (status >= 400 && status != 404 && status != 410)
		log_warn("sandbox=%s its MCP session ended, it stays: %s",
			 one->box, inner_message(status, answer));
	parted(one->all);
}

static void part(struct parting *one, const struct mcp_session *s)
{
	bool pause = s->wishes.keep == MCP_PAUSE;
	char target[96], request_id[HTTP_REQUEST_ID];
	struct err e = { 0 };

	/* A request of nobody's: the session may end by itself. */
	snprintf(request_id, sizeof(request_id), "%.16s", s->id + 1);
	snprintf(target, sizeof(target), "/v1/sandboxes/%s%s", one->box,
		 pause ? "/pause" : "");
	if (inner_ask(&one->ask,
		      &(struct inner_json){ s->api, &s->who, request_id,
					    pause ? "POST" : "DELETE", target,
					    NULL, on_parted },
		      &e) < 0) {
		log_warn("sandbox=%s its MCP session ended, it stays: %s",
			 one->box, e.msg);
		parted(one->all);
	}
}

void mcp_box_leave(struct mcp_session *s, struct http_conn *c)
{
	struct partings *p;
	unsigned i;

	timer_del(&s->api->loop, &s->box.ready);
	if (s->box.making)
		inner_ask_close(&s->box.ask);
	p = xcalloc(1, sizeof(*p));
	p->api = s->api;
	p->conn = c;
	if (c)
		http_own(c, p, conn_gone);
	p->left = 1;
	for (i = 0; s->wishes.keep != MCP_KEEP && i < s->box.n_ours; i++) {
		struct parting *one = &p->each[i];

		p->left++;
		one->all = p;
		memcpy(one->box, s->box.ours[i], ID_CAP);
		part(one, s);
	}
	parted(p);
}
