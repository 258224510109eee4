/*
 * A tally for the sandbox, and one for each host that has a budget of its own.
 * A request is part of the first and of those whose host it goes to; each of
 * them must have room. The limits of several policies hold all: of each kind
 * the smallest.
 *
 * The limits are the sandbox's, the counters are its account's (account.h): a
 * fork finds spent what its relatives spent. The counters are in the account's
 * state, written before what they count leaves; beside them `own` counts what
 * the sandbox alone did. What must not outlive this process (connections that
 * are open, the last second) is in the account's memory. Tokens that a request
 * may use are held until its answer says how many it were; what a killed door
 * held counts as used.
 */
#include "gate/budget.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/guards.h"
#include "base/log.h"
#include "gate/budget_parts.h"
#include "gate/model.h"
#include "gate/record.h"
#include "gate/state.h"
#include "http/parse.h"

enum {
	PAUSE_AGAIN_MS = 10000, /* a sandbox that somebody woke too early */
	LIMIT_TEXT = 72,
};

static_assert(LIMITS <= 16, "a bit each in budget_hold.granted");
static_assert((int)HOLD_TALLIES >= (int)STATE_BUDGETS,
	      "and there is a row for each");

/* --- limits --- */

static void smaller(uint64_t *a, uint64_t b)
{
	if (b && (*a == 0 || b < *a))
		*a = b;
}

/* So many in so long: the fewer in the same time. */
static void slower(uint64_t *n, uint64_t *ms, uint64_t n2, uint64_t ms2)
{
	if (!n2 || !ms2)
		return;
	if (!*n || (double)n2 / (double)ms2 < (double)*n / (double)*ms) {
		*n = n2;
		*ms = ms2;
	}
}

static void merge(struct tally *t, const struct budget *b)
{
	struct budget *l = &t->limit;

	if (b->per_ms == 0)
		smaller(&t->requests, b->requests);
	slower(&l->requests, &l->per_ms, b->requests, b->per_ms);
	slower(&l->rate, &l->rate_ms, b->rate, b->rate_ms);
	smaller(&l->up_bytes, b->up_bytes);
	smaller(&l->down_bytes, b->down_bytes);
	smaller(&l->connections, b->connections);
	smaller(&l->tokens, b->tokens);
	smaller(&l->cost_micro, b->cost_micro);
}

static void pattern_text(const struct host_pattern *p,
			 char out[POLICY_HOST_CAP])
{
	AUTO(buf_done) struct buf text = { 0 };

	host_pattern_print(p, &text);
	snprintf(out, POLICY_HOST_CAP, "%.253s", buf_str(&text));
}

/* Where a host's counters are already; 0: nowhere. */
static unsigned old_slot(const struct account *a, const char *text)
{
	unsigned i;

	for (i = 1; i < STATE_BUDGETS; i++)
		if (strcmp(a->state->budgets[i].host, text) == 0)
			return i;
	return 0;
}

/* Does a policy of this sandbox name the host of the slot? */
static bool names_slot(const struct box *b, unsigned slot)
{
	char text[POLICY_HOST_CAP];
	unsigned i;
	size_t k;

	for (i = 0; i < b->n_parts; i++)
		for (k = 0; k < b->parts[i].policy.n_budgets; k++) {
			pattern_text(&b->parts[i].policy.budgets[k].host, text);
			if (old_slot(b->account, text) == slot)
				return true;
		}
	return false;
}

/* No new host takes the slot of one that a member's policies still name. */
static bool slot_in_use(const struct account *a, unsigned slot)
{
	struct list *n, *next;

	if (a->live[slot].open > 0)
		return true;
	if (!a->state->budgets[slot].host[0])
		return false;
	list_each (n, next, &a->boxes)
		if (names_slot(container_of(n, struct box, in_account), slot))
			return true;
	return false;
}

/* The slot of a host's counters: the old one, a free one, or the slot of a host
 * that policies no longer name. 0: all slots are in use. */
static unsigned find_slot(struct budgets *x, struct account *a,
			  const char *text)
{
	unsigned i, found = old_slot(a, text);

	if (found)
		return found;
	for (i = 1; i < STATE_BUDGETS; i++) {
		if (slot_in_use(a, i))
			continue;
		if (!a->state->budgets[i].host[0]) {
			found = i;
			break;
		}
		if (!found)
			found = i;
	}
	if (found) {
		a->state->budgets[found] = (struct state_budget){ 0 };
		snprintf(a->state->budgets[found].host, POLICY_HOST_CAP, "%s",
			 text);
		a->live[found] = (struct account_live){ 0 };
		x->v[found] = (struct tally){ 0 };
	}
	return found;
}

