/*
 * E2B's requests about how long a sandbox lives, and in what state.
 *
 * With them a sandbox that is paused never ends; with us its time goes on
 * unless its spec says that it is paused at its end. So one that is to be
 * killed in time is changed to that while it is paused, and back.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/job.h"
#include "api/e2b/sandbox.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/clock.h"

static bool is_up(const struct sandbox *s)
{
	return s->state == BOX_RUNNING && !s->pause.call.busy &&
	       !s->restart.busy;
}

/* What its maker wants at the end of its time; NULL: not made over E2B. */
static const char *action_of(const struct sandbox *s)
{
	return json_string_value(json_object_get(e2b_kept(s), "timeoutAction"));
}

static int take_seconds(struct e2b_job *j, const char *key, double fallback,
			double *out)
{
	struct err e = { 0 };

	if (e2b_seconds(j->body, key, fallback, out, &e) == 0)
		return 0;
	e2b_job_err(j, &e);
	return -EINVAL;
}

/* Does it live for so long already? With them, a connect never shortens. */
static bool lives_for(const struct sandbox *s, double seconds)
{
	return s->deadline_wall_ms == 0 ||
	       (double)s->deadline_wall_ms >=
		       (double)clock_wall_ms() + seconds * 1000;
}

static void done_empty(struct e2b_job *j, int status, json_t *answer)
{
	if (status / 100 == 2)
		e2b_job_empty(j, 204);
	else
		e2b_job_pass(j, status, answer);
}

/* --- connect, resume --- */

/* `number` is the status that says what was done. */
static void connected(struct e2b_job *j)
{
	struct sandbox *s = e2b_job_box(j);

	if (s)
		e2b_job_json(j, (int)j->number,
			     e2b_sandbox_json(j->api, j->conn, s));
}

static void on_extended(struct e2b_job *j, int status, json_t *answer)
{
	if (status / 100 == 2)
		connected(j);
	else
		e2b_job_pass(j, status, answer);
}

/* Its time counts from now, and it ends as its maker wanted. */
static void on_resumed(struct e2b_job *j, int status, json_t *answer)
{
	struct sandbox *s;
	double seconds;
	json_t *change;

	if (status / 100 != 2) {
		e2b_job_pass(j, status, answer);
		return;
	}
	s = e2b_job_box(j);
	if (!s || take_seconds(j, "timeout", E2B_TIMEOUT_S, &seconds) < 0)
		return;
	change = json_pack("{s:f}", "timeout", seconds);
	if (action_of(s))
		json_object_set_new(change, "timeout-action",
				    json_string(action_of(s)));
	e2b_job_ask(j, "PATCH", change, on_extended, "/v1/sandboxes/%s", j->id);
}

static void resume(struct e2b_job *j)
{
	j->number = 201;
	e2b_job_ask(j, "POST", NULL, on_resumed, "/v1/sandboxes/%s/resume",
		    j->id);
}

static void on_suspended(struct e2b_job *j, int status, json_t *answer)
{
	if (status / 100 == 2)
		resume(j);
	else
		e2b_job_pass(j, status, answer);
}

/* Without its memory, if that is not wanted. */
static void wake(struct e2b_job *j, const struct sandbox *s)
{
	if (s->state == BOX_PAUSED &&
	    json_is_false(json_object_get(j->body, "memory")))
		e2b_job_ask(j, "POST", json_pack("{s:b}", "disk_only", 1),
			    on_suspended, "/v1/sandboxes/%s/pause", j->id);
	else
		resume(j);
}

static void extend(struct e2b_job *j, const struct sandbox *s, const char *key,
		   double fallback,
		   void (*then)(struct e2b_job *j, int status, json_t *answer))
{
	double seconds;

	if (take_seconds(j, key, fallback, &seconds) < 0)
		return;
	if (lives_for(s, seconds))
		then(j, 200, NULL);
	else
		e2b_job_ask(j, "PATCH", json_pack("{s:f}", "timeout", seconds),
			    then, "/v1/sandboxes/%s", j->id);
}

/* The answer has tokens, whether something had to be done or not. */
static bool may_connect(struct e2b_job *j)
{
	if (j->who.scope >= SCOPE_USE)
		return true;
	e2b_job_fail(j, 403,
		     "the scope of this key is 'read', 'use' is "
		     "needed");
	return false;
}

static void connect_body(struct e2b_job *j)
{
	struct sandbox *s = may_connect(j) ? e2b_job_box(j) : NULL;
	double seconds;

	if (!s || take_seconds(j, "timeout", E2B_TIMEOUT_S, &seconds) < 0)
		return;
	j->number = 200;
	if (is_up(s))
		extend(j, s, "timeout", E2B_TIMEOUT_S, on_extended);
	else
		wake(j, s);
}

static void h_connect(struct api *a, struct http_conn *c,
		      const struct call *call)
{
	struct e2b_job *j = e2b_job(a, c, call);

	if (j)
		e2b_job_body(j, connect_body);
}

