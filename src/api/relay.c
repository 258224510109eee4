/*
 * Frames from clients. A client may do to its own sandbox what it likes, but
 * not more to us: it sends only what clients send, inside its windows, and
 * its requests get the sandbox's environment in front.
 *
 * What waits for a slow client is bounded by the windows of its channels; an
 * agent that fills the queue with tiny frames instead is stopped. That costs
 * the other clients of the sandbox, so a client cannot bring it about: with a
 * long queue it gets no further channel.
 */
#include "api/relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/agent_link.h"
#include "api/api.h"
#include "api/audit.h"
#include "api/proc_log.h"
#include "api/reply.h"
#include "api/spawn_spec.h"
#include "base/auto.h"
#include "base/product.h"
#include "wire/pack.h"

enum { LINGER_MS = 5000 };

static void relay_free(struct deferred *d)
{
	struct relay *r = container_of(d, struct relay, gone);

	endpoint_close(&r->ep);
	buf_done(&r->spawn);
	buf_done(&r->later);
	free(r);
}

/* Its processes go on, unheard. */
static void detach_all(struct relay *r)
{
	while (!list_empty(&r->chans)) {
		chan_leave(container_of(r->chans.next, struct chan, node),
			   true);
	}
}

/* The client is gone, or is made to go. */
static void relay_gone(struct relay *r)
{
	struct sandbox *s = r->box;

	endpoint_close(&r->ep);
	auto_snapshot_leave(&r->auto_snapshot);
	timer_del(&r->api->loop, &r->linger);
	list_del(&r->node);
	if (s) {
		agent_forget_pings(&s->agent, r);
		detach_all(r);
		/* The agent may have been stopped for our sake. */
		endpoint_resume(&s->agent.ep);
		if (r->run)
			box_kill(s, NULL);
	}
	r->box = NULL;
	share_give(r->place, 1);
	loop_defer(&r->api->loop, &r->gone, relay_free);
}

static void on_linger(struct timer *t)
{
	relay_gone(container_of(t, struct relay, linger));
}

/*
 * Our side is closed when everything was taken; then the client has a moment
 * to read it and to close its own. Closing at once would turn frames of the
 * client that we did not read into an error at its end.
 */
static void finish_if_flushed(struct relay *r)
{
	if (r->finishing && buf_len(endpoint_out(&r->ep)) == 0)
		http_stream_shutdown(&r->ep.stream);
}

static void relay_finish(struct relay *r)
{
	if (r->finishing)
		return;
	r->finishing = true;
	timer_set(&r->api->loop, &r->linger, LINGER_MS, on_linger);
	finish_if_flushed(r); /* or on_drained() does */
}

/* The last frame of a channel was queued, or the client left it. */
static void relay_ended(struct relay *r, uint32_t no)
{
	r->n_chans--;
	r->owed = buf_len(&r->ep.out);
	if (!r->run || no != 1 || r->finishing)
		return;
	/* The answer is under way: the sandbox's end is no longer waited for.
	 */
	relay_finish(r);
	if (r->box)
		box_kill(r->box, NULL);
}

/* A channel failed without the agent saying so. */
static void relay_fail(struct relay *r, uint32_t no, int code, const char *msg)
{
	struct buf b = { 0 };

	pack_u32(&b, (uint32_t)code);
	pack_str(&b, msg);
	frame_put(endpoint_out(&r->ep), FRAME_FAILED, 0, no, buf_data(&b),
		  buf_len(&b));
	buf_done(&b);
	relay_ended(r, no);
}

/* Does the client take so little that its agent is to stop? */
static bool is_full(const struct relay *r)
{
	size_t windows = (size_t)(r->n_chans + 1) * 2 * WIRE_WINDOW + r->owed;

	if (windows > CLIENT_MAX)
		windows = CLIENT_MAX;
	return buf_len(&r->ep.out) > windows + CLIENT_SLACK;
}

/* Is there more for it than one process may have written? */
static bool is_slow(const struct relay *r)
{
	return buf_len(&r->ep.out) > 2 * WIRE_WINDOW + CLIENT_SLACK;
}

void relay_resume(struct relay *r)
{
	if (!is_slow(r) && !(r->box && agent_is_full(&r->box->agent)) &&
	    buf_len(&r->later) == 0)
		endpoint_resume(&r->ep);
}

