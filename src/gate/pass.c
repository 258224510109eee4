/*
 * Before anything leaves: the policy, a person, the budget, credentials, the
 * log, the way there; in this order, and each may say no. What was reserved is
 * settled in pass_end(), whoever said it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/guards.h"
#include "gate/flow.h"
#include "http/target.h"

enum {
	STILL_MS = 1000, /* a budget that is used up is looked at again */
	LOG_LOOK_MS = 20,
	LOG_WAIT_MS = 5000,
};

static struct flow *of(struct pass *p)
{
	return container_of(p, struct flow, pass);
}

static struct loop *loop_of(struct flow *f)
{
	return &f->box->gate->loop;
}

/* What must not get lost counts more. */
static unsigned weight(const struct ruling *r)
{
	switch (r->verdict) {
	case VERDICT_ALLOW:
		return r->observed;
	case VERDICT_ASK:
		return 2;
	case VERDICT_LOOK:
		return 3;
	case VERDICT_DENY:
	default:
		return 4;
	}
}

/* A slash that came encoded is one to some servers and none to others: both
 * readings have to be allowed. */
static struct ruling decide(struct flow *f)
{
	struct pass *p = &f->pass;
	struct ruling r = box_decide(f->box, &p->request), other;
	struct request q = p->request;
	char kept[HTTP_TARGET_MAX + 1];

	if (!GUARD(SLASHES) || !p->head || !p->head->slashes)
		return r;
	http_path_kept(p->head->sent, kept);
	q.path = kept;
	other = box_decide(f->box, &q);
	return weight(&other) > weight(&r) ? other : r;
}

bool pass_needs_look(const struct flow *f, const char *host, uint16_t port)
{
	return inject_needs_look(f->box, host, port) ||
	       budget_needs_look(f->box, host, port);
}

/* --- the end --- */

/* Nobody is asked any more. */
static void stop(struct flow *f)
{
	struct pass *p = &f->pass;

	if (p->state == PASS_ASK)
		ask_cancel(&p->ask);
	if (p->state == PASS_INJECT)
		inject_cancel(&p->inject);
	if (p->state == PASS_DIAL)
		dial_cancel(&p->dial);
	timer_del(loop_of(f), &p->timer);
	p->state = PASS_NONE;
}

void pass_end(struct flow *f, int status, const char *failure)
{
	struct pass *p = &f->pass;
	struct egress_end end = {
		.status = status,
		.up_bytes = p->up,
		.down_bytes = p->down,
		.failure = failure,
	};

	if (p->state == PASS_NONE)
		return;
	stop(f);
	end.ms = clock_boot_ms() - p->began_ms;
	if (p->recorded)
		record_done(f->box->gate, &p->egress, &end);
	p->recorded = false;
	budget_end(&p->hold, status);
	if (p->head)
		inject_done(&p->inject);
	p->head = NULL;
}

void pass_denied(struct flow *f, const char *kind, const struct request *q,
		 const struct ruling *why, const struct refusal *r)
{
	struct egress x = {
		.box = f->box,
		.kind = kind,
		.request = q,
		.ruling = why,
	};

	record_denied(f->box->gate, &x, r->text);
}

void pass_malformed(struct flow *f, const struct refusal *r)
{
	struct request q = {
		.scheme = f->scheme,
		.host = f->place.host,
		.port = f->place.port,
	};
	struct ruling none = { .part = "no rule" };

	pass_denied(f, f->scheme == SCHEME_HTTPS ? "https" : "http", &q, &none,
		    r);
}

static void refuse(struct flow *f, const struct refusal *r)
{
	struct pass *p = &f->pass;

	/* What went into the log as a request ends there as one. */
	if (!p->recorded)
		pass_denied(f, p->kind, &p->request, &p->ruling, r);
	pass_end(f, 0, r->text);
	p->no(f, r);
}

static void refuse_err(struct flow *f, enum refusal_kind kind,
		       const struct err *e)
{
	struct refusal r;

	refusal_set(&r, kind, "%s", e->msg);
	refuse(f, &r);
}

/* --- the way there --- */

static void open_now(struct flow *f)
{
	f->pass.state = PASS_OPEN;
	f->pass.go(f);
}

