/*
 * Figures: of a sandbox, of all of them, of the host, and what was used over
 * time. Those of the moment are asked for when somebody wants them, a few at a
 * time, so that nobody's launch waits behind a thousand questions.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/clock.h"
#include "http/target.h"
#include "registry/gate.h"

enum {
	ASK_AT_ONCE = 32,
	FRESH_MS = 300, /* figures of so long ago are those of now */
	ROWS_DEFAULT = 1000,
	ROWS_MAX = 10000,
};

/* --- of now --- */

struct survey {
	struct api *api;
	struct http_conn *conn;
	struct share *place;
	bool one; /* sandbox: an object, not a list */
	char (*ids)[ID_CAP];
	size_t n, next, done;
	struct question {
		struct survey *survey;
		struct warden_call call;
		char id[ID_CAP];
	} ask[ASK_AT_ONCE];
};

static void survey_free(struct survey *v)
{
	share_give(v->place, 1);
	free(v->ids);
	free(v);
}

static void survey_gone(struct http_conn *c, void *owner)
{
	struct survey *v = owner;
	size_t i;

	(void)c;
	for (i = 0; i < ASK_AT_ONCE; i++)
		warden_cancel(&v->ask[i].call);
	survey_free(v);
}

static json_t *stats_json(const struct sandbox *s)
{
	const struct sandbox_use *u = &s->meter.last;
	json_t *j;

	j = json_pack(
		"{s:s, s:s?, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I}",
		"id", s->id, "name", *s->spec.name ? s->spec.name : NULL,
		"project", s->project, "cpu_us", (json_int_t)u->cpu_us,
		"memory_bytes", (json_int_t)u->mem_bytes, "disk_bytes",
		(json_int_t)u->disk_bytes, "pids", (json_int_t)u->pids,
		"oom_kills", (json_int_t)u->oom_kills, "processes",
		(json_int_t)agent_processes(&s->agent), "output_bytes",
		(json_int_t)s->output_bytes, "created_at",
		json_time(s->created_ms), "idle_ms",
		(json_int_t)box_idle_ms(s));
	if (s->egress.known)
		json_object_set_new(j, "egress", egress_json(&s->egress.count));
	return j;
}

struct limits {
	uint64_t mem_bytes, cpus_milli;
};

/* The limits of sandboxes whose processes run, added up. */
static struct limits running_limits(const struct api *a)
{
	struct limits sum = { 0 };
	struct list *n, *next;

	list_each (n, next, &a->boxes.all) {
		const struct sandbox *s = container_of(n, struct sandbox, all);

		if (!s->counted || s->state == BOX_PAUSED)
			continue;
		sum.mem_bytes += s->spec.mem_bytes;
		sum.cpus_milli += s->spec.cpus_milli;
	}
	return sum;
}

static json_t *host_json(const struct api *a)
{
	const struct limits sum = running_limits(a);
	struct host_load h = { 0 };

	host_load(&h);
	return json_pack("{s:I, s:I, s:I, s:f, s:I, s:I, s:f}", "processors",
			 (json_int_t)h.processors, "memory_bytes",
			 (json_int_t)h.mem_bytes, "memory_available_bytes",
			 (json_int_t)h.mem_available, "load", h.load,
			 "sandboxes", (json_int_t)a->boxes.n_users,
			 "promised_memory_bytes", (json_int_t)sum.mem_bytes,
			 "promised_cpus", (double)sum.cpus_milli / 1000);
}

static void survey_answer(struct survey *v)
{
	struct api *a = v->api;
	json_t *list = json_array(), *j;
	struct err e = { 0 };
	size_t i;

	for (i = 0; i < v->n; i++) {
		struct sandbox *s = box_by_id(a, v->ids[i]);

		if (s && box_visible(s))
			json_array_append_new(list, stats_json(s));
	}
	if (v->one && json_array_size(list) == 0) {
		err_set(&e, ENOENT, "no sandbox '%s'", v->ids[0]);
		reply_err(a, v->conn, &e);
		json_decref(list);
	} else if (v->one) {
		j = json_incref(json_array_get(list, 0));
		json_decref(list);
		reply_json(a, v->conn, 200, j);
	} else {
		reply_json(a, v->conn, 200,
			   json_pack("{s:o, s:o}", "host", host_json(a),
				     "sandboxes", list));
	}
	survey_free(v);
}

static bool ask_next(struct question *q);

