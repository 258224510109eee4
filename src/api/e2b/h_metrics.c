/*
 * E2B's metrics of a sandbox: samples over time. We have figures of now, and
 * keep a few of them from the first time that somebody asks for metrics.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/job.h"
#include "api/reply.h"
#include "api/routes.h"
#include "api/samples.h"
#include "base/auto.h"
#include "base/clock.h"
#include "http/target.h"

/* Of one processor's time since the sample before it, in hundredths of all. */
static double percent(const struct sandbox *s, const struct sample *x,
		      const struct sample *before)
{
	uint64_t from_ms = before ? before->wall_ms : s->created_ms;
	uint64_t used_us = x->cpu_us - (before ? before->cpu_us : 0);
	double all_us =
		(double)(x->wall_ms - from_ms) * (double)s->spec.cpus_milli;

	if (x->wall_ms <= from_ms || (before && x->cpu_us < before->cpu_us))
		return 0;
	return 100 * (double)used_us / all_us;
}

static json_t *sample_json(const struct sandbox *s, const struct sample *x,
			   const struct sample *before)
{
	const struct spec *spec = &s->spec;

	return json_pack("{s:o, s:I, s:I, s:f, s:I, s:I, s:i, s:I, s:I}",
			 "timestamp", json_time(x->wall_ms), "timestampUnix",
			 (json_int_t)(x->wall_ms / 1000), "cpuCount",
			 (json_int_t)((spec->cpus_milli + 999) / 1000),
			 "cpuUsedPct", percent(s, x, before), "memUsed",
			 (json_int_t)x->mem_bytes, "memTotal",
			 (json_int_t)spec->mem_bytes, "memCache", 0, "diskUsed",
			 (json_int_t)x->disk_bytes, "diskTotal",
			 (json_int_t)spec->disk_bytes);
}

/* Unix seconds, both included. */
struct span_s {
	uint64_t from, to;
};

static int take_time(const struct http_head *h, const char *name, uint64_t *out,
		     struct err *e)
{
	char text[24];
	int r = http_query(h, name, text, sizeof(text));

	if (r < 0 || (r == 1 && parse_u64(text, INT64_MAX, out) < 0))
		return err_set(e, EINVAL, "%s: not a time in Unix seconds",
			       name);
	return 0;
}

static void on_stats(struct e2b_job *j, int status, json_t *answer)
{
	const struct http_head *h = http_request(j->conn);
	struct span_s span = { 0, INT64_MAX };
	json_t *list;
	struct sandbox *s;
	struct err e = { 0 };
	unsigned i;

	if (status != 200) {
		e2b_job_pass(j, status, answer);
		return;
	}
	if (take_time(h, "start", &span.from, &e) < 0 ||
	    take_time(h, "end", &span.to, &e) < 0) {
		e2b_job_err(j, &e);
		return;
	}
	s = e2b_job_box(j);
	if (!s)
		return;
	samples_add(s);
	list = json_array();
	for (i = 0; i < samples_count(s); i++) {
		const struct sample *x = sample_at(s, i);

		if (x->wall_ms / 1000 >= span.from &&
		    x->wall_ms / 1000 <= span.to)
			json_array_append_new(
				list,
				sample_json(s, x,
					    i ? sample_at(s, i - 1) : NULL));
	}
	e2b_job_json(j, 200, list);
}

static void h_metrics_e2b(struct api *a, struct http_conn *c,
			  const struct call *call)
{
	struct e2b_job *j = e2b_job(a, c, call);

	if (j)
		e2b_job_ask(j, "GET", NULL, on_stats, "/v1/sandboxes/%s/stats",
			    j->id);
}

const struct route e2b_metrics_routes[] = {
	E2B_ROW("GET", "/sandboxes/{id}/metrics", h_metrics_e2b,
		"E2B: metrics"),
	{ 0 },
};
