/*
 * Requests about requests that wait. A decision is in the log, on disk, before
 * it takes effect; then a grant, if it is one, is written down and the door
 * hears of both.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/access.h"
#include "api/api.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/clock.h"
#include "http/target.h"

enum { APPROVAL_FOR_MAX_S = 366 * 24 * 3600 };

/* --- shown --- */

static void h_list(struct api *a, struct http_conn *c, const struct call *call)
{
	json_t *list = json_array();
	struct list *n, *next;

	list_each (n, next, &a->approvals.all) {
		struct approval *p = container_of(n, struct approval, node);

		if (who_sees(&call->who, p->project) && !p->deciding &&
		    !p->denied)
			json_array_append_new(list, approval_json(a, p));
	}
	reply_json(a, c, 200, json_pack("{s:o}", "approvals", list));
}

/* --- decided --- */

struct decision_work {
	struct api *api;
	struct http_conn *conn; /* NULL: the client has left */
	struct identity who;
	uint64_t number;
	bool allow, host; /* all of this host, for a time or for good */
	uint64_t for_ms;  /* 0: for good */
	struct audit_wait wait;
	struct deferred gone;
};

static void work_free(struct deferred *d)
{
	free(container_of(d, struct decision_work, gone));
}

static void work_end(struct decision_work *w)
{
	loop_defer(&w->api->loop, &w->gone, work_free);
}

/* Nothing is decided yet. */
static void work_left(struct http_conn *c, void *owner)
{
	(void)c;
	work_end(owner);
}

/* It is in the log: it will be done, whoever hears of it. */
static void work_alone(struct http_conn *c, void *owner)
{
	struct decision_work *w = owner;

	(void)c;
	w->conn = NULL;
}

static void refuse(struct decision_work *w, const struct err *e)
{
	if (w->conn)
		reply_err(w->api, w->conn, e);
	work_end(w);
}

static struct approval *find(struct decision_work *w, struct err *e)
{
	struct approval *p = approval_find(w->api, w->number);

	if (p && !p->denied && who_sees(&w->who, p->project))
		return p;
	err_set(e, ENOENT,
		"no request %llu waits for an approval: it was decided, or "
		"nobody waits for it any more",
		(unsigned long long)w->number);
	return NULL;
}

static int grant(struct decision_work *w, const struct approval *p,
		 struct err *e)
{
	struct sandbox *s = box_by_id(w->api, p->sandbox);
	AUTO(buf_done) struct buf rule = { 0 };
	int r;

	if (!s)
		return err_set(e, ENOENT, "sandbox %s has ended", p->sandbox);
	approval_rule(p, &rule);
	if (p->ahead &&
	    access_open(s, p, buf_str(&rule), &w->who,
			w->conn ? http_request_id(w->conn) : NULL, e) < 0)
		return -e->code;
	r = grant_add(s, buf_str(&rule),
		      w->for_ms ? clock_wall_ms() + w->for_ms : 0, w->who.name,
		      e);
	if (r == 0)
		(void)gate_box_up(s, NULL, NULL);
	return r;
}

static void on_logged(struct audit_wait *wait, const struct err *why)
{
	struct decision_work *w =
		container_of(wait, struct decision_work, wait);
	struct approval *p;
	struct err e = { 0 };
	bool waits;

	p = find(w, &e);
	if (!p) {
		refuse(w, &e);
		return;
	}
	if (why->code || (w->allow && w->host && grant(w, p, &e) < 0)) {
		p->deciding = false;
		refuse(w, why->code ? why : &e);
		return;
	}
	waits = approval_waits(p);
	approval_answer(w->api, p, w->allow, w->host);
	if (!waits && !w->host) {
		err_set(&e, ENOENT, "nobody waits for request %llu any more",
			(unsigned long long)w->number);
		refuse(w, &e);
		return;
	}
	if (w->conn)
		reply_empty(w->api, w->conn, 204);
	work_end(w);
}

