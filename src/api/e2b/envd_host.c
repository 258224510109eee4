/* What a sandbox says about itself on port 49983. */
#include "api/api.h"
#include "api/e2b/e2b.h"
#include "api/reply.h"

/* They ask whether it runs: 502 is no. To ask does not wake it. */
static void envd_health(struct api *a, struct http_conn *c,
			const struct envd_call *call)
{
	const struct sandbox *s = call->box;

	if (s->state == BOX_RUNNING && !s->pause.call.busy)
		reply_empty(a, c, 204);
	else
		e2b_not_found(a, c, s->id);
}

/* The variables of its processes, as far as its spec says them. */
static void envd_envs(struct api *a, struct http_conn *c,
		      const struct envd_call *call)
{
	const json_t *env = call->box->spec.env;

	reply_json(a, c, 200, env ? json_deep_copy(env) : json_object());
}

const struct envd_route envd_host_routes[] = {
	{ "GET", "/health", envd_health, ENVD_OPEN | ENVD_ASLEEP },
	{ "GET", "/envs", envd_envs, 0 },
	{ 0 },
};
