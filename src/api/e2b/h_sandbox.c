/* E2B's requests about one sandbox: to make it, to see it, to end it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/job.h"
#include "api/e2b/sandbox.h"
#include "api/reply.h"
#include "api/routes.h"

/* --- create --- */

static void on_created(struct e2b_job *j, int status, json_t *answer)
{
	const char *id = json_string_value(json_object_get(answer, "id"));
	struct sandbox *s = status == 201 && id ? box_by_id(j->api, id) : NULL;

	if (s)
		e2b_job_json(j, 201, e2b_sandbox_json(j->api, j->conn, s));
	else
		e2b_job_pass(j, status == 201 ? 502 : status, answer);
}

static void create_body(struct e2b_job *j)
{
	struct err e = { 0 };
	json_t *spec =
		e2b_spec(j->api, &j->who, j->body, (unsigned)j->number, &e);

	if (spec)
		e2b_job_ask(j, "POST", spec, on_created, "/v1/sandboxes");
	else
		e2b_job_err(j, &e);
}

static void create(struct api *a, struct http_conn *c, const struct call *call,
		   unsigned timeout_s)
{
	struct e2b_job *j = e2b_job(a, c, call);

	if (!j)
		return;
	j->number = timeout_s;
	e2b_job_body(j, create_body);
}

static void h_create_v1(struct api *a, struct http_conn *c,
			const struct call *call)
{
	create(a, c, call, E2B_TIMEOUT_V1_S);
}

static void h_create(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	create(a, c, call, E2B_TIMEOUT_S);
}

/* --- info, kill --- */

static void h_info(struct api *a, struct http_conn *c, const struct call *call)
{
	struct e2b_job *j = e2b_job(a, c, call);
	struct sandbox *s = j ? e2b_job_box(j) : NULL;

	if (s)
		e2b_job_json(j, 200, e2b_detail_json(a, c, s));
}

static void on_killed(struct e2b_job *j, int status, json_t *answer)
{
	if (status == 204)
		e2b_job_empty(j, 204);
	else
		e2b_job_pass(j, status, answer);
}

static void h_kill(struct api *a, struct http_conn *c, const struct call *call)
{
	struct e2b_job *j = e2b_job(a, c, call);

	if (j)
		e2b_job_ask(j, "DELETE", NULL, on_killed, "/v1/sandboxes/%s",
			    j->id);
}

const struct route e2b_sandbox_routes[] = {
	E2B_ROW("POST", "/sandboxes", h_create_v1, "E2B: create, old"),
	E2B_ROW("POST", "/v2/sandboxes", h_create, "E2B: create"),
	E2B_ROW("GET", "/sandboxes/{id}", h_info, "E2B: info"),
	E2B_ROW("DELETE", "/sandboxes/{id}", h_kill, "E2B: kill"),
	{ 0 },
};
