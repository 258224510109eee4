/* Counters for GET /metrics (Prometheus text format). */
#pragma once

#include <stdint.h>

struct api;
struct buf;

enum { LATENCY_BUCKETS = 10 };

struct metrics {
	uint64_t creates, create_failures, spares_used;
	uint64_t requests[6]; /* by the first digit of the status */
	uint64_t bytes_out;   /* relayed from agents to clients */
	uint64_t bytes_in;    /* from clients to agents */
	uint64_t agent_faults;
	uint64_t wakes; /* of paused and suspended sandboxes */
	uint64_t latency_us_sum;
	uint64_t latency[LATENCY_BUCKETS + 1]; /* the last: longer */
};

void metrics_latency(struct metrics *m, uint64_t us);
void metrics_text(const struct api *a, struct buf *out);