static void on_dialled(struct dial *d, const struct err *e)
{
	struct flow *f = of(container_of(d, struct pass, dial));
	struct pass *p = &f->pass;
	struct refusal r;

	p->state = PASS_OPEN; /* the dial is over */
	if (e && e->code) {
		refusal_dial(&r, e);
		refuse(f, &r);
		return;
	}
	http_stream_move(&f->outside, &d->stream);
	memcpy(f->outside_place.host, p->request.host,
	       strlen(p->request.host) + 1);
	f->outside_place.port = p->request.port;
	f->outside_scheme = p->request.scheme;
	f->outside_named = d->named;
	open_now(f);
}

void pass_redial(struct flow *f)
{
	struct pass *p = &f->pass;

	http_stream_close(&f->outside);
	p->dial = (struct dial){
		.box = f->box,
		.port = p->request.port,
		.tls = p->head && p->request.scheme == SCHEME_HTTPS,
		.request = &p->request,
		.asked = ruling_asked(&p->ruling),
	};
	http_stream_init(&p->dial.stream);
	memcpy(p->dial.host, p->request.host, strlen(p->request.host) + 1);
	p->state = PASS_DIAL;
	dial_start(&p->dial, on_dialled);
}

static void find_way(struct flow *f)
{
	const struct request *q = &f->pass.request;

	if (http_stream_is_open(&f->outside) && !f->outside_named &&
	    f->outside_scheme == q->scheme &&
	    f->outside_place.port == q->port &&
	    (strcmp(f->outside_place.host, q->host) == 0 || !GUARD(REUSE)))
		open_now(f);
	else
		pass_redial(f);
}

/* --- the log --- */

static void record(struct flow *f);

static void on_log(struct timer *t)
{
	record(of(container_of(t, struct pass, timer)));
}

/* A log that is behind is waited for a while: better slow than refused. */
static bool wait_for_log(struct flow *f)
{
	struct pass *p = &f->pass;
	uint64_t now = clock_boot_ms();

	if (p->log_ms == 0)
		p->log_ms = now;
	if (now - p->log_ms > LOG_WAIT_MS)
		return false;
	p->state = PASS_STILL;
	timer_set(loop_of(f), &p->timer, LOG_LOOK_MS, on_log);
	return true;
}

static void record(struct flow *f)
{
	struct pass *p = &f->pass;
	struct err e = { 0 };

	p->egress = (struct egress){
		.box = f->box,
		.kind = p->kind,
		.request = &p->request,
		.ruling = &p->ruling,
		.secrets = p->head ? p->inject.names : NULL,
		.n_secrets = p->head ? p->inject.n_names : 0,
	};
	if (record_request(f->box->gate, &p->egress, &e) < 0) {
		if (!wait_for_log(f))
			refuse_err(f, REFUSE_LOG, &e);
		return;
	}
	p->recorded = true;
	find_way(f);
}

/* --- credentials --- */

static void on_injected(struct inject *j, const struct err *e)
{
	struct flow *f = of(container_of(j, struct pass, inject));

	f->pass.state = PASS_STILL; /* nothing is fetched any more */
	if (e && e->code)
		refuse_err(f,
			   e->code == EACCES || e->code == EPERM
				   ? REFUSE_SECRET
				   : REFUSE_UPSTREAM,
			   e);
	else
		record(f);
}

static void inject(struct flow *f)
{
	struct pass *p = &f->pass;

	if (!p->head) {
		record(f);
		return;
	}
	p->inject = (struct inject){
		.box = f->box,
		.request = &p->request,
		.head = p->head,
		.target = p->target,
		.body = p->body,
		.body_n = p->body_n,
	};
	p->state = PASS_INJECT;
	inject_start(&p->inject, on_injected);
}

/* --- the budget, and people --- */

static void ask(struct flow *f, const char *over);
static void reserve(struct flow *f);

static void on_still(struct timer *t)
{
	reserve(of(container_of(t, struct pass, timer)));
}

/* The sandbox stands still now. When it goes on, there may be a new budget. */
static void stand_still(struct flow *f, const struct err *e)
{
	struct pass *p = &f->pass;

	if (clock_boot_ms() - p->began_ms > f->box->ask_ms) {
		refuse_err(f, REFUSE_BUDGET, e);
		return;
	}
	p->state = PASS_STILL;
	timer_set(loop_of(f), &p->timer, STILL_MS, on_still);
}

