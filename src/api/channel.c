/*
 * Channels of an agent: numbers, and what becomes of one whose owner goes.
 *
 * Whoever asked for a process is also how the log hears of its exit. When it
 * goes, its channel stays for that, without output; it is a watcher then.
 */
#include <errno.h>
#include <stdlib.h>

#include "api/agent_link.h"
#include "api/api.h"
#include "api/proc_log.h"

/* So many at most of an agent's channels: clients need some, too. */
enum { WATCHERS_MAX = CHANNELS_MAX / 2 };
/* A number is a generation and, below it, the slot. */
enum {
	SLOT_BITS = 10,
	SLOT_MASK = (1 << SLOT_BITS) - 1,
	GENERATION_MASK = UINT32_MAX >> SLOT_BITS,
};
_Static_assert(CHANNELS_MAX == SLOT_MASK + 1, "slots double up to this");

static const struct chan_ops watcher;

static struct sandbox *box_of(struct chan *ch)
{
	return container_of(ch->agent, struct sandbox, agent);
}

/* The slots double up to the limit; most sandboxes never need many. */
static int free_slot(struct agent_link *g, unsigned *out)
{
	unsigned i, n = g->n_slots;

	for (i = 0; i < n; i++)
		if (!g->slot[i]) {
			*out = i;
			return 0;
		}
	if (n == CHANNELS_MAX)
		return -EMFILE;
	g->n_slots = n ? 2 * n : 4;
	g->slot = xrealloc(g->slot, g->n_slots * sizeof(struct chan *));
	for (i = n; i < g->n_slots; i++)
		g->slot[i] = NULL;
	*out = n;
	return 0;
}

struct chan *chan_new(struct agent_link *g, const struct chan_ops *ops,
		      void *owner, uint32_t owner_no)
{
	struct chan *ch;
	unsigned slot;

	if (free_slot(g, &slot) < 0)
		return NULL;
	/*
	 * A number is not used again for 2^22 channels: frames that are
	 * under way for an old one are never taken for the new one's.
	 */
	g->generation = (g->generation + 1) & GENERATION_MASK;
	if (g->generation == 0)
		g->generation = 1;
	ch = xcalloc(1, sizeof(*ch));
	ch->agent = g;
	ch->ops = ops;
	ch->owner = owner;
	ch->owner_no = owner_no;
	ch->agent_no = g->generation << SLOT_BITS | slot;
	ch->connection = g->n_connections;
	list_init(&ch->node);
	g->slot[slot] = ch;
	g->n_chans++;
	g->n_watchers += ops == &watcher;
	box_touch(box_of(ch));
	pulse_ask(g);
	return ch;
}

struct chan *chan_find(struct agent_link *g, uint32_t no)
{
	struct chan *ch;

	if ((no & SLOT_MASK) >= g->n_slots)
		return NULL;
	ch = g->slot[no & SLOT_MASK];
	return ch && ch->agent_no == no ? ch : NULL;
}

unsigned agent_processes(const struct agent_link *g)
{
	unsigned i, n = 0;

	/* Each has one channel that its exit goes to. */
	for (i = 0; i < g->n_slots; i++)
		n += g->slot[i] && g->slot[i]->logs;
	return n;
}

static void set_attach(struct chan *ch, const struct attach *at)
{
	int i;

	ch->attach = true;
	for (i = 0; i < 2; i++)
		ch->out[i] = ch->out_acked[i] = at->out[i];
}

void chan_attach(struct chan *ch, const struct attach *at)
{
	set_attach(ch, at);
	attach_put(endpoint_out(&ch->agent->ep), ch->agent_no, at);
}

void chan_unlink(struct chan *ch)
{
	ch->agent->slot[ch->agent_no & SLOT_MASK] = NULL;
	ch->agent->n_chans--;
	ch->agent->n_watchers -= ch->ops == &watcher;
	if (ch->ops != &watcher)
		box_touch(box_of(ch));
	list_del(&ch->node);
}

void chan_bury(struct chan *ch)
{
	proc_note_free(ch->note);
	free(ch);
}

void chan_free(struct chan *ch)
{
	chan_unlink(ch);
	chan_bury(ch);
}

static void become_watcher(struct chan *ch)
{
	ch->ops = &watcher;
	ch->agent->n_watchers++;
	box_touch(box_of(ch));
}

void chan_leave(struct chan *ch, bool lost)
{
	struct agent_link *g = ch->agent;
	bool watch = (ch->note || ch->logs) && g->n_watchers < WATCHERS_MAX;
	uint8_t flags = (lost ? DETACH_LOST : 0) | (watch ? DETACH_WATCH : 0);

	list_del(&ch->node);
	ch->ops = NULL;
	ch->owner = NULL;
	/* Else agent_lost() is about to come to it. */
	if (!agent_is_connected(g) || ch->connection != g->n_connections)
		return;
	frame_put(endpoint_out(&g->ep), FRAME_DETACH, 0, ch->agent_no, &flags,
		  1);
	/*
	 * Frames of the agent may be under way to the channel: it stays, and
	 * they are dropped, until it is sure that all of them have come.
	 */
	if (watch)
		become_watcher(ch);
	else
		agent_left(g, ch);
}

/* The exit was written down when it was checked; output was under way. */
static int watcher_frame(struct chan *ch, const struct frame *f, uint8_t *raw,
			 bool last)
{
	(void)ch;
	(void)f;
	(void)raw;
	(void)last;
	return FRAME_GO_ON;
}

static void watcher_failed(struct chan *ch, int code, const char *msg)
{
	(void)ch;
	(void)code;
	(void)msg;
}

static const struct chan_ops watcher = {
	.frame = watcher_frame,
	.failed = watcher_failed,
};

void chan_watch(struct agent_link *g, uint32_t number)
{
	struct attach at = { .number = number,
			     .out = { OFFSET_NONE, OFFSET_NONE } };
	struct chan *ch = NULL;

	if (g->n_watchers < WATCHERS_MAX)
		ch = chan_new(g, &watcher, NULL, 0);
	if (!ch)
		return;
	ch->logs = true;
	chan_attach(ch, &at);
}
