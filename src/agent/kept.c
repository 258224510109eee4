/*
 * Processes that exited, with the last of their output, for a client that was
 * cut off or wants to look later. There are only so many, for only so long;
 * those that nobody has asked for the longest go first.
 */
#include "agent/agent.h"
#include "base/clock.h"

static struct proc *oldest(struct agent *a)
{
	return list_empty(&a->kept)
		       ? NULL
		       : container_of(a->kept.next, struct proc, node);
}

static void on_time(struct timer *t)
{
	struct agent *a = container_of(t, struct agent, kept_timer);
	uint64_t now = clock_boot_ms();
	struct proc *p;

	while ((p = oldest(a)) && p->kept.until_ms <= now)
		proc_drop(p);
	if (p)
		timer_set(&a->loop, t, p->kept.until_ms - now, on_time);
}

void kept_add(struct proc *p)
{
	struct agent *a = p->agent;

	list_del(&p->node);
	list_add(&a->kept, &p->node);
	a->n_procs--;
	a->n_kept++;
	p->kept.until_ms = clock_boot_ms() + KEPT_MS;
	p->kept.bytes = ring_bytes(&p->out[0].ring, p->out[0].end) +
			ring_bytes(&p->out[1].ring, p->out[1].end);
	a->kept_bytes += p->kept.bytes;
	while (a->n_kept > KEPT_MAX || a->kept_bytes > KEPT_BYTES)
		proc_drop(oldest(a));
	if (!a->kept_timer.slot)
		timer_set(&a->loop, &a->kept_timer, KEPT_MS, on_time);
}

void kept_del(struct proc *p)
{
	struct agent *a = p->agent;

	if (!p->kept.until_ms)
		return;
	p->kept.until_ms = 0;
	a->kept_bytes -= p->kept.bytes;
	a->n_kept--;
	a->n_procs++;
	list_del(&p->node);
	list_add(&a->procs, &p->node);
}
