#include "api/routes.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/reply.h"
#include "base/auto.h"
#include "base/product.h"

enum { REF_CAP = 128 };

/* "*" in a pattern is one segment of the path. */
static const struct {
	const char *method, *path;
	handler_fn *fn;
	bool alone; /* works without the warden */
} routes[] = {
	{ "GET", "/v1/host", h_host, false },
	{ "POST", "/v1/sandboxes", h_sandbox_create, false },
	{ "GET", "/v1/sandboxes", h_sandbox_list, false },
	{ "DELETE", "/v1/sandboxes", h_sandbox_delete_all, false },
	{ "GET", "/v1/sandboxes/*", h_sandbox_get, false },
	{ "DELETE", "/v1/sandboxes/*", h_sandbox_delete, false },
	{ "POST", "/v1/sandboxes/*/exec", h_exec, false },
	{ "POST", "/v1/run", h_run, false },
	{ "GET", "/v1/images", h_image_list, false },
	{ "PUT", "/v1/images/*", h_image_put, false },
	{ "DELETE", "/v1/images/*", h_image_delete, false },
	{ "GET", "/metrics", h_metrics, true },
};

static bool match(const char *pattern, const char *path, char ref[REF_CAP])
{
	while (*pattern) {
		size_t n;

		if (*pattern != '*') {
			if (*pattern++ != *path++)
				return false;
			continue;
		}
		n = strcspn(path, "/");
		if (n == 0 || n >= REF_CAP)
			return false;
		memcpy(ref, path, n);
		ref[n] = '\0';
		path += n;
		pattern++;
	}
	return *path == '\0';
}

/* The path is known: say with which methods. */
static void wrong_method(struct api *a, struct http_conn *c, const char *allow)
{
	char msg[128];

	snprintf(msg, sizeof(msg), "this path takes %s", allow);
	reply_error(a, c, 405, "method_not_allowed", msg);
}

void route(struct http_conn *c, void *ctx)
{
	const struct http_head *h = http_request(c);
	char ref[REF_CAP] = "", allow[64] = "";
	struct api *a = ctx;
	size_t i, n;

	for (i = 0; i < ARRAY_LEN(routes); i++) {
		if (!match(routes[i].path, h->path, ref))
			continue;
		if (strcmp(routes[i].method, h->method) != 0) {
			n = strlen(allow);
			snprintf(allow + n, sizeof(allow) - n, "%s%s",
				 n ? ", " : "", routes[i].method);
			continue;
		}
		if (!a->reconciled && !routes[i].alone)
			reply_error(a, c, 503, "warden_unavailable",
				    "the privileged part has not started "
				    "yet: see the daemon's log, or try again");
		else
			routes[i].fn(a, c, ref);
		return;
	}
	if (*allow)
		wrong_method(a, c, allow);
	else
		reply_error(a, c, 404, "not_found", "no such path");
}
