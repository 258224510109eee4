#include "api/approvals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/access.h"
#include "api/api.h"
#include "api/gate_link.h"
#include "api/json_text.h"
#include "api/reply.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "registry/gate.h"

static struct approval *approval_of(struct list *n)
{
	return container_of(n, struct approval, node);
}

void approvals_init(struct api *a)
{
	list_init(&a->approvals.all);
}

unsigned approvals_count(const struct api *a)
{
	const struct list *n, *all = &a->approvals.all;
	unsigned count = 0;

	for (n = all->next; n != all; n = n->next)
		count += !container_of(n, struct approval, node)->denied;
	return count;
}

struct approval *approval_find(struct api *a, uint64_t number)
{
	struct list *n, *next;

	list_each (n, next, &a->approvals.all)
		if (approval_of(n)->number == number)
			return approval_of(n);
	return NULL;
}

static struct approval *at_door(struct gate_link *l, uint64_t number)
{
	struct list *n, *next;

	list_each (n, next, &l->api->approvals.all)
		if (approval_of(n)->link == l &&
		    approval_of(n)->at_door == number)
			return approval_of(n);
	return NULL;
}

static void forget(struct approval *p)
{
	list_del(&p->node);
	free(p);
}

/* --- for people --- */

static bool is_usual(const struct approval *p)
{
	return (p->port == 443 && strcmp(p->scheme, "https") == 0) ||
	       (p->port == 80 && strcmp(p->scheme, "http") == 0);
}

static void put_place(const struct approval *p, struct buf *out)
{
	bool v6 = strchr(p->host, ':');

	buf_printf(out, v6 ? "[%s]" : "%s", p->host);
	if (!is_usual(p))
		buf_printf(out, ":%u", p->port);
}

void approval_rule(const struct approval *p, struct buf *out)
{
	if (strcmp(p->scheme, "tcp") == 0)
		buf_puts(out, "allow tcp ");
	else
		buf_printf(out, "allow * %s://", p->scheme);
	put_place(p, out);
}

bool approval_of_budget(const struct approval *p)
{
	return strcmp(p->part, GATE_PART_BUDGET) == 0;
}

/* The thing that an approval opens. */
static const char *about(const struct approval *p)
{
	if (p->ahead)
		return "host";
	if (approval_of_budget(p))
		return "budget";
	return *p->method ? "request" : "connection";
}

static json_t *url_json(const struct approval *p, size_t path_n)
{
	AUTO(buf_done) struct buf url = { 0 };

	buf_printf(&url, "%s://", p->scheme);
	put_place(p, &url);
	buf_add(&url, p->path, path_n);
	return json_lossy(buf_str(&url), buf_len(&url));
}

json_t *approval_json(struct api *a, const struct approval *p)
{
	const struct sandbox *s = box_by_id(a, p->sandbox);

	return json_pack(
		"{s:I, s:s, s:s?, s:s, s:s, s:o, s:o, s:s, s:I, s:o, s:I, s:o, "
		"s:o, s:o, s:s*}",
		"number", (json_int_t)p->number, "sandbox", p->sandbox, "name",
		s && *s->spec.name ? s->spec.name : NULL, "project", p->project,
		"about", about(p), "method",
		json_lossy(p->method, strlen(p->method)), "url",
		url_json(p, strlen(p->path)), "host", p->host, "port",
		(json_int_t)p->port, "part",
		json_lossy(p->part, strlen(p->part)), "line",
		(json_int_t)p->line, "rule",
		json_lossy(p->rule, strlen(p->rule)), "asked_at",
		json_time(p->asked_ms), "expires_at",
		json_time(p->asked_ms + a->conf.ask_timeout_ms), "reason",
		*p->reason ? p->reason : NULL);
}

json_t *approval_entry(struct api *a, const struct approval *p)
{
	json_t *j = approval_json(a, p);

	json_object_set_new(j, "url", url_json(p, strcspn(p->path, "?")));
	return j;
}

/* --- answers --- */

bool approval_waits(const struct approval *p)
{
	return p->ahead ? !p->denied : p->at_door > 0 && !p->unheard;
}

static void send_answer(struct approval *p, bool allow)
{
	const struct gate_msg m = { .kind = GATE_ANSWER,
				    .number = p->at_door,
				    .allow = allow };

	/* A door that started anew gives the same numbers to others. */
	if (!p->ahead && approval_waits(p))
		gate_send(p->link, &m, NULL, 0);
}

bool approval_same_place(const struct approval *p, const struct approval *q)
{
	return p->port == q->port && strcmp(p->sandbox, q->sandbox) == 0 &&
	       strcmp(p->scheme, q->scheme) == 0 &&
	       strcmp(p->host, q->host) == 0;
}

static void conclude(struct approval *p, bool allow)
{
	send_answer(p, allow);
	if (!p->ahead || access_decided(p, allow))
		forget(p);
}

void approval_answer(struct api *a, struct approval *p, bool allow, bool host)
{
	struct list *n, *next;

	list_each (n, next, &a->approvals.all) {
		struct approval *q = approval_of(n);

		if (!host || q == p || q->deciding || approval_of_budget(q) ||
		    !approval_same_place(p, q))
			continue;
		conclude(q, allow);
	}
	conclude(p, allow);
}

