/* What this host is and offers: GET /v1/host, GET /metrics. */
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "api/api.h"
#include "api/gate.h"
#include "api/openapi.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/product.h"

struct host {
	struct api *api;
	struct http_conn *conn;
	struct warden_call call;
};

static void host_gone(struct http_conn *c, void *owner)
{
	struct host *h = owner;

	(void)c;
	warden_cancel(&h->call);
	free(h);
}

static json_t *pool_json(const struct host_info *i)
{
	return json_pack("{s:s, s:I, s:I, s:b, s:b, s:b}", "driver",
			 i->pool_driver, "bytes", (json_int_t)i->pool_bytes,
			 "free_bytes", (json_int_t)i->pool_free_bytes,
			 "read_only", (i->flags & HOST_POOL_READ_ONLY) != 0,
			 "disk_limit", (i->flags & HOST_DISK_LIMIT) != 0,
			 "simple_quota", (i->flags & HOST_SIMPLE_QUOTA) != 0);
}

static json_t *cgroup_json(const struct host_info *i)
{
	const char *mode = i->flags & HOST_CGROUP_V2       ? "v2"
			   : i->flags & HOST_CGROUP_HYBRID ? "hybrid"
							   : "none";

	return json_pack("{s:s, s:s, s:b}", "version", mode, "path", i->cgroup,
			 "clone_into",
			 (i->flags & HOST_CLONE_INTO_CGROUP) != 0);
}

static json_t *microvm_json(const struct host_info *i)
{
	bool there = i->flags & HOST_MICROVM;

	return json_pack(
		"{s:b, s:s?, s:s?, s:o*}", "available", there, "isolation",
		!there                ? NULL
		: i->flags & HOST_KVM ? "vm"
				      : "emulated",
		"why", *i->microvm ? i->microvm : NULL, "slowdown",
		there && i->slow_tenths ? json_real(i->slow_tenths / 10.0)
					: NULL);
}

static json_t *host_json(struct api *a, const struct host_info *i)
{
	struct utsname u = { 0 };
	AUTO(spec_done) struct spec spec;

	uname(&u);
	spec_defaults(&spec, &a->conf);
	return json_pack("{s:s, s:s, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o, "
			 "s:{s:I, s:o}, "
			 "s:{s:i, s:i, s:i}}",
			 "version", PRODUCT_VERSION, "kernel", u.release,
			 "arch", u.machine, "systemd",
			 (i->flags & HOST_SYSTEMD) != 0, "pool", pool_json(i),
			 "cgroup", cgroup_json(i), "log", audit_json(a), "gate",
			 gates_json(a), "microvm", microvm_json(i), "state",
			 strays_summary(a), "limits", "max_sandboxes",
			 (json_int_t)a->conf.max_sandboxes, "defaults",
			 spec_to_json(&spec), "counts", "sandboxes",
			 (int)a->boxes.n_users, "spares",
			 (int)a->boxes.n_spares, "images", (int)a->images.n);
}

static void on_host(struct warden_call *c, const struct warden_rep *rep,
		    int fds[FD_PASS_MAX])
{
	AUTO_FREE struct host *h = container_of(c, struct host, call);
	struct host_info i = rep->host;

	(void)fds;
	if (rep->err.code) {
		reply_err(h->api, h->conn, &rep->err);
		return;
	}
	i.pool_driver[sizeof(i.pool_driver) - 1] = '\0';
	i.cgroup[sizeof(i.cgroup) - 1] = '\0';
	i.microvm[sizeof(i.microvm) - 1] = '\0';
	reply_json(h->api, h->conn, 200, host_json(h->api, &i));
}

static void h_host(struct api *a, struct http_conn *c, const struct call *call)
{
	struct host *h = xcalloc(1, sizeof(*h));

	(void)call;
	h->api = a;
	h->conn = c;
	http_own(c, h, host_gone);
	warden_req_id(&h->call, WARDEN_HOST, "");
	h->call.early = a->pool_id.held;
	warden_ask(&a->warden, &h->call, on_host);
}

static void h_metrics(struct api *a, struct http_conn *c,
		      const struct call *call)
{
	static const struct http_field type[] = {
		{ "Content-Type", "text/plain; version=0.0.4" }, { 0 }
	};
	struct buf b = { 0 };

	(void)call;
	metrics_text(a, &b);
	a->metrics.requests[2]++;
	http_reply(c, 200, type, buf_data(&b), buf_len(&b));
	buf_done(&b);
}

static void h_openapi(struct api *a, struct http_conn *c,
		      const struct call *call)
{
	(void)call;
	reply_json(a, c, 200, openapi_json());
}

const struct route host_routes[] = {
	{ "GET", "/healthz", h_health, SCOPE_READ, ROUTE_ALONE | ROUTE_OPEN,
	  "Can it make sandboxes? 503 with all `problems` if not", NULL, NULL,
	  "Health", 200 },
	{ "GET", "/openapi.json", h_openapi, SCOPE_READ,
	  ROUTE_ALONE | ROUTE_OPEN, "This document", NULL, NULL,
	  "application/json", 200 },
	{ "GET", "/v1/host", h_host, SCOPE_READ, ROUTE_ALONE,
	  "What this host is and offers", NULL, NULL, "Host", 200 },
	{ "POST", "/v1/backup", h_backup, SCOPE_ADMIN,
	  ROUTE_ALONE | ROUTE_OPERATOR, "A copy of the registry, for a backup",
	  NULL, NULL, "application/vnd.sqlite3", 200 },
	{ "GET", "/metrics", h_metrics, SCOPE_READ,
	  ROUTE_ALONE | ROUTE_OPERATOR, "Figures for Prometheus", NULL, NULL,
	  "text/plain", 200 },
	{ 0 },
};
