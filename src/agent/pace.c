/*
 * Output that nobody waits for is read nevertheless: its writer would be
 * killed by a closed pipe and stopped by a full one. But the agent is outside
 * of the sandbox's processor limit, and processes that only write must not
 * keep it busy: so all of this reading together has a bounded pace.
 */
#include "agent/agent.h"

enum {
	PACE_MS = 5,
	PACE_BYTES = 128 * 1024, /* in that time: some 26 MB/s */
	READ_COST = 4096,        /* a read counts as that, at least */
	TURNS = PACE_BYTES / READ_COST,
};

static void on_pace(struct timer *t)
{
	struct agent *a = container_of(t, struct agent, pace.timer);
	int i;

	a->pace.left = PACE_BYTES;
	for (i = 0; i < TURNS && !list_empty(&a->pace.waiting); i++) {
		struct paced *p =
			container_of(a->pace.waiting.next, struct paced, node);

		list_del(&p->node);
		p->turn(p);
	}
	if (!list_empty(&a->pace.waiting))
		timer_set(&a->loop, t, PACE_MS, on_pace);
}

void pace_init(struct agent *a)
{
	list_init(&a->pace.waiting);
	a->pace.left = PACE_BYTES;
}

bool pace_ask(struct agent *a, struct paced *p)
{
	if (a->pace.left > 0)
		return true;
	list_del(&p->node);
	list_add(&a->pace.waiting, &p->node);
	return false;
}

void pace_spend(struct agent *a, ssize_t n)
{
	a->pace.left -= n > READ_COST ? n : READ_COST;
	if (!a->pace.timer.slot)
		timer_set(&a->loop, &a->pace.timer, PACE_MS, on_pace);
}