static void add_host(struct budgets *x, struct box *b,
		     const struct host_budget *h)
{
	char text[POLICY_HOST_CAP];
	unsigned i;

	pattern_text(&h->host, text);
	i = find_slot(x, b->account, text);
	if (i == 0) {
		x->too_many = true;
		return;
	}
	x->v[i].used = true;
	x->v[i].host = h->host;
	merge(&x->v[i], &h->budget);
}

static void settle_held(struct state_budget *t)
{
	t->count.tokens_out += t->tokens_held;
	t->count.cost_micro += t->cost_held;
	t->tokens_held = t->cost_held = 0;
}

static void settle_account(struct account *a)
{
	unsigned i;

	if (a->settled)
		return;
	a->settled = true;
	for (i = 0; i < STATE_BUDGETS; i++)
		settle_held(&a->state->budgets[i]);
}

static void build(struct budgets *x, struct box *b)
{
	unsigned i;
	size_t k;

	settle_account(b->account);
	if (!x->built)
		settle_held(&b->state->own);
	x->built = true;
	x->generation = b->generation;
	x->over = OVER_UNSAID;
	x->too_many = false;
	x->pause_ms = 0;
	for (i = 0; i < STATE_BUDGETS; i++) {
		x->v[i].used = i == 0;
		x->v[i].limit = (struct budget){ 0 };
		x->v[i].requests = 0;
		x->v[i].told = 0;
		b->account->live[i].down_spent = false;
	}
	for (i = 0; i < b->n_parts; i++) {
		const struct policy *p = &b->parts[i].policy;

		merge(&x->v[0], &p->budget);
		for (k = 0; k < p->n_budgets; k++)
			add_host(x, b, &p->budgets[k]);
		if (x->over == OVER_UNSAID)
			x->over = p->over;
	}
	if (x->too_many)
		log_err("sandbox %s has budgets of too many hosts, nothing "
			"leaves",
			b->id);
}

/* NULL: the sandbox has no state yet. */
static struct budgets *budgets_of(struct box *b)
{
	if (!b->state || !b->account->state)
		return NULL;
	if (!b->budgets)
		b->budgets = xcalloc(1, sizeof(*b->budgets));
	if (!b->budgets->built || b->budgets->generation != b->generation)
		build(b->budgets, b);
	return b->budgets;
}

void budget_forget(struct box *b)
{
	free(b->budgets);
	b->budgets = NULL;
}

/* --- windows --- */

/*
 * The longest window that a member's policies give to this slot. Relatives
 * may have different policies, and the shorter window must not refill the
 * longer one.
 */
static uint64_t longest(const struct account *a, unsigned slot, bool rate)
{
	struct list *n, *next;
	uint64_t most = 0;

	list_each (n, next, &a->boxes) {
		const struct budgets *x =
			container_of(n, struct box, in_account)->budgets;
		const struct tally *t = x ? &x->v[slot] : NULL;
		uint64_t ms = !t || !t->used ? 0
			      : rate         ? t->limit.rate_ms
					     : t->limit.per_ms;

		if (ms > most)
			most = ms;
	}
	return most;
}

static void untell(const struct account *a, unsigned slot, enum limit l)
{
	struct list *n, *next;

	list_each (n, next, &a->boxes) {
		struct budgets *x =
			container_of(n, struct box, in_account)->budgets;

		if (x)
			x->v[slot].told &= ~(1U << l);
	}
}

/*
 * Windows are measured with the boot clock, which cannot be set. Only the start
 * of a window that an earlier gate worker began is known in wall time alone:
 * if that clock was set back since, the window begins now.
 */
