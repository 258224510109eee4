/* Frames from agents: hostile ground. Every one is checked before it passes. */
#include "api/agent_link.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/api.h"
#include "api/proc_log.h"
#include "api/relay.h"
#include "base/auto.h"
#include "base/fd.h"
#include "base/guards.h"
#include "wire/pack.h"

enum {
	AGENT_OUT_MAX = 2 * SPAWN_MAX, /* queued for an agent: clients stop */
	FAILED_TEXT_MAX = 1024,
	/* How long a machine's agent may take for its hello, and how long the
	 * line is then left alone, so that the guest sees it; twice as long
	 * each time. Emulated, on a busy host, both take their time. */
	HELLO_MS = 3000,
	CUT_MS = 100,
	TRIES_MAX = 5,
};

/* A client's, or ours behind a DETACH: `left` is the channel then. */
struct ping {
	struct list node;
	struct relay *client; /* NULL: it left, or ours */
	uint32_t client_no;
	uint32_t left;
};

static struct sandbox *box_of(struct agent_link *g)
{
	return container_of(g, struct sandbox, agent);
}

void agent_init(struct agent_link *g)
{
	*g = (struct agent_link){ 0 };
	endpoint_init(&g->ep);
	list_init(&g->relays);
	list_init(&g->pings);
}

static void drop_pings(struct agent_link *g)
{
	struct list *n, *next;

	list_each (n, next, &g->pings) {
		struct ping *p = container_of(n, struct ping, node);

		if (p->client)
			p->client->n_pings--;
		free(p);
	}
	list_init(&g->pings);
}

static void hang_up(struct agent_link *g)
{
	timer_del(&box_of(g)->api->loop, &g->limit);
	g->cut = false;
	endpoint_close(&g->ep);
}

void agent_done(struct agent_link *g)
{
	hang_up(g);
	timer_del(&box_of(g)->api->loop, &g->pulse);
	drop_pings(g);
	free(g->slot);
	g->slot = NULL;
	g->n_slots = 0;
}

void agent_lost(struct agent_link *g, int code, const char *msg)
{
	unsigned connection = g->n_connections, i;

	hang_up(g);
	drop_pings(g);
	for (i = 0; i < g->n_slots; i++) {
		struct chan *ch = g->slot[i];

		/* Owners may connect anew while they hear of it. */
		if (!ch || ch->connection != connection)
			continue;
		chan_unlink(ch);
		if (ch->ops)
			ch->ops->failed(ch, code, msg);
		chan_bury(ch);
	}
}

static void on_lost(struct endpoint *ep, int why)
{
	struct agent_link *g = container_of(ep, struct agent_link, ep);
	struct sandbox *s = box_of(g);

	if (why == -EBADMSG || why == -EPROTO) {
		log_warn("sandbox=%s its agent broke the protocol, "
			 "disconnecting it",
			 s->id);
		s->degraded = true;
		s->api->metrics.agent_faults++;
		agent_lost(g, EPROTO, "agent broke the protocol");
		pulse_lied(g);
	} else if (s->state == BOX_ENDING) {
		agent_lost(g, ENOTCONN,
			   *s->reason ? s->reason : "the sandbox was removed");
	} else {
		agent_lost(g, ENOTCONN,
			   "the connection to the sandbox was lost");
	}
}

bool agent_is_full(const struct agent_link *g)
{
	return buf_len(&g->ep.out) > AGENT_OUT_MAX;
}

static void feed_starved(struct agent_link *g)
{
	unsigned i;

	g->starved = false;
	for (i = 0; i < g->n_slots; i++) {
		struct chan *ch = g->slot[i];

		if (ch && ch->ops && ch->ops->drained)
			ch->ops->drained(ch);
	}
}

static void on_drained(struct endpoint *ep)
{
	struct agent_link *g = container_of(ep, struct agent_link, ep);
	struct list *n, *next;

	if (g->starved)
		feed_starved(g);

	list_each (n, next, &g->relays)
		relay_resume(container_of(n, struct relay, node));
}

static int frame_pong(struct agent_link *g, const struct frame *f, uint8_t *raw)
{
	struct relay *client;
	struct chan *left;
	struct ping *p;
	uint32_t no;

	if (list_empty(&g->pings) || f->len > PING_MAX)
		return -EBADMSG;
	p = container_of(g->pings.next, struct ping, node);
	client = p->client;
	no = p->client_no;
	pulse_felt(g);
	left = p->left ? chan_find(g, p->left) : NULL;
	list_del(&p->node);
	free(p);
	if (left)
		chan_free(left);
	if (client) {
		client->n_pings--;
		endpoint_forward(&client->ep, raw, f, no);
	}
	return FRAME_GO_ON;
}

/* Each checks one type and takes down what it says; -EBADMSG is a violation.
 * Nothing is passed on yet. */
