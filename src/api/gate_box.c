/*
 * The door of a sandbox, step by step, each taken when the one before it is
 * done and its door is there:
 *
 *	sockets	    made by the warden in the sandbox's network
 *	box	    they go to the door, with policies and secrets
 *	sync	    the door says that this is in force
 *	inside	    the agent writes the authority and the resolver's address
 *
 * A gate that starts anew has no sockets: they are asked for again, and are
 * the same ones. A change of policies begins at the second step.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/e2b.h"
#include "api/gate_link.h"
#include "api/process.h"
#include "api/secrets.h"
#include "base/auto.h"
#include "base/buf.h"

enum {
	AGAIN_MS = 1000,      /* after a failure, and twice that... */
	AGAIN_MAX_MS = 60000, /* ...up to this */
	WORDS_MAX = 200,
	UP_VM_MS = 30000, /* emulated, files inside take their time */
};

struct box_gate {
	struct list node; /* link->boxes */
	struct sandbox *box;
	struct gate_link *link;
	struct warden_call call;
	struct gate_wait sync;
	struct process inside;
	struct buf authority; /* what is left for it to read */
	char words[WORDS_MAX];
	size_t n_words;
	bool has;   /* the door has its sockets */
	bool dirty; /* and has not heard what the spec says now */
	bool fresh; /* nothing was written inside, as far as we know */
	char why[sizeof(((struct err *)0)->msg)]; /* it does not stand; "" */
	char stop[WORDS_MAX]; /* why its budget had it paused; "" */
	struct pause_waiter pauser;
	struct timer again;
	unsigned again_ms;
	struct list ups;
	struct deferred gone;
};

static void advance(struct box_gate *g);

/* --- who waits --- */

void gate_up_cancel(struct gate_up *u)
{
	if (!u->fn)
		return;
	u->fn = NULL;
	list_del(&u->node);
	timer_del(&u->box->api->loop, &u->timer);
}

static void tell_one(struct gate_up *u, const struct err *e)
{
	gate_up_fn *fn = u->fn;

	gate_up_cancel(u);
	fn(u, e);
}

static void tell(struct box_gate *g, const struct err *e)
{
	struct list *n, *next, line;

	/* Who is told may wait again. */
	list_init(&line);
	list_each (n, next, &g->ups) {
		list_del(n);
		list_add(&line, n);
	}
	while (!list_empty(&line))
		tell_one(container_of(line.next, struct gate_up, node), e);
}

static void on_up_late(struct timer *t)
{
	struct gate_up *u = container_of(t, struct gate_up, timer);
	struct err e = { 0 };

	err_set(&e, GATE_AWAY,
		"the gate does not answer, so sandbox %s has no door: see the "
		"daemon's log, or try again",
		u->box->id);
	tell_one(u, &e);
}

static void on_again(struct timer *t)
{
	advance(container_of(t, struct box_gate, again));
}

/* It does not stand: whoever waits hears so, and it is tried again. */
static void failed(struct box_gate *g, const struct err *e)
{
	struct sandbox *s = g->box;

	if (strcmp(g->why, e->msg) != 0)
		log_warn("sandbox=%s its door does not stand: %s", s->id,
			 e->msg);
	snprintf(g->why, sizeof(g->why), "%s", e->msg);
	g->again_ms = g->again_ms ? g->again_ms * 2 : AGAIN_MS;
	if (g->again_ms > AGAIN_MAX_MS)
		g->again_ms = AGAIN_MAX_MS;
	timer_set(&s->api->loop, &g->again, g->again_ms, on_again);
	tell(g, e);
}

static void stands(struct box_gate *g)
{
	*g->why = '\0';
	g->again_ms = 0;
	tell(g, NULL);
}

/* --- inside --- */

static void send_authority(struct process *p)
{
	struct box_gate *g = container_of(p, struct box_gate, inside);
	size_t n = process_input(p, buf_data(&g->authority),
				 buf_len(&g->authority));

	buf_eat(&g->authority, n);
	if (buf_len(&g->authority) == 0)
		process_input_eof(p);
}

static void on_words(struct process *p, unsigned stream, const void *data,
		     size_t n)
{
	struct box_gate *g = container_of(p, struct box_gate, inside);
	size_t room = sizeof(g->words) - 1 - g->n_words, i;

	for (i = 0; i < n && i < room; i++) {
		char c = ((const char *)data)[i];

		g->words[g->n_words++] = c >= ' ' && c <= '~' ? c : ' ';
	}
	process_consumed(p, stream, n);
}