static int chan_frame(struct chan *ch, const struct frame *f, uint8_t *raw,
		      bool last)
{
	struct relay *r = ch->owner;

	endpoint_forward(&r->ep, raw, f, ch->owner_no);
	if (last)
		relay_ended(r, ch->owner_no);
	return is_full(r) ? FRAME_STOP : FRAME_GO_ON;
}

static void chan_failed(struct chan *ch, int code, const char *msg)
{
	relay_fail(ch->owner, ch->owner_no, code, msg);
}

static const struct chan_ops relay_chan = {
	.frame = chan_frame,
	.failed = chan_failed,
};

void relays_finish(struct sandbox *s)
{
	struct list *n, *next;

	list_each (n, next, &s->agent.relays) {
		struct relay *r = container_of(n, struct relay, node);

		list_del(&r->node);
		r->box = NULL;
		relay_finish(r);
	}
}

static struct chan *find_chan(struct relay *r, uint32_t no)
{
	struct list *n, *next;

	list_each (n, next, &r->chans) {
		struct chan *ch = container_of(n, struct chan, node);

		if (ch->owner_no == no)
			return ch;
	}
	return NULL;
}

/* A number for a channel that the client does not have. */
static bool is_new(struct relay *r, uint32_t no)
{
	return no != 0 && !find_chan(r, no);
}

/*
 * A channel at the agent; NULL: the client was told why there is none. What is
 * not `silent` needs a log to be written to.
 */
static struct chan *open_chan(struct relay *r, uint32_t no, bool silent)
{
	struct sandbox *s = r->box;
	struct err e = { 0 };
	struct chan *ch;
	int rc = box_usable(s, &r->who, r->request_id, &e);

	if (rc == 0 && !silent)
		rc = audit_ready(r->api, &e);
	if (rc == 0)
		rc = agent_connect(s, &e);
	r->n_chans++;
	if (rc < 0) {
		relay_fail(r, no, -rc, e.msg);
		return NULL;
	}
	ch = chan_new(&s->agent, &relay_chan, r, no);
	if (ch)
		list_add(&r->chans, &ch->node);
	else
		relay_fail(r, no, EMFILE, "too many processes were started");
	return ch;
}

/* A whole request: gets a channel at the agent, and the environment. */
static void spawn_now(struct relay *r, uint32_t no, const struct spawn *sp)
{
	struct chan *ch = open_chan(r, no, sp->flags & SPAWN_BUILTIN);
	json_t *more;
	int rc;

	if (!ch)
		return;
	more = gate_env(r->box);
	ch->note = proc_note_new(r->box, sp, &r->who, r->request_id);
	rc = spawn_put_spec(endpoint_out(&ch->agent->ep), ch->agent_no, sp,
			    &r->box->spec, more);
	json_decref(more);
	if (rc < 0) {
		chan_free(ch);
		relay_fail(r, no, E2BIG, "arguments and environment too large");
	}
}

/* Before a channel of it exists. */
static void spawn_fail(struct relay *r, uint32_t no, const struct err *e)
{
	r->n_chans++;
	relay_fail(r, no, e->code, e->msg);
}

/* The snapshot that a request waited for is there, or cannot be. */
static void on_snapshot(struct auto_snapshot *w, const struct err *e)
{
	struct relay *r = container_of(w, struct relay, auto_snapshot);
	AUTO(buf_done) struct buf later = r->later;
	AUTO(spawn_done) struct spawn sp = { 0 };

	r->later = (struct buf){ 0 };
	if (r->finishing || !r->box)
		return;
	if (e->code)
		spawn_fail(r, r->later_no, e);
	else if (spawn_get(buf_data(&later), buf_len(&later), &sp) == 0)
		spawn_now(r, r->later_no, &sp);
	relay_resume(r);
}

/* No further frame is looked at until it is there. */
static int spawn_later(struct relay *r, uint32_t no, const void *p, size_t n)
{
	struct err e = { 0 };

	if (auto_snapshot_take(&r->auto_snapshot, r->box, &r->who,
			       r->request_id, on_snapshot, &e) < 0) {
		spawn_fail(r, no, &e);
		return FRAME_GO_ON;
	}
	r->later_no = no;
	buf_add(&r->later, p, n);
	return FRAME_STOP;
}