static int check_started(struct chan *ch, const struct frame *f)
{
	bool attached = f->type == FRAME_ATTACHED;
	struct started s;
	int i;

	if (ch->started || ch->attach != attached || started_get(f, &s) < 0)
		return -EBADMSG;
	ch->started = true;
	ch->number = s.number;
	if (ch->note) {
		proc_log_start(box_of(ch->agent), take_ptr(ch->note), &s);
		ch->logs = true;
	}
	if (!attached)
		return 0;
	ch->in = ch->in_acked = s.in;
	for (i = 0; i < 2; i++)
		if (ch->out[i] == OFFSET_NOW) /* unless a gap follows */
			ch->out[i] = ch->out_acked[i] = 0;
	return 0;
}

static int check_failed(struct chan *ch, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);

	(void)ch;
	unpack_u32(&u);
	if (strlen(unpack_str(&u)) > FAILED_TEXT_MAX || !unpack_ok(&u))
		return -EBADMSG;
	return 0;
}

static int check_output(struct chan *ch, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);
	unsigned s = unpack_u8(&u) - 1u;
	uint64_t offset = unpack_u64(&u), n = u.left;

	if (u.bad || s > 1 || n == 0 || !ch->started || ch->out_eof[s] ||
	    offset != ch->out[s])
		return -EBADMSG;
	if (offset > OFFSET_MAX || offset + n - ch->out_acked[s] > WIRE_WINDOW)
		return -EBADMSG;
	ch->out[s] += n;
	ch->placed[s] = true;
	box_output(box_of(ch->agent), n);
	return 0;
}

static int check_output_eof(struct chan *ch, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);
	unsigned s = unpack_u8(&u) - 1u;
	uint64_t offset = unpack_u64(&u);

	if (!unpack_ok(&u) || s > 1 || !ch->started || ch->out_eof[s] ||
	    offset != ch->out[s] || offset > OFFSET_MAX)
		return -EBADMSG;
	ch->out_eof[s] = ch->placed[s] = true;
	return 0;
}

/*
 * Only forward, and only once, in front of all output: an acknowledgement that
 * is under way must not point in front of it, and whoever is told of it keeps
 * the word until the client has taken it.
 */
static int check_gap(struct chan *ch, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);
	unsigned s = unpack_u8(&u) - 1u;
	uint64_t offset = unpack_u64(&u);

	if (!unpack_ok(&u) || s > 1 || !ch->attach || !ch->started ||
	    ch->placed[s] || offset > OFFSET_MAX || offset <= ch->out[s])
		return -EBADMSG;
	ch->out[s] = ch->out_acked[s] = offset;
	ch->placed[s] = true;
	return 0;
}

static int check_input_ack(struct chan *ch, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);
	uint64_t offset = unpack_u64(&u);

	if (!unpack_ok(&u) || offset <= ch->in_acked || offset > ch->in)
		return -EBADMSG;
	ch->in_acked = offset;
	return 0;
}

static int check_exit(struct chan *ch, const struct frame *f)
{
	struct exit_info x;

	if (!ch->started || exit_get(f, &x) < 0)
		return -EBADMSG;
	if (ch->logs)
		proc_log_exit(box_of(ch->agent), ch->number, &x);
	return 0;
}

static const struct {
	int (*check)(struct chan *ch, const struct frame *f);
	bool last; /* ends the channel */
} from_agent[] = {
	[FRAME_STARTED - FRAME_PONG] = { check_started, false },
	[FRAME_FAILED - FRAME_PONG] = { check_failed, true },
	[FRAME_OUTPUT - FRAME_PONG] = { check_output, false },
	[FRAME_OUTPUT_EOF - FRAME_PONG] = { check_output_eof, false },
	[FRAME_INPUT_ACK - FRAME_PONG] = { check_input_ack, false },
	[FRAME_EXIT - FRAME_PONG] = { check_exit, true },
	[FRAME_ATTACHED - FRAME_PONG] = { check_started, false },
	[FRAME_GAP - FRAME_PONG] = { check_gap, false },
};

static int on_frame(struct endpoint *ep, const struct frame *f, uint8_t *raw)
{
	struct agent_link *g = container_of(ep, struct agent_link, ep);
	unsigned type = (unsigned)f->type - FRAME_PONG;
	struct chan *ch;
	bool last;
	int r;

	if (f->flags)
		return -EBADMSG;
	if (f->type == FRAME_PONG)
		return frame_pong(g, f, raw);
	ch = chan_find(g, f->channel);
	if (!ch || type >= ARRAY_LEN(from_agent))
		return -EBADMSG;
	/* Under way when the owner left: dropped, unchecked. */
	if (!ch->ops)
		return FRAME_GO_ON;
	if (from_agent[type].check(ch, f) < 0 && GUARD(PROTOCOL))
		return -EBADMSG;
	box_of(g)->api->metrics.bytes_out += f->len;
	pulse_felt(g);
	last = from_agent[type].last;
	if (last)
		g->lies = 0;
	if (last)
		chan_unlink(ch);
	r = ch->ops->frame(ch, f, raw, last);
	if (last)
		chan_bury(ch);
	return r;
}