static void reserve(struct flow *f)
{
	struct pass *p = &f->pass;
	struct err e = { 0 };

	switch (budget_begin(&p->hold, f->box, &p->request, p->head, &e)) {
	case BUDGET_OK:
		inject(f);
		break;
	case BUDGET_ASK:
		p->over = true;
		ask(f, e.msg);
		break;
	case BUDGET_PAUSE:
		stand_still(f, &e);
		break;
	case BUDGET_DENY:
	default:
		refuse_err(f, REFUSE_BUDGET, &e);
		break;
	}
}

static void on_answer(struct ask *a, bool allowed, const char *why)
{
	struct flow *f = of(container_of(a, struct pass, ask));
	struct pass *p = &f->pass;
	struct refusal r;

	p->state = PASS_STILL; /* nobody is asked any more */
	if (!allowed) {
		refusal_set(&r, REFUSE_PERSON, "%s", why ? why : "denied");
		refuse(f, &r);
		return;
	}
	p->approved = true;
	if (p->over)
		budget_grant(&p->hold);
	reserve(f);
}

static void ask(struct flow *f, const char *over)
{
	struct pass *p = &f->pass;
	const struct ask_about about = { .request = &p->request,
					 .ruling = &p->ruling,
					 .target = p->head ? p->target : NULL,
					 .over = over };
	struct err e = { 0 };

	p->ask = (struct ask){ 0 };
	if (ask_start(&p->ask, f->box, &about, on_answer, &e) < 0)
		refuse_err(f, REFUSE_PERSON, &e);
	else
		p->state = PASS_ASK;
}

static void decided(struct flow *f)
{
	struct refusal r;

	switch (f->pass.ruling.verdict) {
	case VERDICT_ALLOW:
		reserve(f);
		break;
	case VERDICT_ASK:
		ask(f, NULL);
		break;
	case VERDICT_LOOK: /* nobody did: it is not known to be allowed */
	case VERDICT_DENY:
	default:
		refusal_policy(&r, f->box, &f->pass.request, &f->pass.ruling);
		refuse(f, &r);
		break;
	}
}

void pass_start(struct flow *f, pass_go_fn *go, pass_no_fn *no)
{
	struct pass *p = &f->pass;

	p->go = go;
	p->no = no;
	p->state = PASS_STILL;
	p->over = p->approved = p->recorded = false;
	p->hold = (struct budget_hold){ 0 };
	p->inject = (struct inject){ 0 };
	p->up = p->down = 0;
	p->began_ms = clock_boot_ms();
	p->log_ms = 0;
	p->ruling = decide(f);
	decided(f);
}

bool pass_review(struct flow *f, struct refusal *r)
{
	struct pass *p = &f->pass;
	enum verdict before = p->ruling.verdict;

	if (p->state == PASS_NONE || !GUARD(REVIEW))
		return true;
	p->ruling = decide(f);
	/* A tunnel that somebody should look into now is none any more; what
	 * was allowed, and is to be asked for now, was approved by nobody. */
	if (p->ruling.verdict == VERDICT_DENY ||
	    p->ruling.verdict == VERDICT_LOOK ||
	    (p->ruling.verdict == VERDICT_ASK && before == VERDICT_ALLOW &&
	     !p->approved) ||
	    (p->request.scheme == SCHEME_TCP && !connect_stays_raw(f)) ||
	    (p->state == PASS_OPEN && !dial_stays(&p->dial)) ||
	    (!p->head && p->request.scheme == SCHEME_HTTPS &&
	     pass_needs_look(f, p->request.host, p->request.port))) {
		refusal_policy(r, f->box, &p->request, &p->ruling);
		return false;
	}
	/* What somebody was asked about may be allowed by now. */
	if (p->state == PASS_ASK && p->ruling.verdict == VERDICT_ALLOW &&
	    !p->over) {
		ask_cancel(&p->ask);
		p->state = PASS_STILL;
		reserve(f);
	}
	return true;
}

bool pass_up(struct flow *f, size_t n)
{
	f->pass.up += n;
	return budget_up(&f->pass.hold, n);
}

bool pass_down(struct flow *f, size_t n)
{
	f->pass.down += n;
	return budget_down(&f->pass.hold, n);
}
