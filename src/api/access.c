#include "api/access.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/gate_link.h"
#include "api/policy_parts.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/clock.h"
#include "policy/policy.h"

/* --- what its policies say --- */

enum said {
	SAID_ALLOW,
	SAID_ASK,
	SAID_NOTHING, /* of this host: it is denied, and may be asked for */
	SAID_DENY,
};

struct saying {
	enum said said;
	bool granted; /* allowed, by a person */
	char part[GATE_PART_CAP];
	unsigned line; /* 0: no rule says so */
};

/* Nothing that a request to this host could be is spoken of. */
static bool is_unsaid(const struct policy_parts *all, struct request q)
{
	char host[POLICY_HOST_CAP];
	struct decision d;
	const char *part;
	bool address;

	if (host_read(q.host, strlen(q.host), host, &address) < 0 || address)
		return false;
	q.method = NULL;
	q.path = NULL;
	d = policy_parts_try(all, &q, &part);
	return d.verdict == VERDICT_DENY && !d.rule;
}

static int ask_policies(const struct sandbox *s, const struct request *q,
			struct saying *out, struct err *e)
{
	AUTO(policy_parts_done) struct policy_parts all = { 0 };
	struct decision d;
	const char *part;
	int r = policy_parts_load(&all, s, e);

	if (r < 0)
		return r;
	d = policy_parts_try(&all, q, &part);
	*out = (struct saying){ .said = SAID_DENY,
				.line = d.rule ? d.rule->line : 0 };
	snprintf(out->part, sizeof(out->part), "%s", part ? part : "no rule");
	if (d.verdict == VERDICT_ALLOW || s->spec.observe) {
		out->said = SAID_ALLOW;
	} else if (d.verdict == VERDICT_ASK) {
		out->granted =
			policy_parts_granted(&all, q).verdict == VERDICT_ALLOW;
		out->said = out->granted ? SAID_ALLOW : SAID_ASK;
	} else if (d.verdict == VERDICT_DENY && !d.rule &&
		   is_unsaid(&all, *q)) {
		out->said = SAID_NOTHING;
	}
	return 0;
}

static void request_of(const struct approval *p, struct request *q)
{
	bool tcp = strcmp(p->scheme, "tcp") == 0;

	*q = (struct request){
		.scheme = tcp                               ? SCHEME_TCP
			  : strcmp(p->scheme, "https") == 0 ? SCHEME_HTTPS
							    : SCHEME_HTTP,
		.host = p->host,
		.port = (uint16_t)p->port,
		.method = tcp ? NULL : p->method,
		.path = tcp ? NULL : p->path,
	};
}

/* --- what a person decides --- */

/* `rule` is "allow ...": adds the same rule with "ask" behind all others of the
 * sandbox, so that every rule with "deny" wins, later ones too. */
static int add_rule(struct sandbox *s, const char *rule,
		    const struct identity *who, const char *request_id,
		    struct err *e)
{
	AUTO(spec_done) struct spec spec = { 0 };
	json_t *rules = s->spec.late_rules ? json_copy(s->spec.late_rules)
					   : json_array();
	json_t *change = json_pack("{s:o}", "late-rules", rules);
	char line[GRANT_RULE_CAP];
	int r;

	snprintf(line, sizeof(line), "ask%s", rule + strlen("allow"));
	json_array_append_new(rules, json_string(line));
	spec_copy(&spec, &s->spec);
	r = spec_patch(&spec, change, e);
	if (r == 0) {
		box_respec(s, &spec);
		r = s->told ? box_save(s, e) : 0;
	}
	if (r == 0)
		audit_add(s->api,
			  &(struct audit){ .type = "sandbox.update",
					   .box = s,
					   .who = who,
					   .request_id = request_id,
					   .data = json_incref(change) });
	json_decref(change);
	return r;
}

int access_open(struct sandbox *s, const struct approval *p, const char *rule,
		const struct identity *who, const char *request_id,
		struct err *e)
{
	struct saying now;
	struct request q;
	int r;

	request_of(p, &q);
	r = ask_policies(s, &q, &now, e);
	if (r < 0)
		return r;
	if (now.said == SAID_DENY)
		return err_set(e, EPERM,
			       "%s denies it since: change the policy",
			       now.part);
	return now.said == SAID_NOTHING ? add_rule(s, rule, who, request_id, e)
					: 0;
}

/* Embedded in who waits for a decision. */
struct waiter {
	struct list node;
	/* Once; `e` has a reason when it is not allowed. */
	void (*fn)(struct waiter *w, bool allowed, const char *why);
};

static void tell(struct approval *p, bool allow, const char *why)
{
	struct list *n, *next;

	list_each (n, next, &p->waiters) {
		struct waiter *w = container_of(n, struct waiter, node);

		list_del(n);
		w->fn(w, allow, why);
	}
}

bool access_decided(struct approval *p, bool allow)
{
	if (!allow) {
		p->denied = true;
		p->deciding = false;
		tell(p, false, "a person denied it");
		return false;
	}
	tell(p, true, NULL);
	timer_del(&p->api->loop, &p->expiry);
	return true;
}