static void resume_body(struct e2b_job *j)
{
	struct sandbox *s = e2b_job_box(j);
	double seconds;

	if (!s || take_seconds(j, "timeout", E2B_TIMEOUT_S, &seconds) < 0)
		return;
	if (is_up(s))
		e2b_job_fail(j, 409, "the sandbox is running already");
	else
		wake(j, s);
}

static void h_resume(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	struct e2b_job *j = e2b_job(a, c, call);

	if (j)
		e2b_job_body(j, resume_body);
}

/* --- pause --- */

static void on_restored(struct e2b_job *j, int status, json_t *answer)
{
	(void)answer;
	e2b_job_fail(j, status / 100 == 2 ? (int)j->number : 502,
		     "the sandbox could not be paused: see the daemon's log");
}

static void on_paused(struct e2b_job *j, int status, json_t *answer)
{
	if (status / 100 == 2) {
		e2b_job_empty(j, 204);
	} else if (!j->flag) {
		e2b_job_pass(j, status, answer);
	} else {
		j->number = status ? (uint64_t)status : 502;
		e2b_job_ask(j, "PATCH",
			    json_pack("{s:s}", "timeout-action", "remove"),
			    on_restored, "/v1/sandboxes/%s", j->id);
	}
}

static void pause(struct e2b_job *j)
{
	bool disk_only = json_is_false(json_object_get(j->body, "memory"));

	e2b_job_ask(j, "POST",
		    disk_only ? json_pack("{s:b}", "disk_only", 1) : NULL,
		    on_paused, "/v1/sandboxes/%s/pause", j->id);
}

static void on_kept_alive(struct e2b_job *j, int status, json_t *answer)
{
	j->flag = true;
	if (status / 100 == 2)
		pause(j);
	else
		e2b_job_pass(j, status, answer);
}

static void pause_body(struct e2b_job *j)
{
	struct sandbox *s = e2b_job_box(j);
	const json_t *memory;

	if (!s)
		return; /* and the job is gone */
	memory = json_object_get(j->body, "memory");
	if (e2b_is_paused(s))
		e2b_job_fail(j, 409, "the sandbox is paused already");
	else if (memory && !json_is_boolean(memory))
		e2b_job_fail(j, 400, "memory: not true or false");
	else if (action_of(s) && strcmp(s->spec.timeout_action, "remove") == 0)
		e2b_job_ask(j, "PATCH",
			    json_pack("{s:s}", "timeout-action", "pause"),
			    on_kept_alive, "/v1/sandboxes/%s", j->id);
	else
		pause(j);
}

static void h_pause(struct api *a, struct http_conn *c, const struct call *call)
{
	struct e2b_job *j = e2b_job(a, c, call);

	if (j)
		e2b_job_body(j, pause_body);
}

/* --- time --- */

static void timeout_body(struct e2b_job *j)
{
	struct sandbox *s = e2b_job_box(j);
	double seconds;

	if (!s || take_seconds(j, "timeout", -1, &seconds) < 0)
		return;
	if (seconds < 0)
		e2b_job_fail(j, 400, "timeout is missing");
	else if (e2b_is_paused(s))
		e2b_job_fail(j, 409,
			     "the sandbox is paused: connect to it "
			     "first");
	else
		e2b_job_ask(j, "PATCH", json_pack("{s:f}", "timeout", seconds),
			    done_empty, "/v1/sandboxes/%s", j->id);
}

static void h_timeout(struct api *a, struct http_conn *c,
		      const struct call *call)
{
	struct e2b_job *j = e2b_job(a, c, call);

	if (j)
		e2b_job_body(j, timeout_body);
}

static void refresh_body(struct e2b_job *j)
{
	struct sandbox *s = e2b_job_box(j);

	if (s)
		extend(j, s, "duration", E2B_TIMEOUT_V1_S, done_empty);
}

static void h_refresh(struct api *a, struct http_conn *c,
		      const struct call *call)
{
	struct e2b_job *j = e2b_job(a, c, call);

	if (j)
		e2b_job_body(j, refresh_body);
}

const struct route e2b_life_routes[] = {
	E2B_ROW("POST", "/v2/sandboxes/{id}/connect", h_connect,
		"E2B: connect"),
	E2B_ROW("POST", "/sandboxes/{id}/connect", h_connect,
		"E2B: connect, old"),
	E2B_ROW("POST", "/sandboxes/{id}/resume", h_resume, "E2B: resume, old"),
	E2B_ROW("POST", "/sandboxes/{id}/pause", h_pause, "E2B: pause"),
	E2B_ROW("POST", "/sandboxes/{id}/timeout", h_timeout, "E2B: timeout"),
	E2B_ROW("POST", "/sandboxes/{id}/refreshes", h_refresh,
		"E2B: refresh, old"),
	{ 0 },
};
