/*
 * Is anybody there? An agent is our own program, and answers at once; behind a
 * microVM's line is a kernel that may have been taken over, or spins. Who waits
 * for such a machine is not to wait for ever, and a machine that does not
 * answer, or answers with lies again and again, is of no use: it is ended, and
 * its reason says so.
 *
 * It is asked for a sign of life as long as somebody waits for something of
 * it, an exit at the least, or has waited in vain.
 */
#include "api/agent_link.h"
#include "api/api.h"
#include "api/lifetime.h"

enum {
	LIES_MAX = 3, /* connections in a row that broke the protocol */
	STEPS = 8,    /* in the time after which it is given up */
};

static struct sandbox *box_of(struct agent_link *g)
{
	return container_of(g, struct sandbox, agent);
}

static void on_step(struct timer *t);

static void wait_more(struct agent_link *g)
{
	struct api *a = box_of(g)->api;

	timer_set(&a->loop, &g->pulse, a->conf.microvm_silence_ms / STEPS,
		  on_step);
}

/* It stands still, or a client that reads slowly has us not listen: that is our
 * own doing. */
static bool is_held(const struct sandbox *s)
{
	return s->agent.ep.stopped || s->state != BOX_RUNNING ||
	       s->restart.busy || s->pause.call.busy || !list_empty(&s->takes);
}

static void on_step(struct timer *t)
{
	struct agent_link *g = container_of(t, struct agent_link, pulse);
	struct sandbox *s = box_of(g);
	struct err e = { 0 };

	if (g->n_chans == 0 && list_empty(&g->pings) && !g->mute)
		return;
	if (is_held(s)) {
		g->silent_steps = 0;
	} else if (++g->silent_steps >= STEPS) {
		box_reason(s, "its machine has not answered for %.10g s",
			   (double)s->api->conf.microvm_silence_ms / 1000);
		g->silent_steps = 0;
		box_give_up(s, "silence");
		if (s->state == BOX_ENDING)
			return;
	} else if (agent_connect(s, &e) == 0 && list_empty(&g->pings)) {
		agent_ping_own(g);
	}
	wait_more(g);
}

void pulse_ask(struct agent_link *g)
{
	const struct sandbox *s = box_of(g);

	if (g->pulse.slot || !box_is_machine(s) ||
	    s->api->conf.microvm_silence_ms == 0 || s->state == BOX_ENDING)
		return;
	g->silent_steps = 0;
	wait_more(g);
}

void pulse_felt(struct agent_link *g)
{
	g->silent_steps = 0;
}

void pulse_lied(struct agent_link *g)
{
	struct sandbox *s = box_of(g);

	if (++g->lies < LIES_MAX || !box_is_machine(s))
		return;
	box_reason(s, "its machine broke the protocol %u times", g->lies);
	g->lies = 0;
	box_give_up(s, "protocol");
}