static void on_figures(struct warden_call *c, const struct warden_rep *rep,
		       int fds[FD_PASS_MAX])
{
	struct question *q = container_of(c, struct question, call);
	struct survey *v = q->survey;
	struct sandbox *s = box_by_id(v->api, q->id);

	(void)fds;
	if (s && rep->err.code == 0)
		meter_add(s, &rep->use);
	v->done++;
	/* Without its figures rather than not at all. */
	if (!ask_next(q) && v->done == v->next)
		survey_answer(v);
}

/* The next sandbox whose figures are old; false: there is none. */
static bool ask_next(struct question *q)
{
	struct survey *v = q->survey;
	uint64_t now = clock_boot_ms();

	while (v->next < v->n) {
		struct sandbox *s = box_by_id(v->api, v->ids[v->next++]);

		if (!s || (s->meter.fresh && now < s->meter.at_ms + FRESH_MS)) {
			v->done++;
			continue;
		}
		memcpy(q->id, s->id, ID_CAP);
		warden_req_id(&q->call, WARDEN_STAT, s->id);
		warden_ask(&v->api->warden, &q->call, on_figures);
		return true;
	}
	return false;
}

static struct survey *survey_new(struct api *a, struct http_conn *c,
				 const struct identity *who, size_t cap)
{
	struct err e = { 0 };
	struct share *place =
		share_take(&a->pools.surveys, who->project, 1, &e);
	struct survey *v;

	if (!place) {
		reply_err(a, c, &e);
		return NULL;
	}
	v = xcalloc(1, sizeof(*v));
	v->place = place;
	v->api = a;
	v->conn = c;
	v->ids = xcalloc(cap ? cap : 1, sizeof(*v->ids));
	http_own(c, v, survey_gone);
	return v;
}

static void survey_start(struct survey *v)
{
	bool asked = false;
	size_t i;

	for (i = 0; i < ASK_AT_ONCE; i++) {
		v->ask[i].survey = v;
		asked |= ask_next(&v->ask[i]);
	}
	if (!asked)
		survey_answer(v);
}

static void h_stats(struct api *a, struct http_conn *c, const struct call *call)
{
	struct survey *v = survey_new(a, c, &call->who, a->boxes.n_users);
	struct list *n, *next;

	if (!v)
		return;
	list_each (n, next, &a->boxes.all) {
		struct sandbox *s = container_of(n, struct sandbox, all);

		if (box_visible(s) && box_is_for(s, &call->who))
			memcpy(v->ids[v->n++], s->id, ID_CAP);
	}
	survey_start(v);
}

static void h_sandbox_stats(struct api *a, struct http_conn *c,
			    const struct call *call)
{
	struct err e = { 0 };
	struct sandbox *s = box_find(a, &call->who, call->arg[0], &e);
	struct survey *v;

	if (!s) {
		reply_err(a, c, &e);
		return;
	}
	v = survey_new(a, c, &call->who, 1);
	if (!v)
		return;
	v->one = true;
	memcpy(v->ids[v->n++], s->id, ID_CAP);
	survey_start(v);
}

/* --- over time --- */

static json_t *number(double v)
{
	return v < 9e18 ? json_integer((json_int_t)v) : json_real(v);
}

static int add_row(void *arg, const struct usage_row *u)
{
	json_array_append_new(
		arg, json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:o}",
			       "project", u->project, "sandbox", u->sandbox,
			       "cpu_us", (json_int_t)u->cpu_us, "memory_byte_s",
			       (json_int_t)u->mem_byte_s, "disk_byte_s",
			       (json_int_t)u->disk_byte_s, "output_bytes",
			       (json_int_t)u->output_bytes, "started_at",
			       json_time(u->started_ms), "ended_at",
			       json_time(u->ended_ms)));
	return 0;
}

static int add_sum(void *arg, const struct usage_sum *u)
{
	json_array_append_new(arg,
			      json_pack("{s:s, s:I, s:o, s:o, s:o, s:o}",
					"project", u->project, "sandboxes",
					(json_int_t)u->sandboxes, "cpu_us",
					number(u->cpu_us), "memory_byte_s",
					number(u->mem_byte_s), "disk_byte_s",
					number(u->disk_byte_s), "output_bytes",
					number(u->output_bytes)));
	return 0;
}

/* A time of the query; `*out` stays when it is not given. */
static int take_time(const struct http_head *h, const char *name, uint64_t *out,
		     struct err *e)
{
	char text[64];
	int r = http_query(h, name, text, sizeof(text));

	if (r == 0)
		return 0;
	if (r < 0 || clock_parse(text, out) < 0)
		return err_set(e, EINVAL,
			       "%s: not a time like 2026-01-31T08:15:30Z",
			       name);
	return 0;
}

