#include "api/samples.h"

#include "api/api.h"
#include "base/auto.h"
#include "base/clock.h"

unsigned samples_count(const struct sandbox *s)
{
	return s->samples ? s->samples->n : 0;
}

static struct sample *at(struct samples *x, unsigned i)
{
	return &x->ring[(x->first + i) % SAMPLES_MAX];
}

const struct sample *sample_at(const struct sandbox *s, unsigned i)
{
	return at(s->samples, i);
}

void samples_note(struct sandbox *s)
{
	const struct sandbox_use *u = &s->meter.last;
	struct samples *x = s->samples;
	struct sample now = { clock_wall_ms(), u->cpu_us, u->mem_bytes,
			      u->disk_bytes };

	if (!x)
		return;
	/* Too soon after the one before the last: the last is replaced, so
	 * that there is always one of now. */
	if (x->n > 1 && now.wall_ms < at(x, x->n - 2)->wall_ms + SAMPLE_MS) {
		*at(x, x->n - 1) = now;
		return;
	}
	if (x->n < SAMPLES_MAX)
		x->n++;
	else
		x->first = (x->first + 1) % SAMPLES_MAX;
	*at(x, x->n - 1) = now;
}

void samples_add(struct sandbox *s)
{
	if (!s->samples)
		s->samples = xcalloc(1, sizeof(*s->samples));
	samples_note(s);
}