static void end(struct approval *p, const char *why)
{
	tell(p, false, why);
	timer_del(&p->api->loop, &p->expiry);
	list_del(&p->node);
	free(p);
}

static void on_expiry(struct timer *t)
{
	struct approval *p = container_of(t, struct approval, expiry);

	/* A decision that is on its way to the log finds nobody. */
	end(p, "nobody decided in time");
}

void access_forget(struct sandbox *s)
{
	struct list *n, *next;

	list_each (n, next, &s->api->approvals.all) {
		struct approval *p = container_of(n, struct approval, node);

		if (p->ahead && strcmp(p->sandbox, s->id) == 0)
			end(p, "the sandbox has ended");
	}
}

/* --- POST /v1/sandboxes/{id}/approvals --- */

struct access {
	struct api *api;
	struct http_conn *conn;
	struct identity who;
	char ref[CALL_ARG_CAP], box[ID_CAP];
	uint64_t number, wait_ms;
	struct waiter waiter;
	struct timer patience;
	struct gate_up door;
	struct deferred gone;
};

static void access_free(struct deferred *d)
{
	free(container_of(d, struct access, gone));
}

static void access_end(struct access *x)
{
	list_del(&x->waiter.node);
	timer_del(&x->api->loop, &x->patience);
	gate_up_cancel(&x->door);
	loop_defer(&x->api->loop, &x->gone, access_free);
}

static void on_left(struct http_conn *c, void *owner)
{
	(void)c;
	access_end(owner);
}

static void refuse(struct access *x, const struct err *e)
{
	struct http_conn *c = x->conn;

	access_end(x);
	reply_err(x->api, c, e);
}

static void answer(struct access *x, const char *state, const char *why,
		   const struct approval *p)
{
	uint64_t until = p ? p->asked_ms + x->api->conf.ask_timeout_ms : 0;
	struct http_conn *c = x->conn;

	access_end(x);
	reply_json(
		x->api, c, 200,
		json_pack("{s:s, s:s, s:o, s:o}", "state", state, "why", why,
			  "number",
			  p ? json_integer((json_int_t)p->number) : json_null(),
			  "expires_at", json_time(until)));
}

static void answer_said(struct access *x, const char *state,
			const struct saying *s)
{
	char why[GATE_PART_CAP + 32];

	if (s->line)
		snprintf(why, sizeof(why), "%s, line %u", s->part, s->line);
	else
		snprintf(why, sizeof(why), "%s", s->part);
	answer(x, state, why, NULL);
}

static void on_door(struct gate_up *d, const struct err *e)
{
	struct access *x = container_of(d, struct access, door);

	if (e)
		refuse(x, e);
	else
		answer(x, "allowed", "a person allowed it", NULL);
}

/* A person has allowed it: the door knows before the client does. */
static void answer_granted(struct access *x)
{
	struct sandbox *s = box_by_id(x->api, x->box);

	if (!s || s->state == BOX_SUSPENDED ||
	    gate_box_up(s, &x->door, on_door) == 1)
		answer(x, "allowed", "a person allowed it", NULL);
}

static void on_decided(struct waiter *w, bool allowed, const char *why)
{
	struct access *x = container_of(w, struct access, waiter);

	timer_del(&x->api->loop, &x->patience);
	if (allowed)
		answer_granted(x);
	else
		answer(x, "denied", why, NULL);
}

static void on_patience(struct timer *t)
{
	struct access *x = container_of(t, struct access, patience);

	answer(x, "waiting", "a person has to decide",
	       approval_find(x->api, x->number));
}

static void wait_for(struct access *x, struct approval *p)
{
	if (p->denied) {
		answer(x, "denied", "a person denied it", NULL);
	} else if (x->wait_ms == 0) {
		answer(x, "waiting", "a person has to decide", p);
	} else {
		x->number = p->number;
		x->waiter.fn = on_decided;
		list_add(&p->waiters, &x->waiter.node);
		timer_set(&x->api->loop, &x->patience, x->wait_ms, on_patience);
	}
}

static void call_hook(struct gate_link *l, struct approval *p)
{
	json_t *j = approval_json(p->api, p);
	AUTO_FREE char *text = NULL;
	struct gate_msg m = { .kind = GATE_HOOK };

	json_object_set_new(j, "type", json_string("approval.ask"));
	text = json_dumps(j, JSON_COMPACT);
	json_decref(j);
	m.text = text;
	if (text)
		gate_send(l, &m, NULL, 0);
	p->hooked = true;
}

void access_hook(struct gate_link *l)
{
	struct list *n, *next;

	if (*l->door || !l->ready)
		return;
	list_each (n, next, &l->api->approvals.all) {
		struct approval *p = container_of(n, struct approval, node);

		if (p->ahead && !p->hooked && !p->denied)
			call_hook(l, p);
	}
}