static void turn_windows(struct account *a, unsigned slot)
{
	struct account_live *t = &a->live[slot];
	struct state_budget *s = &a->state->budgets[slot];
	uint64_t wall = clock_wall_ms(), now = clock_boot_ms();
	uint64_t per_ms = longest(a, slot, false);
	uint64_t rate_ms = longest(a, slot, true);

	if (!t->timed)
		t->window_ms =
			(int64_t)now - (int64_t)(wall > s->window_ms
							 ? wall - s->window_ms
							 : 0);
	t->timed = true;
	if (per_ms && (int64_t)now - t->window_ms >= (int64_t)per_ms) {
		t->window_ms = (int64_t)now;
		s->window_ms = wall;
		s->in_window = 0;
		untell(a, slot, LIMIT_WINDOW);
	}
	if (rate_ms && now >= t->rate_ms + rate_ms) {
		t->rate_ms = now;
		t->in_rate = 0;
		untell(a, slot, LIMIT_RATE);
	}
}

/* --- what is said --- */

static const struct {
	const char *name;
	const char *what; /* behind the number */
} limits[LIMITS] = {
	[LIMIT_CONNECTIONS] = { "connections", "connections at once" },
	[LIMIT_RATE] = { "rate", "requests" },
	[LIMIT_WINDOW] = { "requests", "requests" },
	[LIMIT_REQUESTS] = { "requests", "requests in all" },
	[LIMIT_UP] = { "up", "sent" },
	[LIMIT_DOWN] = { "down", "received" },
	[LIMIT_TOKENS] = { "tokens", "tokens of models" },
	[LIMIT_COST] = { "cost", "for models" },
};

static void limit_text(const struct tally *t, enum limit l,
		       char out[LIMIT_TEXT])
{
	char size[SIZE_TEXT] = "", age[SIZE_TEXT] = "";
	const struct budget *b = &t->limit;
	uint64_t n = l == LIMIT_CONNECTIONS ? b->connections
		     : l == LIMIT_RATE      ? b->rate
		     : l == LIMIT_WINDOW    ? b->requests
		     : l == LIMIT_REQUESTS  ? t->requests
					    : b->tokens;

	if (l == LIMIT_UP || l == LIMIT_DOWN)
		size_text(l == LIMIT_UP ? b->up_bytes : b->down_bytes, size);
	else if (l == LIMIT_COST)
		snprintf(size, sizeof(size), "%" PRIu64 ".%02" PRIu64,
			 b->cost_micro / 1000000, b->cost_micro / 10000 % 100);
	else
		snprintf(size, sizeof(size), "%" PRIu64, n);
	if (l == LIMIT_WINDOW || l == LIMIT_RATE)
		age_text(l == LIMIT_RATE ? b->rate_ms : b->per_ms, age);
	snprintf(out, LIMIT_TEXT, "%s %s%s%s", size, limits[l].what,
		 *age ? " in " : "", age);
}

static void say_over(const struct box *b, unsigned slot, enum limit l,
		     char *out, size_t cap)
{
	const char *host = b->account->state->budgets[slot].host;
	bool shared = strcmp(b->account->id, b->id) != 0;
	char much[LIMIT_TEXT];

	limit_text(&b->budgets->v[slot], l, much);
	snprintf(out, cap,
		 "the budget of %.48s%s%s%s is used up (%s): ask an operator "
		 "for more",
		 *host ? host : "this sandbox", shared ? ", shared with " : "",
		 shared ? b->account->id : "", shared ? "," : "", much);
}

/* Once in its window. */
static void tell_over(struct box *b, unsigned slot, enum limit l,
		      const char *why)
{
	struct tally *t = &b->budgets->v[slot];
	AUTO(buf_done) struct buf json = { 0 };
	struct err e = { 0 };

	if (t->told & 1U << l)
		return;
	t->told |= 1U << l;
	buf_printf(&json, "\"limit\":\"%s\",\"host\":", limits[l].name);
	if (slot)
		record_string(&json, b->account->state->budgets[slot].host);
	else
		buf_puts(&json, "null");
	buf_puts(&json, ",\"why\":");
	record_string(&json, why);
	if (record_event(b->gate, b, "budget.over", buf_str(&json), &e) < 0)
		log_warn("sandbox %s: %s", b->id, why);
}

/* --- a request --- */

