/* Requests about grants: list and withdraw them. */
#include <errno.h>
#include <stdlib.h>

#include "api/api.h"
#include "api/gate.h"
#include "api/grants.h"
#include "api/reply.h"
#include "api/routes.h"

static void h_list(struct api *a, struct http_conn *c, const struct call *call)
{
	reply_json(a, c, 200,
		   json_pack("{s:o}", "grants", grants_list(a, &call->who)));
}

/* --- withdrawn --- */

struct withdrawal {
	struct api *api;
	struct http_conn *conn;
	struct gate_up door;
	struct deferred gone;
};

static void withdrawal_free(struct deferred *d)
{
	free(container_of(d, struct withdrawal, gone));
}

static void withdrawal_left(struct http_conn *c, void *owner)
{
	struct withdrawal *w = owner;

	(void)c;
	gate_up_cancel(&w->door);
	loop_defer(&w->api->loop, &w->gone, withdrawal_free);
}

static void on_door(struct gate_up *d, const struct err *e)
{
	struct withdrawal *w = container_of(d, struct withdrawal, door);

	if (e)
		reply_err(w->api, w->conn, e);
	else
		reply_empty(w->api, w->conn, 204);
	loop_defer(&w->api->loop, &w->gone, withdrawal_free);
}

/* Replies after the gate has confirmed that the grant no longer applies. */
static void h_withdraw(struct api *a, struct http_conn *c,
		       const struct call *call)
{
	struct withdrawal *w;
	struct sandbox *s = NULL;
	struct err e = { 0 };
	uint64_t number;

	if (parse_u64(call->arg[0], UINT64_MAX, &number) < 0)
		err_set(&e, EINVAL, "'%.64s' is not a number", call->arg[0]);
	else
		s = grant_withdraw(a, &call->who, number, http_request_id(c),
				   &e);
	if (!s) {
		reply_err(a, c, &e);
		return;
	}
	if (!s->gate) {
		reply_empty(a, c, 204);
		return;
	}
	w = xcalloc(1, sizeof(*w));
	w->api = a;
	w->conn = c;
	http_own(c, w, withdrawal_left);
	(void)gate_box_up(s, &w->door, on_door);
}

const struct route grant_routes[] = {
	{ "GET", "/v1/grants", h_list, SCOPE_READ, ROUTE_ALONE, "List grants",
	  NULL, NULL, "GrantList", 200 },
	{ "DELETE", "/v1/grants/{number}", h_withdraw, SCOPE_APPROVE, 0,
	  "Withdraw a grant", NULL, NULL, NULL, 204 },
	{ 0 },
};
