#include "api/metrics.h"

#include <assert.h>

#include "api/api.h"
#include "base/auto.h"
#include "base/product.h"

static const unsigned limits_us[] = { 100,  250,   500,   1000,   2500,
				      5000, 10000, 50000, 250000, 1000000 };
static_assert(ARRAY_LEN(limits_us) == LATENCY_BUCKETS, "a limit for each");

void metrics_latency(struct metrics *m, uint64_t us)
{
	unsigned i = 0;

	while (i < LATENCY_BUCKETS && us > limits_us[i])
		i++;
	m->latency[i]++;
	m->latency_us_sum += us;
}

static void one(struct buf *b, const char *name, const char *type,
		const char *help, uint64_t v)
{
	buf_printf(b,
		   "# HELP " PRODUCT "_%s %s\n# TYPE " PRODUCT
		   "_%s %s\n" PRODUCT "_%s %llu\n",
		   name, help, name, type, name, (unsigned long long)v);
}

static void latency_text(const struct metrics *m, struct buf *b)
{
	const char *name = PRODUCT "_create_seconds";
	uint64_t n = 0;
	unsigned i;

	buf_printf(b,
		   "# HELP %s from the request to a sandbox that runs\n"
		   "# TYPE %s histogram\n",
		   name, name);
	for (i = 0; i < LATENCY_BUCKETS; i++) {
		n += m->latency[i];
		buf_printf(b, "%s_bucket{le=\"%g\"} %llu\n", name,
			   limits_us[i] / 1e6, (unsigned long long)n);
	}
	n += m->latency[LATENCY_BUCKETS];
	buf_printf(b, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %g\n%s_count %llu\n",
		   name, (unsigned long long)n, name,
		   (double)m->latency_us_sum / 1e6, name,
		   (unsigned long long)n);
}

static void requests_text(const struct metrics *m, struct buf *b)
{
	const char *name = PRODUCT "_http_requests_total";
	int i;

	buf_printf(b,
		   "# HELP %s answers by class of status\n"
		   "# TYPE %s counter\n",
		   name, name);
	for (i = 1; i <= 5; i++)
		buf_printf(b, "%s{class=\"%dxx\"} %llu\n", name, i,
			   (unsigned long long)m->requests[i]);
}

static void states_text(const struct api *a, struct buf *out)
{
	const struct list *n;
	uint64_t count[BOX_STATES] = { 0 };

	for (n = a->boxes.all.next; n != &a->boxes.all; n = n->next)
		count[container_of(n, struct sandbox, all)->state]++;
	one(out, "paused", "gauge", "of them, those that stand still",
	    count[BOX_PAUSED]);
	one(out, "suspended", "gauge", "of them, those that are only a disk",
	    count[BOX_SUSPENDED]);
}

void metrics_text(const struct api *a, struct buf *out)
{
	const struct metrics *m = &a->metrics;

	one(out, "sandboxes", "gauge", "sandboxes that live", a->boxes.n_users);
	states_text(a, out);
	one(out, "wakes_total", "counter",
	    "sandboxes that were resumed, asked for or by a request", m->wakes);
	one(out, "held_requests", "gauge",
	    "requests that wait for a sandbox to wake up", a->pools.held.used);
	one(out, "spares", "gauge", "sandboxes kept waiting",
	    a->boxes.n_spares);
	one(out, "images", "gauge", "images with a name", a->images.n);
	one(out, "creates_total", "counter", "sandboxes created", m->creates);
	one(out, "create_failures_total", "counter", "creates that failed",
	    m->create_failures);
	one(out, "spares_used_total", "counter", "creates served by a spare",
	    m->spares_used);
	latency_text(m, out);
	requests_text(m, out);
	one(out, "relayed_output_bytes_total", "counter",
	    "bytes from agents to clients", m->bytes_out);
	one(out, "relayed_input_bytes_total", "counter",
	    "bytes from clients to agents", m->bytes_in);
	one(out, "relays", "gauge", "upgraded connections",
	    a->pools.relays.used);
	one(out, "agent_faults_total", "counter",
	    "agents that broke the protocol", m->agent_faults);
	one(out, "log_up", "gauge", "whether the log's writer answers",
	    a->audit.w.up);
	one(out, "log_entries", "gauge", "the number of the last entry",
	    a->audit.w.seq);
	one(out, "log_spool_bytes", "gauge", "what waits for the log",
	    spool_file_bytes(&a->audit.w.spool));
	one(out, "log_missed", "gauge", "entries that could not be kept",
	    a->audit.missed);
	egress_metrics(a, out);
	one(out, "approvals", "gauge", "requests that wait for a person",
	    approvals_count(a));
	one(out, "warden_up", "gauge", "whether the warden answers",
	    warden_is_up(&a->warden));
}