static bool is_full(const struct tally *t, const struct account *a,
		    unsigned slot, enum limit l)
{
	const struct state_budget *s = &a->state->budgets[slot];
	const struct account_live *live = &a->live[slot];
	const struct budget *b = &t->limit;
	const struct gate_count *c = &s->count;

	switch (l) {
	case LIMIT_CONNECTIONS:
		return b->connections && live->open >= b->connections;
	case LIMIT_RATE:
		return b->rate && live->in_rate >= b->rate;
	case LIMIT_WINDOW:
		return b->requests && s->in_window >= b->requests;
	case LIMIT_REQUESTS:
		return t->requests && c->requests >= t->requests;
	case LIMIT_UP:
		return b->up_bytes && c->up_bytes >= b->up_bytes;
	case LIMIT_DOWN:
		return b->down_bytes &&
		       (c->down_bytes >= b->down_bytes || live->down_spent);
	case LIMIT_TOKENS:
		return b->tokens && tokens_of(s) >= b->tokens;
	case LIMIT_COST:
		return b->cost_micro &&
		       c->cost_micro + s->cost_held >= b->cost_micro;
	case LIMITS:
	default:
		return false;
	}
}

/* The first limit that leaves no room for another request, or LIMITS. */
static enum limit full_limit(const struct budget_hold *h, unsigned slot,
			     bool model)
{
	const struct tally *t = &h->box->budgets->v[slot];
	struct account *a = h->box->account;
	enum limit l, end = model ? LIMITS : LIMIT_TOKENS;

	turn_windows(a, slot);
	for (l = 0; l < end; l++)
		if (is_full(t, a, slot, l) && !is_granted(h, slot, l))
			return l;
	return LIMITS;
}

static const struct host_model *model_of(const struct box *b, const char *host)
{
	unsigned i;
	size_t k;

	for (i = 0; i < b->n_parts; i++) {
		const struct policy *p = &b->parts[i].policy;

		for (k = 0; k < p->n_models; k++)
			if (host_pattern_fits(&p->models[k].host, host))
				return &p->models[k];
	}
	return prices_host(b->gate->prices, host);
}

static void find_tallies(struct budget_hold *h, const struct budgets *x,
			 const char *host)
{
	unsigned i;

	h->slots[0] = 0;
	h->n_slots = 1;
	for (i = 1; i < STATE_BUDGETS; i++)
		if (x->v[i].used && host_pattern_fits(&x->v[i].host, host))
			h->slots[h->n_slots++] = (unsigned char)i;
}

static void tell_pause(struct box *b, const char *why)
{
	const struct gate_msg m = { .kind = GATE_PAUSE,
				    .id = b->id,
				    .text = why };
	uint64_t now = clock_boot_ms();

	if (b->budgets->pause_ms && now - b->budgets->pause_ms < PAUSE_AGAIN_MS)
		return;
	b->budgets->pause_ms = now;
	gate_tell(b->gate, &m);
}

static enum budget_answer over(struct budget_hold *h, unsigned slot,
			       enum limit l, struct err *e)
{
	struct box *b = h->box;
	char why[BUDGET_WHY];

	say_over(b, slot, l, why, sizeof(why));
	tell_over(b, slot, l, why);
	err_set(e, EDQUOT, "%s", why);
	/* These pass by themselves: nobody is troubled with them. */
	if (l == LIMIT_CONNECTIONS || l == LIMIT_RATE)
		return BUDGET_DENY;
	switch (b->budgets->over) {
	case OVER_ASK:
		h->asked_slot = slot;
		h->asked_limit = l;
		return BUDGET_ASK;
	case OVER_PAUSE:
		tell_pause(b, why);
		return BUDGET_PAUSE;
	case OVER_UNSAID:
	case OVER_DENY:
	case OVERS:
	default:
		return BUDGET_DENY;
	}
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);

	return n >= k && strcmp(s + n - k, end) == 0;
}

/* Names a kind of request whose answer does not tell the tokens used, or only
 * later; NULL: the tokens can be counted. */
static const char *uncounted(const struct request *r,
			     const struct http_head *head)
{
	if (http_wants_upgrade(head, "websocket"))
		return "a WebSocket";
	if (r->path && r->method && strcmp(r->method, "POST") == 0 &&
	    (ends_with(r->path, "/batches") || ends_with(r->path, "/batches/")))
		return "a batch";
	return NULL;
}

static const char *has_no_count(const struct budget_hold *h,
				const struct budgets *x,
				const struct request *r,
				const struct http_head *head)
{
	unsigned i;

	for (i = 0; i < h->n_slots; i++)
		if (has_tokens(&x->v[h->slots[i]]))
			return uncounted(r, head);
	return NULL;
}