static const struct endpoint_ops agent_ops = {
	.frame = on_frame,
	.lost = on_lost,
	.drained = on_drained,
};

/* --- the start --- */

static int send_hello(struct endpoint *ep)
{
	struct hello h = { .version_min = WIRE_VERSION,
			   .version_max = WIRE_VERSION };

	if (getrandom(h.nonce, sizeof(h.nonce), 0) != sizeof(h.nonce))
		return -EIO;
	hello_put(&ep->out, &h);
	return 0;
}

static void on_limit(struct timer *t);

static int dial(struct sandbox *s, struct err *e)
{
	struct agent_link *g = &s->agent;
	char path[CONF_PATH + ID_CAP + 16];
	int fd, r;

	snprintf(path, sizeof(path), "%s/box/%s/agent.sock",
		 s->api->conf.run_dir, s->id);
	fd = unix_connect(path, SOCK_STREAM | SOCK_NONBLOCK);
	if (fd < 0)
		return err_set(e, ENOTCONN,
			       "the agent of sandbox %s does not answer: %s",
			       s->id, strerror(-fd));
	r = endpoint_open(&g->ep, &s->api->loop, fd, &agent_ops);
	if (r < 0)
		return err_set(e, -r, "watch the agent of sandbox %s", s->id);
	if (g->ep.waits)
		timer_set(&s->api->loop, &g->limit,
			  (uint64_t)HELLO_MS << g->tries, on_limit);
	return 0;
}

static void is_ill(struct sandbox *s)
{
	char why[REASON_CAP];

	s->agent.mute = true;
	s->api->metrics.agent_faults++;
	snprintf(why, sizeof(why),
		 "the machine of sandbox %s does not answer: restart or "
		 "remove it",
		 s->id);
	log_warn("sandbox=%s its machine does not answer, %d times", s->id,
		 TRIES_MAX);
	agent_lost(&s->agent, ETIMEDOUT, why);
}

/* Time is over: for a greeting, or for the guest to see that we left. */
static void on_limit(struct timer *t)
{
	struct agent_link *g = container_of(t, struct agent_link, limit);
	struct sandbox *s = box_of(g);
	struct err e = { 0 };

	if (g->cut) {
		g->cut = false;
		if (dial(s, &e) < 0)
			agent_lost(g, e.code, e.msg);
	} else if (g->ep.hello) {
		g->mute = false;
	} else if (s->state == BOX_PAUSED) {
		timer_set(&s->api->loop, t, HELLO_MS, on_limit);
	} else if (++g->tries == TRIES_MAX) {
		is_ill(s);
	} else {
		log_info("sandbox=%s its machine does not answer, trying again",
			 s->id);
		endpoint_cut(&g->ep);
		g->cut = true;
		timer_set(&s->api->loop, t, (uint64_t)CUT_MS << g->tries,
			  on_limit);
	}
}

int agent_connect(struct sandbox *s, struct err *e)
{
	struct agent_link *g = &s->agent;

	if (agent_is_connected(g))
		return 0;
	g->ep.waits = box_is_machine(s);
	g->tries = 0;
	if (send_hello(&g->ep) < 0 || dial(s, e) < 0) {
		endpoint_close(&g->ep);
		return e->code ? -e->code : err_set(e, EIO, "no randomness");
	}
	g->n_connections++;
	return 0;
}

void agent_ping(struct agent_link *g, struct relay *client, uint8_t *raw,
		const struct frame *f)
{
	struct ping *p = xcalloc(1, sizeof(*p));

	p->client = client;
	p->client_no = f->channel;
	list_add(&g->pings, &p->node);
	endpoint_forward(&g->ep, raw, f, 0);
}

static void ping_own(struct agent_link *g, uint32_t left)
{
	struct ping *p = xcalloc(1, sizeof(*p));

	p->left = left;
	list_add(&g->pings, &p->node);
	frame_put(endpoint_out(&g->ep), FRAME_PING, 0, 0, NULL, 0);
}

void agent_left(struct agent_link *g, const struct chan *ch)
{
	ping_own(g, ch->agent_no);
}

void agent_ping_own(struct agent_link *g)
{
	ping_own(g, 0);
}

void agent_forget_pings(struct agent_link *g, const struct relay *client)
{
	struct list *n, *next;

	list_each (n, next, &g->pings) {
		struct ping *p = container_of(n, struct ping, node);

		if (p->client == client)
			p->client = NULL;
	}
}
