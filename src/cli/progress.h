/*
 * What is going on, on stderr: one line that is rewritten on a terminal, a
 * plain line per phase elsewhere.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
	bool tty;
	const char *phase; /* kept, not copied */
	uint64_t start_ms, shown_ms;
	uint64_t bytes, total; /* of this phase; total 0: not known */
};

void progress_init(struct progress *p);
/* Another phase; nothing when it is the same. */
void progress_phase(struct progress *p, const char *phase);
/* Brings the line up to date; cheap enough to be called for every piece. */
void progress_tick(struct progress *p);
void progress_bytes(struct progress *p, uint64_t bytes);
/* Takes the line away: the next output starts in the first column. */
void progress_clear(struct progress *p);
/* "1 min 20 s" */
enum { ELAPSED_CAP = 32 };
void progress_elapsed(const struct progress *p, char out[ELAPSED_CAP]);