/* --- what doors say --- */

static int new_number(struct api *a, uint64_t *out, struct err *e)
{
	struct approvals *p = &a->approvals;

	if (p->next == 0 || p->next > p->last) {
		int r = registry_numbers(&a->registry, "approval",
					 APPROVAL_NUMBERS, &p->last, e);

		if (r < 0)
			return r;
		p->next = p->last - APPROVAL_NUMBERS + 1;
	}
	*out = p->next++;
	return 0;
}

struct approval *approval_add(struct api *a, const struct approval *want,
			      struct err *e)
{
	struct approval *p = xcalloc(1, sizeof(*p));

	*p = *want;
	if (new_number(a, &p->number, e) < 0) {
		free(p);
		return NULL;
	}
	p->api = a;
	p->asked_ms = clock_wall_ms();
	list_init(&p->waiters);
	list_add(&a->approvals.all, &p->node);
	return p;
}

/* The number that people know it by, when it had one from us. */
static int number_of(struct api *a, const struct gate_msg *m, uint64_t *out,
		     struct err *e)
{
	int r;

	/* Numbers below the next are known to have been given. */
	r = a->approvals.next == 0 ? new_number(a, out, e) : 0;
	if (r < 0)
		return r;
	if (m->shown > 0 && m->shown < a->approvals.next &&
	    !approval_find(a, m->shown)) {
		*out = m->shown;
		return 0;
	}
	return new_number(a, out, e);
}

static unsigned count_of(struct gate_link *l)
{
	struct list *n, *next;
	unsigned count = 0;

	list_each (n, next, &l->api->approvals.all)
		count += approval_of(n)->link == l;
	return count;
}

static bool is_sane(const struct gate_msg *m)
{
	char host[POLICY_HOST_CAP];
	bool address;

	return m->port > 0 && m->port <= UINT16_MAX &&
	       (strcmp(m->scheme, "http") == 0 ||
		strcmp(m->scheme, "https") == 0 ||
		strcmp(m->scheme, "tcp") == 0) &&
	       host_read(m->host, strlen(m->host), host, &address) == 0 &&
	       strcmp(host, m->host) == 0;
}

static void fill(struct approval *p, const struct gate_msg *m)
{
	snprintf(p->method, sizeof(p->method), "%s", m->method);
	snprintf(p->scheme, sizeof(p->scheme), "%s", m->scheme);
	snprintf(p->host, sizeof(p->host), "%s", m->host);
	snprintf(p->path, sizeof(p->path), "%s", m->path);
	snprintf(p->part, sizeof(p->part), "%s", m->part);
	snprintf(p->rule, sizeof(p->rule), "%s", m->rule);
	p->port = m->port;
	p->line = m->line;
}

static void refuse(struct gate_link *l, const struct gate_msg *m)
{
	const struct gate_msg no = { .kind = GATE_ANSWER, .number = m->number };

	gate_send(l, &no, NULL, 0);
}

/* It is over; who is deciding about it finds nobody. */
static void lose(struct approval *p)
{
	if (p->deciding)
		p->at_door = 0;
	else
		forget(p);
}

void approval_asked(struct gate_link *l, const struct gate_msg *m)
{
	struct sandbox *s = gate_box_of(l, m->id);
	struct approval *p = at_door(l, m->number);
	struct gate_msg shown = { .kind = GATE_SHOWN, .number = m->number };
	struct err e = { 0 };

	if (p && p->unheard && m->shown != p->number) {
		lose(p);
		p = NULL;
	}
	if (p) { /* told again */
		p->unheard = false;
		return;
	}
	if (!s || !is_sane(m) || count_of(l) >= APPROVALS_MAX) {
		refuse(l, m);
		return;
	}
	p = xcalloc(1, sizeof(*p));
	if (number_of(l->api, m, &p->number, &e) < 0) {
		log_err("sandbox=%s %s, so nobody can approve what it asks for",
			s->id, e.msg);
		free(p);
		refuse(l, m);
		return;
	}
	p->link = l;
	p->at_door = m->number;
	memcpy(p->sandbox, s->id, ID_CAP);
	memcpy(p->project, s->project, sizeof(p->project));
	fill(p, m);
	p->asked_ms = clock_wall_ms();
	list_add(&l->api->approvals.all, &p->node);
	shown.shown = p->number;
	gate_send(l, &shown, NULL, 0);
}

void approval_gone(struct gate_link *l, const struct gate_msg *m)
{
	struct approval *p = at_door(l, m->number);

	if (p)
		lose(p);
}

void approvals_lost(struct gate_link *l)
{
	struct list *n, *next;

	list_each (n, next, &l->api->approvals.all)
		if (approval_of(n)->link == l)
			approval_of(n)->unheard = true;
}

void approvals_settle(struct gate_link *l)
{
	struct list *n, *next;

	list_each (n, next, &l->api->approvals.all) {
		struct approval *p = approval_of(n);

		if (p->link == l && p->unheard)
			lose(p);
	}
}

bool approvals_any(const struct gate_link *l)
{
	const struct list *n, *all = &l->api->approvals.all;

	for (n = all->next; n != all; n = n->next)
		if (container_of(n, struct approval, node)->link == l)
			return true;
	return false;
}