/* One that waits for the same, or was denied; counts those of the sandbox. */
static struct approval *find_same(struct api *a, const struct approval *want,
				  unsigned *count)
{
	struct approval *same = NULL;
	struct list *n, *next;

	*count = 0;
	list_each (n, next, &a->approvals.all) {
		struct approval *p = container_of(n, struct approval, node);

		if (!p->ahead || strcmp(p->sandbox, want->sandbox) != 0)
			continue;
		(*count)++;
		if (approval_same_place(p, want))
			same = p;
	}
	return same;
}

static int ask_person(struct access *x, const struct approval *want,
		      struct sandbox *s, struct err *e)
{
	struct api *a = x->api;
	unsigned count;
	struct approval *p = find_same(a, want, &count);

	if (!p && count >= ACCESS_OF_BOX)
		return err_set(e, EMFILE,
			       "%u requests of sandbox %s wait already", count,
			       s->id);
	if (!p) {
		p = approval_add(a, want, e);
		if (!p)
			return -e->code;
		timer_set(&a->loop, &p->expiry, a->conf.ask_timeout_ms,
			  on_expiry);
		audit_add(a, &(struct audit){ .type = "approval.ask",
					      .box = s,
					      .who = &x->who,
					      .request_id =
						      http_request_id(x->conn),
					      .data = approval_entry(a, p) });
	}
	/* Only who has to do with the outside calls there: a door. */
	if (*a->conf.ask_webhook)
		access_hook(gate_link_get(a, ""));
	wait_for(x, p);
	return 0;
}

static int take_wish(struct access *x, const json_t *body,
		     struct approval *want, struct err *e)
{
	const char *target, *method = "GET", *reason = "";
	double wait = 0;
	json_error_t why;
	struct url u;

	if (json_unpack_ex((json_t *)body, &why, JSON_STRICT,
			   "{s:s, s?:s, s?:s, s?:F}", "url", &target, "method",
			   &method, "reason", &reason, "wait", &wait) < 0)
		return err_set(e, EINVAL, "%.150s", why.text);
	if (!method_bit(method, strlen(method)))
		return err_set(e, EINVAL, "method is none that policies know");
	if (strlen(reason) >= sizeof(want->reason))
		return err_set(e, EINVAL, "reason has more than %zu bytes",
			       sizeof(want->reason) - 1);
	if (!(wait >= 0 && wait <= ACCESS_WAIT_MAX_S))
		return err_set(e, EINVAL,
			       "wait is not a number of seconds up to %d",
			       ACCESS_WAIT_MAX_S);
	if (url_read(&u, target, e) < 0)
		return -e->code;
	x->wait_ms = (uint64_t)(wait * 1000);
	snprintf(want->scheme, sizeof(want->scheme), "%s",
		 u.scheme == SCHEME_TCP     ? "tcp"
		 : u.scheme == SCHEME_HTTPS ? "https"
					    : "http");
	if (u.scheme != SCHEME_TCP) {
		snprintf(want->method, sizeof(want->method), "%s", method);
		if (str_copy(want->path, sizeof(want->path), u.path) < 0)
			return err_set(e, EINVAL, "the URL is too long");
	}
	snprintf(want->host, sizeof(want->host), "%s", u.host);
	snprintf(want->reason, sizeof(want->reason), "%s", reason);
	want->port = u.port;
	return 0;
}

static int decide(struct access *x, struct sandbox *s, struct approval *want,
		  struct err *e)
{
	struct saying now;
	struct request q;
	int r;

	memcpy(x->box, s->id, ID_CAP);
	memcpy(want->sandbox, s->id, ID_CAP);
	memcpy(want->project, s->project, sizeof(want->project));
	request_of(want, &q);
	r = ask_policies(s, &q, &now, e);
	if (r < 0)
		return r;
	snprintf(want->part, sizeof(want->part), "%s", now.part);
	want->line = now.line;
	if (now.said == SAID_ALLOW && now.granted)
		answer_granted(x);
	else if (now.said == SAID_ALLOW)
		answer_said(x, "allowed", &now);
	else if (now.said == SAID_DENY)
		answer_said(x, "denied", &now);
	else
		return ask_person(x, want, s, e);
	return 0;
}

static void on_body(struct http_conn *c, char *text, size_t n, void *owner)
{
	struct approval want = { .ahead = true };
	struct access *x = owner;
	struct err e = { 0 };
	json_t *body = parse_body(text, n, &e);
	struct sandbox *s = NULL;

	(void)c;
	if (body && take_wish(x, body, &want, &e) == 0)
		s = box_find(x->api, &x->who, x->ref, &e);
	if (!s || decide(x, s, &want, &e) < 0)
		refuse(x, &e);
	json_decref(body);
}

void h_access(struct api *a, struct http_conn *c, const struct call *call)
{
	struct access *x = xcalloc(1, sizeof(*x));

	x->api = a;
	x->conn = c;
	x->who = call->who;
	memcpy(x->ref, call->arg[0], sizeof(x->ref));
	list_init(&x->waiter.node);
	http_own(c, x, on_left);
	http_read_body(c, BODY_MAX, on_body);
}
