#include "api/routes.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/auth.h"
#include "api/auto_snapshot.h"
#include "api/e2b/e2b.h"
#include "api/hosts.h"
#include "api/reply.h"
#include "api/wake.h"
#include "base/auto.h"

/* A line each, for those who add one. */
/* clang-format off */
const struct route *const all_routes[] = {
	state_routes,
	merge_routes,
	host_routes,
	show_routes,
	sandbox_routes,
	process_routes,
	file_routes,
	port_routes,
	event_routes,
	image_routes,
	key_routes,
	usage_routes,
	snapshot_routes,
	restart_routes,
	move_routes,
	pause_routes,
	drive_routes,
	volume_routes,
	stray_routes,
	secret_routes,
	approval_routes,
	grant_routes,
	policy_routes,
	e2b_sandbox_routes,
	e2b_list_routes,
	e2b_life_routes,
	e2b_snapshot_routes,
	e2b_fork_routes,
	e2b_metrics_routes,
	e2b_logs_routes,
	e2b_network_routes,
	e2b_secret_routes,
	mcp_routes,
	e2b_build_routes,
	e2b_template_routes,
	e2b_volume_routes,
	e2b_volume_content_routes,
	NULL,
};
/* clang-format on */

/* One "{x}" of a pattern: a whole segment, not empty. */
static bool take_segment(const char **pattern, const char **path,
			 struct call *call, unsigned *n_args)
{
	size_t n = strcspn(*path, "/");
	char *arg;

	if (n == 0 || n >= CALL_ARG_CAP || *n_args == CALL_ARGS)
		return false;
	arg = call->arg[*n_args];
	memcpy(arg, *path, n);
	arg[n] = '\0';
	++*n_args;
	*path += n;
	*pattern = strchr(*pattern, '}') + 1;
	return true;
}

static bool match(const char *pattern, const char *path, struct call *call)
{
	unsigned n_args = 0;

	while (*pattern) {
		if (*pattern == '*') {
			call->rest = path;
			return true;
		}
		if (*pattern == '{') {
			if (!take_segment(&pattern, &path, call, &n_args))
				return false;
		} else if (*pattern++ != *path++) {
			return false;
		}
	}
	return *path == '\0';
}

/*
 * The row for this path and method; NULL with the methods that the path takes
 * in `allow`, "" when nobody knows it.
 */
static const struct route *find(const struct http_head *h, struct call *call,
				char *allow, size_t cap)
{
	const struct route *const *t, *r;
	size_t n;

	*allow = '\0';
	for (t = all_routes; *t; t++)
		for (r = *t; r->method; r++) {
			if (!match(r->path, h->path, call))
				continue;
			if (strcmp(r->method, h->method) == 0 ||
			    strcmp(r->method, "*") == 0)
				return r;
			n = strlen(allow);
			snprintf(allow + n, cap - n, "%s%s", n ? ", " : "",
				 r->method);
		}
	return NULL;
}

static void unknown(struct api *a, struct http_conn *c, const char *allow)
{
	char msg[128];

	if (*allow) {
		snprintf(msg, sizeof(msg), "this path takes %s", allow);
		reply_error(a, c, 405, "method_not_allowed", msg);
	} else {
		reply_error(a, c, 404, "not_found", "no such path");
	}
}

/* The sandbox it is about, or NULL; the handler looks for itself. */
static struct sandbox *box_of(struct api *a, const struct call *call)
{
	struct err e = { 0 };

	if (!str_starts(call->route->path, "/v1/sandboxes/{"))
		return NULL;
	return box_find(a, &call->who, call->arg[0], &e);
}

/* May it go to its handler? */
static int check(struct api *a, struct http_conn *c, struct call *call,
		 struct err *e)
{
	const struct route *r = call->route;
	int rc = auth_check(a, c, r, &call->who, e);
	struct sandbox *box;

	audit_call(c, call);
	if (rc < 0)
		return rc;
	box = box_of(a, call);
	if (box)
		audit_call_box(c, box);
	if (a->pool_id.held && !(r->flags & ROUTE_ALONE))
		return err_set(e, ERR_HELD, "%s", a->pool_id.why.msg);
	if (!a->reconciled && !(r->flags & ROUTE_ALONE))
		return warden_explain(&a->warden, e);
	if (r->scope == SCOPE_READ || r->flags & ROUTE_UNLOGGED)
		return 0;
	return r->flags & ROUTE_ANYWAY ? audit_writable(a, e)
				       : audit_ready(a, e);
}

/* Its handler's, when the sandbox is awake and what it was is kept. */
static void hand_over(struct api *a, struct http_conn *c,
		      const struct call *call)
{
	struct sandbox *s = NULL;

	if (call->route->flags & ROUTE_WAKE)
		s = box_of(a, call);
	if (!s ||
	    (!wake_hold(a, c, call, s) && !auto_snapshot_hold(a, c, call, s)))
		call->route->fn(a, c, call);
}

void route(struct http_conn *c, void *ctx)
{
	struct api *a = ctx;
	struct call call = { 0 };
	struct err e = { 0 };
	char allow[64];

	if (!hosts_check(a, c) || e2b_by_sandbox(a, c) || port_by_host(a, c))
		return;
	call.route = find(http_request(c), &call, allow, sizeof(allow));
	if (!call.route) {
		unknown(a, c, allow);
		return;
	}
	if (check(a, c, &call, &e) < 0)
		reply_err(a, c, &e);
	else
		fair_run(a, c, &call, hand_over);
}