static void open_hold(struct budget_hold *h, const struct host_model *model)
{
	unsigned i;

	for (i = 0; i < h->n_slots; i++) {
		struct account_live *t = &h->box->account->live[h->slots[i]];

		t->open++;
		t->in_rate++;
		counter(h, i)->in_window++;
	}
	for (i = 0; i <= h->n_slots; i++)
		counter(h, i)->count.requests++;
	if (model) {
		h->model = xcalloc(1, sizeof(*h->model));
		h->model->shape = model->shape;
	}
	h->open = true;
}

enum budget_answer budget_begin(struct budget_hold *h, struct box *b,
				const struct request *r,
				const struct http_head *head, struct err *e)
{
	const struct host_model *model = head ? model_of(b, r->host) : NULL;
	struct budgets *x = budgets_of(b);
	const char *what;
	unsigned i;

	h->box = b;
	h->why[0] = '\0';
	if (!x || x->too_many) {
		err_set(e, EDQUOT, "%s",
			x ? "this sandbox has budgets of too many hosts: ask "
			    "an operator to make it fewer"
			  : "the counters of this sandbox are not here yet");
		return BUDGET_DENY;
	}
	snprintf(h->host, sizeof(h->host), "%s", r->host);
	find_tallies(h, x, r->host);
	what = model ? has_no_count(h, x, r, head) : NULL;
	if (what) {
		err_set(e, EDQUOT,
			"this sandbox has a budget of tokens or cost, and the "
			"gate cannot count the tokens of %s",
			what);
		return BUDGET_DENY;
	}
	for (i = 0; i < h->n_slots; i++) {
		unsigned slot = h->slots[i];
		enum limit l = full_limit(h, slot, model != NULL);

		if (GUARD(BUDGET) && l < LIMITS)
			return over(h, slot, l, e);
	}
	open_hold(h, model);
	return BUDGET_OK;
}

void budget_grant(struct budget_hold *h)
{
	h->granted[h->asked_slot] |= (unsigned short)(1U << h->asked_limit);
}

/* --- bytes --- */

bool budget_stop(struct budget_hold *h, unsigned slot, enum limit l)
{
	if (!h->why[0]) {
		say_over(h->box, slot, l, h->why, sizeof(h->why));
		tell_over(h->box, slot, l, h->why);
	}
	return false;
}

bool budget_up(struct budget_hold *h, uint64_t n)
{
	struct box *b = h->box;
	unsigned i;

	if (!h->open || h->why[0])
		return false;
	for (i = 0; i < h->n_slots; i++) {
		uint64_t most = b->budgets->v[h->slots[i]].limit.up_bytes;

		if (most && !is_granted(h, h->slots[i], LIMIT_UP) &&
		    counter(h, i)->count.up_bytes + n > most)
			return budget_stop(h, h->slots[i], LIMIT_UP);
	}
	for (i = 0; i <= h->n_slots; i++)
		counter(h, i)->count.up_bytes += n;
	h->up += n;
	return true;
}

bool budget_down(struct budget_hold *h, uint64_t n)
{
	struct box *b = h->box;
	unsigned i;

	if (!h->open)
		return false;
	for (i = 0; i < h->n_slots; i++) {
		uint64_t most = b->budgets->v[h->slots[i]].limit.down_bytes;

		if (most && !is_granted(h, h->slots[i], LIMIT_DOWN) &&
		    counter(h, i)->count.down_bytes + n > most) {
			b->account->live[h->slots[i]].down_spent = true;
			return budget_stop(h, h->slots[i], LIMIT_DOWN);
		}
	}
	for (i = 0; i <= h->n_slots; i++)
		counter(h, i)->count.down_bytes += n;
	h->down += n;
	return true;
}

const char *budget_why(const struct budget_hold *h)
{
	return h->why;
}

bool budget_needs_look(const struct box *b, const char *host, uint16_t port)
{
	(void)port;
	return model_of(b, host) != NULL;
}

/* --- the end --- */

void budget_end(struct budget_hold *h, int status)
{
	unsigned i;

	if (!h->open)
		return;
	h->open = false;
	for (i = 0; i < h->n_slots; i++)
		h->box->account->live[h->slots[i]].open--;
	if (h->model)
		budget_settle(h, status);
	free(h->model);
	h->model = NULL;
}

void box_count(const struct box *b, struct gate_count *out)
{
	*out = b->state ? b->state->own.count : (struct gate_count){ 0 };
}

void budget_denied(struct box *b)
{
	if (b->state)
		b->state->own.count.denied++;
}