static void on_written(struct process *p, const struct exit_info *x,
		       const struct err *why)
{
	struct box_gate *g = container_of(p, struct box_gate, inside);
	struct err e = { 0 };

	g->box->agent.n_own--;
	if (x && !x->signaled && x->code == 0) {
		g->fresh = false;
		advance(g);
		return;
	}
	g->words[g->n_words] = '\0';
	err_set(&e, EIO, "the door's files inside: %s",
		why          ? why->msg
		: g->n_words ? g->words
			     : "not written");
	failed(g, &e);
}

static const struct process_ops inside_ops = {
	.started = send_authority,
	.output = on_words,
	.room = send_authority,
	.ended = on_written,
};

static void write_inside(struct box_gate *g, const char *ca)
{
	const char *argv[] = { "host.door", "/", NULL }, *env[] = { NULL };
	const struct spawn sp = { .flags = SPAWN_BUILTIN | SPAWN_STDIN,
				  .user = "",
				  .cwd = "/",
				  .tag = "",
				  .argc = 2,
				  .argv = argv,
				  .env = env };
	struct err e = { 0 };

	g->inside = (struct process){ .ops = &inside_ops };
	g->n_words = 0;
	buf_clear(&g->authority);
	buf_puts(&g->authority, ca);
	g->box->agent.n_own++;
	if (process_spawn(&g->inside, g->box, &sp, &e) == 0)
		return;
	g->box->agent.n_own--;
	failed(g, &e);
}

/* --- what the door is told --- */

static void on_synced(struct gate_wait *w, const struct gate_msg *m,
		      const struct err *e)
{
	struct box_gate *g = container_of(w, struct box_gate, sync);

	if (m)
		advance(g);
	else
		failed(g, e);
}

/* Takes the descriptors. */
static void send_box(struct box_gate *g, uint32_t which, int *fds, int n_fds)
{
	struct sandbox *s = g->box;
	struct gate_msg m = { .kind = GATE_BOX,
			      .id = s->id,
			      .project = s->project,
			      .name = s->spec.name,
			      .account = s->account->id,
			      .flags = s->spec.observe ? GATE_OBSERVE : 0,
			      .fds = which,
			      .ask_ms = s->api->conf.ask_timeout_ms };
	struct gate_parts parts = { 0 };
	struct gate_uses words;
	struct err e = { 0 };

	if (gate_uses(s, &words, &m, &e) < 0 ||
	    gate_parts(s, &parts, &m, &e) < 0) {
		gate_parts_done(&parts);
		failed(g, &e);
		return;
	}
	gate_send(g->link, &m, fds, n_fds);
	gate_parts_done(&parts);
	if (e2b_kept(s))
		gate_send_self(g->link, s);
	g->has = true;
	g->dirty = false;
	gate_cancel(&g->sync);
	gate_sync(g->link, &g->sync, on_synced);
}

/* --- sockets --- */

static void on_sockets(struct warden_call *c, const struct warden_rep *rep,
		       int fds[FD_PASS_MAX])
{
	struct box_gate *g = container_of(c, struct box_gate, call);
	uint32_t which = rep->door.fds;
	int n = __builtin_popcount(which & GATE_FDS_ALL);
	struct err e = { 0 };

	if (rep->err.code) {
		failed(g, &rep->err);
		return;
	}
	if ((which & ~(uint32_t)GATE_FDS_ALL) || fds[n - (n > 0)] < 0) {
		err_set(&e, EPROTO, "the warden made no sockets");
		failed(g, &e);
		return;
	}
	/* The link may have gone meanwhile: then they are asked for again. */
	if (!g->link->ready)
		return;
	send_box(g, which, fds, n);
}

static void ask_sockets(struct box_gate *g)
{
	warden_req_id(&g->call, WARDEN_DOOR, g->box->id);
	g->call.req.door.flags = e2b_kept(g->box) ? DOOR_SELF : 0;
	warden_ask(&g->box->api->warden, &g->call, on_sockets);
}