static int spawn(struct relay *r, uint32_t no, const void *p, size_t n)
{
	AUTO(spawn_done) struct spawn sp = { 0 };
	struct err e = { 0 };

	if (!is_new(r, no) || spawn_get(p, n, &sp) < 0)
		return -EBADMSG;
	if (sp.flags & SPAWN_BUILTIN && str_starts(sp.argv[0], "host.")) {
		err_set(&e, EPERM, "this builtin is not for clients");
		spawn_fail(r, no, &e);
		return FRAME_GO_ON;
	}
	if (!(sp.flags & SPAWN_BUILTIN) && auto_snapshot_wanted(r->box))
		return spawn_later(r, no, p, n);
	spawn_now(r, no, &sp);
	return FRAME_GO_ON;
}

static int frame_attach(struct relay *r, const struct frame *f)
{
	struct attach at;
	struct chan *ch;

	if (!is_new(r, f->channel) || attach_get(f, &at) < 0)
		return -EBADMSG;
	ch = open_chan(r, f->channel, true);
	if (ch)
		chan_attach(ch, &at);
	return FRAME_GO_ON;
}

static int frame_spawn(struct relay *r, const struct frame *f)
{
	int rc;

	if (buf_len(&r->spawn) > 0 && r->spawn_no != f->channel)
		return -EBADMSG;
	if (buf_len(&r->spawn) + f->len > SPAWN_MAX)
		return -EBADMSG;
	if (buf_len(&r->spawn) == 0 && !(f->flags & FRAME_MORE))
		return spawn(r, f->channel, f->payload, f->len);
	buf_add(&r->spawn, f->payload, f->len);
	r->spawn_no = f->channel;
	if (f->flags & FRAME_MORE)
		return f->len > 0 ? FRAME_GO_ON : -EBADMSG;
	rc = spawn(r, f->channel, buf_data(&r->spawn), buf_len(&r->spawn));
	buf_clear(&r->spawn);
	return rc;
}

static int check_input(struct chan *ch, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);
	uint64_t offset = unpack_u64(&u), n = u.left;

	if (u.bad || n == 0 || ch->in_eof || offset != ch->in ||
	    offset + n - ch->in_acked > WIRE_WINDOW ||
	    (ch->attach && !ch->started))
		return -EBADMSG;
	ch->in += n;
	return 0;
}

static int check_input_eof(struct chan *ch, const struct frame *f)
{
	if (f->len != 0 || ch->in_eof)
		return -EBADMSG;
	ch->in_eof = true;
	return 0;
}

static int check_resize(struct chan *ch, const struct frame *f)
{
	(void)ch;
	return f->len == 4 ? 0 : -EBADMSG;
}

/* What its agent would not take would cost all clients of the sandbox. */
static int check_signal(struct chan *ch, const struct frame *f)
{
	(void)ch;
	return f->len == 1 && f->payload[0] >= 1 && f->payload[0] <= SIGNAL_MAX
		       ? 0
		       : -EBADMSG;
}

static int check_ack(struct chan *ch, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);
	unsigned s = unpack_u8(&u) - 1u;
	uint64_t offset = unpack_u64(&u);

	if (!unpack_ok(&u) || s > 1 || offset < ch->out_acked[s] ||
	    offset > ch->out[s] || offset > OFFSET_MAX)
		return -EBADMSG;
	ch->out_acked[s] = offset;
	return 0;
}

static int check_detach(struct chan *ch, const struct frame *f)
{
	(void)ch;
	return f->len == 1 && f->payload[0] <= 1 ? 0 : -EBADMSG;
}

static int (*const from_client[])(struct chan *ch, const struct frame *f) = {
	[FRAME_INPUT] = check_input,   [FRAME_INPUT_EOF] = check_input_eof,
	[FRAME_RESIZE] = check_resize, [FRAME_SIGNAL] = check_signal,
	[FRAME_ACK] = check_ack,       [FRAME_DETACH] = check_detach,
};

static int frame_ping(struct relay *r, const struct frame *f, uint8_t *raw)
{
	struct err e = { 0 };

	if (f->len > PING_MAX || r->n_pings == PINGS_MAX)
		return -EBADMSG;
	if ((r->box->state != BOX_RUNNING && r->box->state != BOX_PAUSED) ||
	    agent_connect(r->box, &e) < 0)
		return FRAME_GO_ON;
	r->n_pings++;
	agent_ping(&r->box->agent, r, raw, f);
	return FRAME_GO_ON;
}

