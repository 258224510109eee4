/* Requests that pause sandboxes and resume them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/audit.h"
#include "api/box_json.h"
#include "api/reply.h"
#include "api/routes.h"

struct change {
	struct pause_waiter waiter;
	struct box_waiter suspended;
	char id[ID_CAP];
	struct api *api;
	struct http_conn *conn;
	struct call call;
	bool resume;
};

static void change_gone(struct http_conn *c, void *owner)
{
	struct change *ch = owner;

	(void)c;
	list_del(&ch->waiter.node);
	list_del(&ch->suspended.node);
	free(ch);
}

static void on_changed(struct pause_waiter *w, struct sandbox *s,
		       const struct err *e)
{
	struct change *ch = container_of(w, struct change, waiter);

	if (e->code)
		reply_err(ch->api, ch->conn, e);
	else
		reply_box(ch->api, ch->conn, s);
	free(ch);
}

static void on_suspended(struct box_waiter *w, const struct err *e)
{
	struct change *ch = container_of(w, struct change, suspended);
	struct sandbox *s = box_by_id(ch->api, ch->id);

	if (e->code || !s)
		reply_err(ch->api, ch->conn, e);
	else
		reply_box(ch->api, ch->conn, s);
	free(ch);
}

/* 1: it was so. 0: it will be. */
static int suspend(struct change *ch, struct sandbox *s, bool disk_only,
		   struct err *e)
{
	int r;

	if (s->state == BOX_SUSPENDED && !s->restart.busy)
		return 1;
	r = box_suspend(s, disk_only, &ch->suspended, e);
	if (r < 0)
		return r;
	memcpy(ch->id, s->id, ID_CAP);
	audit_add(ch->api,
		  &(struct audit){
			  .type = "sandbox.suspend",
			  .box = s,
			  .who = &ch->call.who,
			  .request_id = http_request_id(ch->conn),
			  .data = json_pack("{s:s}", "reason", "asked") });
	return 0;
}

static int take_body(const char *body, size_t n, bool resume, bool *disk_only,
		     struct err *e)
{
	json_t *j = parse_body(body, n, e);
	json_error_t why;
	int on = 0, r;

	if (!j)
		return -e->code;
	r = json_unpack_ex(j, &why, JSON_STRICT, resume ? "{}" : "{s?:b}",
			   "disk_only", &on);
	if (r < 0)
		r = err_set(e, EINVAL, "%.150s", why.text);
	json_decref(j);
	*disk_only = on;
	return r;
}

static void change_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	struct change *ch = owner;
	struct api *a = ch->api;
	struct err e = { 0 };
	struct sandbox *s = NULL;
	bool disk_only = false;

	if (take_body(body, n, ch->resume, &disk_only, &e) == 0)
		s = box_find(a, &ch->call.who, ch->call.arg[0], &e);
	/* What a microVM has in memory is kept on disk, and it goes on there.
	 */
	if (s && !ch->resume &&
	    (disk_only || (box_is_machine(s) && s->state != BOX_PAUSED)) &&
	    suspend(ch, s, disk_only, &e) == 0)
		return;
	if (e.code) {
		reply_err(a, c, &e);
		free(ch);
		return;
	}
	/* One that is suspended is paused, too. */
	pause_because(&ch->waiter.cause, "asked", &ch->call.who, c);
	if (ch->resume)
		box_wake(s, &ch->waiter);
	else
		box_pause(s, &ch->waiter);
}

static void change_start(struct api *a, struct http_conn *c,
			 const struct call *call, bool resume)
{
	struct change *ch = xcalloc(1, sizeof(*ch));

	ch->api = a;
	ch->conn = c;
	ch->call = *call;
	ch->resume = resume;
	ch->waiter.fn = on_changed;
	list_init(&ch->waiter.node);
	ch->suspended.fn = on_suspended;
	list_init(&ch->suspended.node);
	http_own(c, ch, change_gone);
	http_read_body(c, BODY_MAX, change_body);
}

static void h_pause(struct api *a, struct http_conn *c, const struct call *call)
{
	change_start(a, c, call, false);
}

static void h_resume(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	change_start(a, c, call, true);
}

const struct route pause_routes[] = {
	{ "POST", "/v1/sandboxes/{id}/pause", h_pause, SCOPE_USE, 0,
	  "Stop everything inside until it is resumed or used", NULL,
	  "PauseAsk", "Sandbox", 200 },
	{ "POST", "/v1/sandboxes/{id}/resume", h_resume, SCOPE_USE, 0,
	  "Let it go on", NULL, NULL, "Sandbox", 200 },
	{ 0 },
};