/* The next step, if none is under way. */
static void advance(struct box_gate *g)
{
	const struct sandbox *s = g->box;
	const struct gate_project *p;

	if (!g->link->ready || g->call.busy ||
	    (s->state != BOX_RUNNING && s->state != BOX_PAUSED))
		return;
	timer_del(&s->api->loop, &g->again);
	p = gate_project_get(g->link, s->project);
	if (!g->has)
		ask_sockets(g);
	else if (g->dirty)
		send_box(g, 0, NULL, 0);
	else if (g->sync.fn || process_is_open(&g->inside))
		return;
	else if (!g->fresh || s->state == BOX_PAUSED)
		stands(g);
	else if (p->ca)
		write_inside(g, p->ca);
}

/* --- what links say --- */

static struct box_gate *gate_of(struct list *n)
{
	return container_of(n, struct box_gate, node);
}

struct sandbox *gate_box_of(struct gate_link *l, const char *id)
{
	struct sandbox *s = box_by_id(l->api, id);

	return s && s->gate && s->gate->link == l ? s : NULL;
}

void gate_box_have(struct gate_link *l, const char *id)
{
	struct sandbox *s = box_by_id(l->api, id);

	if (s && s->gate && s->gate->link == l)
		s->gate->has = true;
	else
		gate_forget(l, id,
			    (!s || !spec_has_door(&s->spec)) &&
				    !account_is_needed(l->api, id));
}

/* It came back to a door that was told only now that it had left. */
void gate_box_lost(struct gate_link *l, const char *id)
{
	struct sandbox *s = gate_box_of(l, id);

	if (s)
		s->gate->has = false;
}

void gate_boxes_lost(struct gate_link *l)
{
	struct list *n, *next;

	list_each (n, next, &l->boxes) {
		struct box_gate *g = gate_of(n);

		gate_cancel(&g->sync);
		g->has = false;
		g->dirty = true;
	}
}

void gate_boxes_ready(struct gate_link *l)
{
	struct list *n, *next;

	if (*l->door) {
		gate_project_get(l, l->door);
		gate_send_secrets(l);
	}
	list_each (n, next, &l->boxes)
		advance(gate_of(n));
}

void gate_boxes_keys(struct gate_link *l, const struct gate_project *p)
{
	struct list *n, *next;

	list_each (n, next, &l->boxes)
		if (strcmp(gate_of(n)->box->project, p->name) == 0)
			advance(gate_of(n));
}

/* --- life --- */

/* With secrets a project has a door of its own; others share one. */
static const char *door_of(const struct api *a, const char *project)
{
	return project_secrets(a, project) > 0 ? project : "";
}

/* To another door. What it has counted goes with it. */
static void move(struct box_gate *g, struct gate_link *to)
{
	gate_forget(g->link, g->box->id, false);
	gate_cancel(&g->sync);
	list_del(&g->node);
	list_add(&to->boxes, &g->node);
	g->link = to;
	g->has = false;
}

static void attach(struct sandbox *s)
{
	struct box_gate *g = xcalloc(1, sizeof(*g));

	g->box = s;
	g->link = gate_link_get(s->api, door_of(s->api, s->project));
	/* One that was found again may not have got that far: what is right
	 * inside is left as it is. */
	g->fresh = true;
	g->dirty = true;
	list_init(&g->ups);
	list_init(&g->pauser.node);
	list_add(&g->link->boxes, &g->node);
	s->gate = g;
}

/* Its first secret may be one that moved nobody (below). */
static void to_right_door(struct sandbox *s)
{
	struct gate_link *to =
		gate_link_get(s->api, door_of(s->api, s->project));

	if (json_array_size(s->spec.secrets) > 0 && s->gate->link != to)
		move(s->gate, to);
}

int gate_box_up(struct sandbox *s, struct gate_up *u, gate_up_fn *fn)
{
	if (!s->gate && !spec_has_door(&s->spec))
		return 1;
	if (s->gate)
		to_right_door(s);
	else
		attach(s);
	s->gate->dirty = true;
	if (u) {
		u->box = s;
		u->fn = fn;
		list_add(&s->gate->ups, &u->node);
		timer_set(&s->api->loop, &u->timer,
			  box_is_machine(s) ? UP_VM_MS : GATE_WAIT_MS,
			  on_up_late);
	}
	advance(s->gate);
	return 0;
}

void gate_box_found(struct sandbox *s)
{
	if (!s->gate && !spec_has_door(&s->spec))
		return;
	if (!s->gate)
		attach(s);
	advance(s->gate);
}

static void gate_free(struct deferred *d)
{
	struct box_gate *g = container_of(d, struct box_gate, gone);

	buf_done(&g->authority);
	free(g);
}

