/*
 * E2B's fork: up to 100 sandboxes, each of which may fail by itself. Ours are
 * all or none; when there is no room for all, they are made one by one.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/job.h"
#include "api/e2b/sandbox.h"
#include "api/routes.h"
#include "base/auto.h"

enum { FORKS_MAX = 100 };

/* In the job's body, besides what the client sent. */
#define RESULTS "results"
#define SPEC "spec"

static void ask_one(struct e2b_job *j);

static json_t *results(struct e2b_job *j)
{
	return json_object_get(j->body, RESULTS);
}

static void add_sandboxes(struct e2b_job *j, const json_t *answer)
{
	const json_t *list = json_object_get(answer, "sandboxes"), *v;
	size_t i;

	json_array_foreach ((json_t *)list, i, v) {
		const char *id = json_string_value(json_object_get(v, "id"));
		struct sandbox *s = id ? box_by_id(j->api, id) : NULL;

		json_array_append_new(
			results(j),
			s ? json_pack("{s:o}", "sandbox",
				      e2b_sandbox_json(j->api, j->conn, s))
			  : json_pack("{s:{s:i, s:s}}", "error", "code", 500,
				      "message", "it has ended already"));
	}
}

/* The rest has failed like this one. */
static void add_errors(struct e2b_job *j, int status, const json_t *answer)
{
	while (json_array_size(results(j)) < j->number)
		json_array_append_new(
			results(j), json_pack("{s:{s:i, s:s}}", "error", "code",
					      status ? status : 502, "message",
					      inner_message(status, answer)));
}

static void reply(struct e2b_job *j)
{
	e2b_job_json(j, 201, json_incref(results(j)));
}

static void on_one(struct e2b_job *j, int status, json_t *answer)
{
	if (status == 201)
		add_sandboxes(j, answer);
	else
		add_errors(j, status, answer);
	if (json_array_size(results(j)) < j->number)
		ask_one(j);
	else
		reply(j);
}

static json_t *request(struct e2b_job *j, uint64_t count)
{
	return json_pack("{s:I, s:O}", "count", (json_int_t)count, "spec",
			 json_object_get(j->body, SPEC));
}

static void ask_one(struct e2b_job *j)
{
	e2b_job_ask(j, "POST", request(j, 1), on_one, "/v1/sandboxes/%s/fork",
		    j->id);
}

static void on_all(struct e2b_job *j, int status, json_t *answer)
{
	/* Full: of the host, of the project, of its disk. */
	bool full = status == 429 || status == 503 || status == 507;

	if (status == 201) {
		add_sandboxes(j, answer);
		reply(j);
	} else if (full && j->number > 1) {
		ask_one(j);
	} else {
		e2b_job_pass(j, status, answer);
	}
}

static void fork_body(struct e2b_job *j)
{
	const json_t *count = json_object_get(j->body, "count");
	struct err e = { 0 };
	double timeout = 0;

	j->number = count ? (uint64_t)json_integer_value(count) : 1;
	if (count &&
	    (!json_is_integer(count) || j->number < 1 || j->number > FORKS_MAX))
		err_set(&e, EINVAL, "count: not 1 to %d", FORKS_MAX);
	else
		(void)!e2b_seconds(j->body, "timeout", E2B_TIMEOUT_S, &timeout,
				   &e);
	if (e.code) {
		e2b_job_err(j, &e);
		return;
	}
	json_object_set_new(j->body, RESULTS, json_array());
	json_object_set_new(j->body, SPEC,
			    json_pack("{s:f}", "timeout", timeout));
	e2b_job_ask(j, "POST", request(j, j->number), on_all,
		    "/v1/sandboxes/%s/fork", j->id);
}

static void h_fork_e2b(struct api *a, struct http_conn *c,
		       const struct call *call)
{
	struct e2b_job *j = e2b_job(a, c, call);

	if (j)
		e2b_job_body(j, fork_body);
}

const struct route e2b_fork_routes[] = {
	E2B_ROW("POST", "/sandboxes/{id}/fork", h_fork_e2b, "E2B: fork"),
	{ 0 },
};
