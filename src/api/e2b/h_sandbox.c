/* E2B's requests about one sandbox: to make it, to see it, to end it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/job.h"
#include "api/e2b/network.h"
#include "api/e2b/sandbox.h"
#include "api/e2b/template.h"
#include "api/reply.h"
#include "api/routes.h"

/*
 * --- create ---
 *
 * The body as a native spec, then what it may reach, which may take secrets of
 * their own, then the sandbox itself, then (if its template says how to tell)
 * until what it starts is ready.
 */

enum { READY_S = 30 };

struct create {
	struct e2b_job job;
	struct e2b_template template;
	struct e2b_network network;
	json_t *spec; /* until it is asked for */
	char id[ID_CAP];
};

static struct create *create_of(struct e2b_job *j)
{
	return container_of(j, struct create, job);
}

static void create_done(struct e2b_job *j)
{
	struct create *cr = create_of(j);

	e2b_network_done(&cr->network);
	e2b_template_done(&cr->template);
	json_decref(cr->spec);
}

static void created(struct create *cr)
{
	struct e2b_job *j = &cr->job;
	struct sandbox *s = box_by_id(j->api, cr->id);

	if (s)
		e2b_job_json(j, 201, e2b_sandbox_json(j->api, j->conn, s));
	else
		e2b_job_fail(j, 502, "the sandbox has ended already");
}

static void on_dropped(struct e2b_job *j, int status, json_t *answer)
{
	(void)status;
	(void)answer;
	e2b_job_fail(j, 504,
		     "what the template starts was not ready in time: the "
		     "sandbox was removed");
}

static void on_ready(struct e2b_job *j, int status, json_t *answer)
{
	struct create *cr = create_of(j);
	const json_t *code =
		json_object_get(json_object_get(answer, "exit"), "code");

	if (status == 200 && json_is_integer(code) &&
	    json_integer_value(code) == 0)
		created(cr);
	else
		e2b_job_ask(j, "DELETE", NULL, on_dropped, "/v1/sandboxes/%s",
			    cr->id);
}

static void await_ready(struct create *cr)
{
	json_t *command = json_sprintf("until { %s\n} >/dev/null 2>&1; do "
				       "sleep 0.1; done",
				       cr->template.ready);

	e2b_job_ask(
		&cr->job, "POST",
		json_pack("{s:o, s:i}", "command", command, "timeout", READY_S),
		on_ready, "/v1/sandboxes/%s/run", cr->id);
}

static void on_created(struct e2b_job *j, int status, json_t *answer)
{
	struct create *cr = create_of(j);
	const char *id = json_string_value(json_object_get(answer, "id"));

	cr->network.applying = false;
	if (status != 201 || !id || str_copy(cr->id, ID_CAP, id) < 0) {
		e2b_job_pass(j, status == 201 ? 502 : status, answer);
		return;
	}
	e2b_network_keep(&cr->network);
	if (cr->template.ready)
		await_ready(cr);
	else
		created(cr);
}

static void on_network(struct e2b_network *n, const struct err *e)
{
	struct create *cr = container_of(n, struct create, network);
	json_t *spec = cr->spec;

	cr->spec = NULL;
	if (!e) {
		n->applying = true;
		e2b_job_ask(&cr->job, "POST", spec, on_created,
			    "/v1/sandboxes");
		return;
	}
	json_decref(spec);
	e2b_job_err(&cr->job, e);
}

/* Whose it will be: a snapshot's project has its sandboxes. */
static const char *project_of(const struct create *cr)
{
	const struct e2b_job *j = &cr->job;
	const char *from =
		json_string_value(json_object_get(cr->spec, "snapshot"));
	const struct snapshot *snap =
		from ? snapshot_by_id(j->api, from) : NULL;

	return snap ? snap->project : who_project(&j->who);
}

static void create_body(struct e2b_job *j)
{
	struct create *cr = create_of(j);
	struct err e = { 0 };
	int r = -EINVAL;

	cr->spec = e2b_spec(j->api, &j->who, j->body, (unsigned)j->number,
			    &cr->template, &e);
	if (cr->spec)
		r = e2b_network_start(
			&cr->network, j->api,
			&(struct e2b_network_ask){
				.who = &j->who,
				.project = project_of(cr),
				.request_id = http_request_id(j->conn),
				.network = json_object_get(j->body, "network"),
				.internet = json_object_get(
					j->body, "allow_internet_access"),
				.spec = cr->spec,
			},
			on_network, &e);
	if (r < 0)
		e2b_job_err(j, &e);
	else if (r == 1)
		on_network(&cr->network, NULL);
}

static void create(struct api *a, struct http_conn *c, const struct call *call,
		   unsigned timeout_s)
{
	struct e2b_job *j =
		e2b_job_in(a, c, call, sizeof(struct create), create_done);

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
		e2b_job_json(j, 200, e2b_detail_json(a, c, &j->who, s));
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