void gate_account_gone(const struct account *x)
{
	struct gate_link *l =
		gate_link_find(x->api, door_of(x->api, x->project));

	/* A door that starts later asks about counters that it finds. */
	if (l)
		gate_forget(l, x->id, true);
}

/* May the gate forget what it has counted? Not while others draw on it. */
static bool counters_end(struct sandbox *s)
{
	if (!account_is_needed(s->api, s->id))
		return true;
	s->account->kept = true;
	return false;
}

void gate_box_down(struct sandbox *s, bool ended)
{
	struct box_gate *g = s->gate;
	struct err e = { 0 };

	/* One that is suspended has counters, and nothing else. */
	if (!g && ended && spec_has_door(&s->spec) && counters_end(s))
		gate_forget(gate_link_get(s->api, door_of(s->api, s->project)),
			    s->id, true);
	if (!g)
		return;
	s->gate = NULL;
	if (ended)
		egress_leave(&g->link->ends, s);
	gate_forget(g->link, s->id, ended && counters_end(s));
	list_del(&g->node);
	warden_cancel(&g->call);
	gate_cancel(&g->sync);
	timer_del(&s->api->loop, &g->again);
	list_del(&g->pauser.node);
	if (process_is_open(&g->inside)) {
		s->agent.n_own--;
		process_close(&g->inside, false);
	}
	err_set(&e, ESRCH, "sandbox %s has ended", s->id);
	tell(g, &e);
	loop_defer(&s->api->loop, &g->gone, gate_free);
}

json_t *gate_box_json(const struct sandbox *s)
{
	const struct box_gate *g = s->gate;
	bool up;

	if (!g)
		return NULL;
	up = g->link->ready && g->has && !g->dirty && *g->why == '\0';
	return json_pack("{s:b, s:s*, s:s*, s:o*, s:o*}", "up", up, "why",
			 *g->why ? g->why : NULL, "paused",
			 s->state == BOX_PAUSED && *g->stop ? g->stop : NULL,
			 "granted", grants_json(s), "egress",
			 s->egress.known ? egress_json(&s->egress.count)
					 : NULL);
}

/* --- changes --- */

void gate_policy_changed(struct api *a, const char *project, const char *name)
{
	struct list *n, *next;

	list_each (n, next, &a->boxes.all) {
		struct sandbox *s = container_of(n, struct sandbox, all);

		if (!s->gate || strcmp(s->project, project) != 0 ||
		    (name && strcmp(s->spec.policy, name) != 0))
			continue;
		s->gate->dirty = true;
		advance(s->gate);
	}
}

static bool uses(const struct sandbox *s, const char *secret)
{
	const json_t *v;
	size_t i;

	json_array_foreach (s->spec.secrets, i, v)
		if (strcmp(json_string_value(v), secret) == 0)
			return true;
	return false;
}

/*
 * To the door that the project has now. For what came with one sandbox and
 * ends with it the others stay where they are: a move ends connections.
 */
void gate_boxes_moved(struct api *a, const char *project, const char *secret)
{
	bool own = own_secret_is(secret);
	struct gate_link *to = NULL;
	struct list *n, *next;

	list_each (n, next, &a->boxes.all) {
		struct sandbox *s = container_of(n, struct sandbox, all);

		if (!s->gate || strcmp(s->project, project) != 0 ||
		    (own && !uses(s, secret)))
			continue;
		to = to ? to : gate_link_get(a, door_of(a, project));
		if (s->gate->link != to)
			move(s->gate, to);
		else if (!uses(s, secret))
			continue;
		s->gate->dirty = true;
		advance(s->gate);
	}
}

/* --- pauses --- */

static void on_paused(struct pause_waiter *w, struct sandbox *s,
		      const struct err *e)
{
	(void)s;
	(void)e; /* pause.c has written it down */
	list_del(&w->node);
	w->fn = NULL;
}

void gate_box_pause(struct sandbox *s, const char *why)
{
	struct box_gate *g = s->gate;
	size_t i;

	for (i = 0; i < sizeof(g->stop) - 1 && why[i]; i++)
		g->stop[i] = why[i] >= ' ' && why[i] <= '~' ? why[i] : '?';
	g->stop[i] = '\0';
	if (s->state != BOX_RUNNING || g->pauser.fn)
		return;
	g->pauser.cause = (struct pause_cause){ .reason = "budget" };
	g->pauser.fn = on_paused;
	box_pause(s, &g->pauser);
}
