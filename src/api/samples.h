/*
 * The last figures of a sandbox, for who wants to see them over time: one in
 * five seconds at most, as often as its meter looks (usage.h). Kept only of
 * those that somebody has asked about.
 */
#pragma once

#include <stdint.h>

struct sandbox;

enum { SAMPLES_MAX = 60, SAMPLE_MS = 5000 };

struct sample {
	uint64_t wall_ms, cpu_us, mem_bytes, disk_bytes;
};

struct samples {
	unsigned n, first;
	struct sample ring[SAMPLES_MAX];
};

/* What its meter says now; from the first call on, samples are kept. */
void samples_add(struct sandbox *s);
/* The meter has new figures. */
void samples_note(struct sandbox *s);
unsigned samples_count(const struct sandbox *s);
/* The oldest is 0. */
const struct sample *sample_at(const struct sandbox *s, unsigned i);
