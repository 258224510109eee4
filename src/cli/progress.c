#include "cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"

enum { TICK_MS = 100 };

void progress_init(struct progress *p)
{
	*p = (struct progress){ .tty = isatty(STDERR_FILENO),
				.start_ms = clock_boot_ms() };
}

void progress_elapsed(const struct progress *p, char out[ELAPSED_CAP])
{
	unsigned s = (unsigned)((clock_boot_ms() - p->start_ms) / 1000);

	if (s < 60)
		snprintf(out, ELAPSED_CAP, "%u s", s);
	else
		snprintf(out, ELAPSED_CAP, "%u min %u s", s / 60, s % 60);
}

static void draw(struct progress *p)
{
	char size[SIZE_TEXT], elapsed[ELAPSED_CAP];

	p->shown_ms = clock_boot_ms();
	progress_elapsed(p, elapsed);
	fprintf(stderr, "\r\033[K%s", p->phase);
	if (p->bytes > 0) {
		size_text(p->bytes, size);
		fprintf(stderr, ", %s", size);
	}
	if (p->bytes > 0 && p->total >= p->bytes)
		fprintf(stderr, " (%u %%)",
			(unsigned)((double)p->bytes * 100 / (double)p->total));
	fprintf(stderr, " [%s]", elapsed);
	fflush(stderr);
}

void progress_phase(struct progress *p, const char *phase)
{
	char elapsed[ELAPSED_CAP];

	if (p->phase && strcmp(p->phase, phase) == 0)
		return;
	p->phase = phase;
	p->bytes = p->total = 0;
	if (p->tty) {
		draw(p);
		return;
	}
	progress_elapsed(p, elapsed);
	fprintf(stderr, "%s [%s]\n", phase, elapsed);
}

void progress_tick(struct progress *p)
{
	if (p->tty && p->phase && clock_boot_ms() >= p->shown_ms + TICK_MS)
		draw(p);
}

void progress_bytes(struct progress *p, uint64_t bytes)
{
	p->bytes = bytes;
	progress_tick(p);
}

void progress_clear(struct progress *p)
{
	if (p->tty && p->phase)
		fputs("\r\033[K", stderr);
	p->phase = NULL;
}