static int take_word(const struct http_head *h, const char *name, char *out,
		     size_t cap, struct err *e)
{
	*out = '\0';
	if (http_query(h, name, out, cap) < 0)
		return err_set(e, EINVAL, "%s: not valid", name);
	return 0;
}

static int take_limit(const struct http_head *h, unsigned *out, struct err *e)
{
	char text[16];
	uint64_t n = ROWS_DEFAULT;
	int r = http_query(h, "limit", text, sizeof(text));

	if (r < 0 || (r == 1 && (parse_u64(text, ROWS_MAX, &n) < 0 || n == 0)))
		return err_set(e, EINVAL, "limit: not 1 to %d", ROWS_MAX);
	*out = (unsigned)n;
	return 0;
}

static json_t *went_out(const struct egress_row *row)
{
	const struct gate_count c = { row->requests,  row->denied,
				      row->up_bytes,  row->down_bytes,
				      row->tokens_in, row->tokens_out,
				      row->cost_micro };

	return egress_json(&c);
}

/* What each has sent, of those that had a way out. */
static int add_egress(struct api *a, json_t *rows, struct err *e)
{
	json_t *row;
	size_t i;

	json_array_foreach (rows, i, row) {
		struct egress_row out;
		int r = registry_egress_get(
			&a->registry,
			json_string_value(json_object_get(row, "sandbox")),
			&out, e);

		if (r < 0)
			return r;
		if (r == 1)
			json_object_set_new(row, "egress", went_out(&out));
	}
	return 0;
}

static int add_egress_sum(void *arg, const struct egress_row *sum)
{
	json_t *row;
	size_t i;

	json_array_foreach ((json_t *)arg, i, row)
		if (strcmp(json_string_value(json_object_get(row, "project")),
			   sum->project) == 0)
			json_object_set_new(row, "egress", went_out(sum));
	return 0;
}

static int read_usage(struct api *a, const struct usage_filter *f, json_t *rows,
		      json_t *sums, struct err *e)
{
	int r;

	/* What is only in our memory yet belongs to it. */
	ledger_flush(a);
	r = registry_usage_each(&a->registry, f, add_row, rows, e);
	if (r == 0)
		r = registry_usage_sums(&a->registry, f, add_sum, sums, e);
	if (r == 0)
		r = add_egress(a, rows, e);
	if (r == 0)
		r = registry_egress_sums(&a->registry, f, add_egress_sum, sums,
					 e);
	return r;
}

static void h_usage(struct api *a, struct http_conn *c, const struct call *call)
{
	const struct http_head *h = http_request(c);
	char project[NAME_CAP], sandbox[NAME_CAP];
	struct usage_filter f = { project, sandbox, 0, INT64_MAX, 0 };
	json_t *rows = json_array(), *sums = json_array();
	struct err e = { 0 };

	if (take_word(h, "project", project, sizeof(project), &e) < 0 ||
	    take_word(h, "sandbox", sandbox, sizeof(sandbox), &e) < 0 ||
	    take_time(h, "since", &f.since_ms, &e) < 0 ||
	    take_time(h, "until", &f.until_ms, &e) < 0 ||
	    take_limit(h, &f.limit, &e) < 0)
		goto bad;
	if (*call->who.project && *project && !who_sees(&call->who, project)) {
		err_set(&e, EPERM, "this key is of project '%s' only",
			call->who.project);
		goto bad;
	}
	if (*call->who.project)
		f.project = call->who.project;
	if (read_usage(a, &f, rows, sums, &e) < 0)
		goto bad;
	reply_json(a, c, 200,
		   json_pack("{s:o, s:o}", "usage", rows, "projects", sums));
	return;
bad:
	json_decref(rows);
	json_decref(sums);
	reply_err(a, c, &e);
}

static const struct route_query usage_query[] = {
	{ "project", "string", "only of this one" },
	{ "sandbox", "string", "only of the one with this id" },
	{ "since", "string", "those that lived after this time" },
	{ "until", "string", "those that lived before this time" },
	{ "limit", "integer", "at most so many, the newest (1000)" },
	{ 0 },
};

const struct route usage_routes[] = {
	{ "GET", "/v1/usage", h_usage, SCOPE_READ, ROUTE_ALONE,
	  "What sandboxes have used, and the sums of projects", usage_query,
	  NULL, "UsageReport", 200 },
	{ "GET", "/v1/stats", h_stats, SCOPE_READ, 0,
	  "What the host and its sandboxes use now", NULL, NULL, "StatsReport",
	  200 },
	{ "GET", "/v1/sandboxes/{id}/stats", h_sandbox_stats, SCOPE_READ, 0,
	  "What a sandbox uses now", NULL, NULL, "Stats", 200 },
	{ 0 },
};