static void decide(struct decision_work *w, struct approval *p)
{
	const struct sandbox *s = box_by_id(w->api, p->sandbox);
	json_t *data = approval_entry(w->api, p);
	const struct audit entry = {
		.type = w->allow ? "approval.allow" : "approval.deny",
		.box = s,
		.who = &w->who,
		.request_id = http_request_id(w->conn),
		.data = data,
	};

	/* Nothing waits that could pass once. */
	if (p->ahead && w->allow && !w->host) {
		w->host = true;
		w->for_ms = ACCESS_GRANT_MS;
	}
	if (w->allow)
		json_object_set_new(
			data, "for",
			!w->host ? json_string("once")
			: w->for_ms
				? json_integer((json_int_t)(w->for_ms / 1000))
				: json_string("always"));
	p->deciding = true;
	http_own(w->conn, w, work_alone);
	audit_add_durable(w->api, &entry, &w->wait, on_logged);
}

static int take_time(struct decision_work *w, const json_t *v, struct err *e)
{
	const char *s = json_string_value(v);
	int r = 0;

	if (!v)
		return 0;
	w->host = true;
	if (json_is_integer(v) && json_integer_value(v) > 0 &&
	    json_integer_value(v) <= APPROVAL_FOR_MAX_S)
		w->for_ms = (uint64_t)json_integer_value(v) * 1000;
	else if (s && strcmp(s, "always") == 0)
		w->for_ms = 0;
	else
		r = !s || parse_duration(s, &w->for_ms) < 0 || w->for_ms == 0 ||
		    w->for_ms > APPROVAL_FOR_MAX_S * UINT64_C(1000);
	if (r)
		return err_set(e, EINVAL,
			       "for: not seconds, \"1h\" or \"always\"");
	return w->allow ? 0
			: err_set(e, EINVAL,
				  "for: a denial is of one request: change the "
				  "policy to deny more");
}

static int take_body(struct decision_work *w, const char *body, size_t n,
		     struct err *e)
{
	json_t *j = parse_body(body, n, e), *time = NULL;
	json_error_t why;
	int allow = 0, r;

	if (!j)
		return -e->code;
	r = json_unpack_ex(j, &why, JSON_STRICT, "{s:b, s?:o}", "allow", &allow,
			   "for", &time);
	w->allow = allow;
	if (r < 0)
		r = err_set(e, EINVAL, "%.150s", why.text);
	else
		r = take_time(w, time, e);
	json_decref(j);
	return r;
}

static void on_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	struct decision_work *w = owner;
	struct approval *p = NULL;
	struct err e = { 0 };

	(void)c;
	if (take_body(w, body, n, &e) == 0)
		p = find(w, &e);
	if (p && p->deciding)
		err_set(&e, EBUSY, "somebody is deciding about it right now");
	else if (p && w->host && approval_of_budget(p))
		err_set(&e, EINVAL,
			"for: request %llu waits for a budget, which is "
			"approved for one request: raise it in the policy",
			(unsigned long long)w->number);
	if (!p || e.code)
		refuse(w, &e);
	else
		decide(w, p);
}

static void h_decide(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	struct decision_work *w = xcalloc(1, sizeof(*w));
	struct err e = { 0 };

	w->api = a;
	w->conn = c;
	w->who = call->who;
	if (parse_u64(call->arg[0], UINT64_MAX, &w->number) < 0) {
		err_set(&e, EINVAL, "'%.64s' is not a number", call->arg[0]);
		refuse(w, &e);
		return;
	}
	http_own(c, w, work_left);
	http_read_body(c, BODY_MAX, on_body);
}

const struct route approval_routes[] = {
	{ "GET", "/v1/approvals", h_list, SCOPE_READ, ROUTE_ALONE,
	  "List the requests that wait for a person", NULL, NULL,
	  "ApprovalList", 200 },
	{ "POST", "/v1/approvals/{number}", h_decide, SCOPE_APPROVE, 0,
	  "Let a request pass, or deny it", NULL, "ApprovalAnswer", NULL, 204 },
	{ "POST", "/v1/sandboxes/{id}/approvals", h_access, SCOPE_USE, 0,
	  "Ask for access to a host, ahead of any request to it", NULL,
	  "AccessAsk", "Access", 200 },
	{ 0 },
};