static int pass_on(struct relay *r, const struct frame *f, uint8_t *raw)
{
	struct chan *ch = find_chan(r, f->channel);

	if (f->type >= ARRAY_LEN(from_client) || !from_client[f->type])
		return -EBADMSG;
	/* Its end is under way to the client: not the client's fault. */
	if (!ch)
		return FRAME_GO_ON;
	if (from_client[f->type](ch, f) < 0)
		return -EBADMSG;
	r->api->metrics.bytes_in += f->len;
	if (f->type == FRAME_DETACH) {
		chan_leave(ch, f->payload[0]);
		relay_ended(r, f->channel);
	} else {
		endpoint_forward(&ch->agent->ep, raw, f, ch->agent_no);
	}
	return FRAME_GO_ON;
}

static bool is_new_chan(const struct frame *f)
{
	return f->type == FRAME_SPAWN || f->type == FRAME_ATTACH;
}

static int on_frame(struct endpoint *ep, const struct frame *f, uint8_t *raw)
{
	struct relay *r = container_of(ep, struct relay, ep);
	int rc;

	if (r->finishing || !r->box)
		return FRAME_GO_ON;
	if (f->type != FRAME_SPAWN && (f->flags || buf_len(&r->spawn) > 0))
		return -EBADMSG;
	if (f->type == FRAME_SPAWN)
		rc = frame_spawn(r, f);
	else if (f->type == FRAME_ATTACH)
		rc = frame_attach(r, f);
	else if (f->type == FRAME_PING)
		rc = frame_ping(r, f, raw);
	else
		rc = pass_on(r, f, raw);
	if (rc != FRAME_GO_ON)
		return rc;
	if (r->box && agent_is_full(&r->box->agent))
		return FRAME_STOP;
	/* Not for other frames: it may have to send to come to reading. */
	return is_new_chan(f) && is_slow(r) ? FRAME_STOP : FRAME_GO_ON;
}

static void on_lost(struct endpoint *ep, int why)
{
	struct relay *r = container_of(ep, struct relay, ep);

	if (why == -EBADMSG || why == -EPROTO)
		log_info("sandbox=%s a client broke the protocol, "
			 "disconnecting it",
			 r->box ? r->box->id : "-");
	relay_gone(r);
}

static void on_drained(struct endpoint *ep)
{
	struct relay *r = container_of(ep, struct relay, ep);

	r->owed = 0;
	if (r->box)
		endpoint_resume(&r->box->agent.ep);
	relay_resume(r);
	finish_if_flushed(r);
}

static const struct endpoint_ops client_ops = {
	.frame = on_frame,
	.lost = on_lost,
	.drained = on_drained,
};

static int put_hello(struct buf *out)
{
	struct hello h = { .version_min = WIRE_VERSION,
			   .version_max = WIRE_VERSION };

	if (getrandom(h.nonce, sizeof(h.nonce), 0) != sizeof(h.nonce))
		return -EIO;
	hello_put(out, &h);
	return 0;
}

static int upgrade(struct relay *r, struct http_conn *c, struct sandbox *s,
		   struct http_stream *stream)
{
	const struct http_field extra[] = { { "Sandbox-Id", s->id }, { 0 } };
	int rc = http_upgrade(c, WIRE_UPGRADE, extra, stream, &r->ep.in,
			      &r->ep.out);

	if (rc < 0)
		return rc;
	rc = put_hello(&r->ep.out);
	if (rc < 0)
		http_stream_close(stream);
	return rc;
}

int relay_start(struct api *a, struct http_conn *c, struct sandbox *s,
		const struct identity *who, bool run, struct err *e)
{
	struct share *place = share_take(&a->pools.relays, who->project, 1, e);
	struct http_stream stream;
	struct relay *r;
	int rc;

	if (!place) {
		reply_err(a, c, e);
		return -e->code;
	}
	r = xcalloc(1, sizeof(*r));
	r->api = a;
	r->box = s;
	r->run = run;
	r->who = *who;
	memcpy(r->request_id, http_request_id(c), sizeof(r->request_id));
	list_init(&r->node);
	list_init(&r->chans);
	endpoint_init(&r->ep);
	rc = upgrade(r, c, s, &stream);
	if (rc == 0)
		rc = endpoint_take(&r->ep, &stream, &client_ops);
	if (rc < 0) {
		relay_free(&r->gone);
		share_give(place, 1);
		return err_set(e, -rc, "hand over the connection: %s",
			       strerror(-rc));
	}
	list_add(&s->agent.relays, &r->node);
	r->place = place;
	a->metrics.requests[1]++;
	return 0;
}
