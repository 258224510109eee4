/*
 * PATCH /v1/sandboxes/{id}: what may change while a sandbox lives. Its limits
 * are the warden's to change; the rest is ours. The change is applied to the
 * spec as it is at the end, so that two of them at once add up.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/audit.h"
#include "api/box_json.h"
#include "api/reply.h"
#include "api/routes.h"
#include "api/secrets.h"
#include "api/tiers.h"
#include "base/auto.h"

struct update {
	struct api *api;
	struct http_conn *conn;
	struct identity who;
	char ref[CALL_ARG_CAP];
	json_t *change;
	/* Secrets that it had before; those that came with it may end now. */
	json_t *before;
	char project[NAME_CAP];
	struct warden_call call;
	struct gate_up door;
};

static void update_free(struct update *u)
{
	own_secrets_unused(u->api, u->project, u->before);
	json_decref(u->before);
	json_decref(u->change);
	free(u);
}

static void update_gone(struct http_conn *c, void *owner)
{
	struct update *u = owner;

	(void)c;
	warden_cancel(&u->call);
	gate_up_cancel(&u->door);
	update_free(u);
}

static void failed(struct update *u, const struct err *e)
{
	reply_err(u->api, u->conn, e);
	update_free(u);
}

static void note(struct update *u, const struct sandbox *s)
{
	audit_add(u->api, &(struct audit){
				  .type = "sandbox.update",
				  .box = s,
				  .who = &u->who,
				  .request_id = http_request_id(u->conn),
				  .data = json_incref(u->change),
			  });
}

static void answer(struct update *u)
{
	struct err e = { 0 };
	struct sandbox *s = box_find(u->api, &u->who, u->ref, &e);

	if (!s) {
		failed(u, &e);
		return;
	}
	reply_box(u->api, u->conn, s);
	update_free(u);
}

static void on_door(struct gate_up *d, const struct err *e)
{
	struct update *u = container_of(d, struct update, door);

	if (e)
		failed(u, e);
	else
		answer(u);
}

/* What it says about the way out is in force before the answer. */
static bool is_about_door(const json_t *change)
{
	static const char *const keys[] = {
		"policy", "allow", "rules", "late-rules", "secrets", "observe"
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(keys); i++)
		if (json_object_get(change, keys[i]))
			return true;
	return false;
}

static void apply(struct update *u)
{
	struct err e = { 0 };
	struct sandbox *s = box_find(u->api, &u->who, u->ref, &e);
	struct spec spec;

	if (!s) {
		failed(u, &e);
		return;
	}
	spec_copy(&spec, &s->spec);
	if (spec_patch(&spec, u->change, &e) < 0) {
		spec_done(&spec);
		failed(u, &e);
		return;
	}
	u->before = json_incref(s->spec.secrets);
	memcpy(u->project, s->project, sizeof(u->project));
	box_respec(s, &spec);
	if (json_object_get(u->change, "timeout") ||
	    json_object_get(u->change, "timeout-action"))
		lifetime_changed(s, json_object_get(u->change, "timeout"));
	meter_plan(s);
	if (s->told && box_save(s, &e) < 0) {
		failed(u, &e);
		return;
	}
	note(u, s);
	if (!is_about_door(u->change) || s->state == BOX_SUSPENDED ||
	    gate_box_up(s, &u->door, on_door) == 1)
		answer(u);
}

static void on_resized(struct warden_call *c, const struct warden_rep *rep,
		       int fds[FD_PASS_MAX])
{
	struct update *u = container_of(c, struct update, call);

	(void)fds;
	if (rep->err.code)
		failed(u, &rep->err);
	else
		apply(u);
}

static bool same_limits(const struct spec *a, const struct spec *b)
{
	return a->cpus_milli == b->cpus_milli && a->mem_bytes == b->mem_bytes &&
	       a->pids == b->pids;
}

static void ask_resize(struct update *u, const struct sandbox *s,
		       const struct spec *to)
{
	struct resize_spec *r = &u->call.req.resize;

	warden_req_id(&u->call, WARDEN_RESIZE, s->id);
	r->pids = (uint32_t)to->pids;
	r->cpus_milli = to->cpus_milli;
	r->mem_bytes = to->mem_bytes;
	warden_ask(&u->api->warden, &u->call, on_resized);
}

/* 1: the warden was asked; 0: nothing is in the way. */
static int begin(struct update *u, struct err *e)
{
	struct sandbox *s = box_find(u->api, &u->who, u->ref, e);
	AUTO(spec_done) struct spec spec = { 0 };

	if (!s)
		return -e->code;
	if (s->state != BOX_RUNNING && s->state != BOX_PAUSED &&
	    s->state != BOX_SUSPENDED)
		return err_set(e, EBUSY, "sandbox %s is %s", s->id,
			       box_state_name(s->state));
	if (s->restart.move)
		return err_set(e, EBUSY, "sandbox %s is being moved: try again",
			       s->id);
	spec_copy(&spec, &s->spec);
	if (spec_patch(&spec, u->change, e) < 0 ||
	    secrets_allow(u->api, s->project, &spec, e) < 0 ||
	    rules_may_say(&u->who, u->change, e) < 0 ||
	    policies_allow(u->api, s->project, &spec, e) < 0 ||
	    tiers_allow(u->api, s->project, &spec, e) < 0)
		return -e->code;
	if (s->state == BOX_SUSPENDED) /* its next life is launched with it */
		return 0;
	if (same_limits(&s->spec, &spec))
		return 0;
	if (spec_is_vm(&s->spec))
		return err_set(
			e, ENOTSUP,
			"the limits of a sandbox of tier microvm are its "
			"machine's: make another one with these");
	ask_resize(u, s, &spec);
	return 1;
}

static void update_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	struct update *u = owner;
	struct err e = { 0 };
	int r;

	(void)c;
	u->change = parse_body(body, n, &e);
	r = u->change ? begin(u, &e) : -EINVAL;
	if (r < 0)
		failed(u, &e);
	else if (r == 0)
		apply(u);
}

void h_sandbox_update(struct api *a, struct http_conn *c,
		      const struct call *call)
{
	struct update *u = xcalloc(1, sizeof(*u));

	u->api = a;
	u->conn = c;
	u->who = call->who;
	memcpy(u->ref, call->arg[0], sizeof(u->ref));
	http_own(c, u, update_gone);
	http_read_body(c, BODY_MAX, update_body);
}
