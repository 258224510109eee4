#include "api/grants.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/reply.h"
#include "base/buf.h"
#include "base/clock.h"
#include "registry/gate.h"

enum { LOOK_MAX_MS = 3600 * 1000 }; /* the clock of the wall may be set */

struct grant {
	struct list node;
	uint64_t id, until_ms, created_ms;
	uint64_t end_ms; /* end by the boot clock, which cannot be set */
	char sandbox[ID_CAP];
	char rule[GRANT_RULE_CAP];
	char who[WHO_CAP];
};

static struct grant *grant_of(struct list *n)
{
	return container_of(n, struct grant, node);
}

static bool is_of(const struct grant *g, const struct sandbox *s)
{
	return strcmp(g->sandbox, s->id) == 0;
}

static uint64_t until(uint64_t end, uint64_t now)
{
	return end > now ? end - now : 0;
}

/* By both clocks, whichever is over first: one that is set back adds nothing.
 */
static uint64_t time_left(const struct grant *g)
{
	uint64_t a = until(g->until_ms, clock_wall_ms());
	uint64_t b = until(g->end_ms, clock_boot_ms());

	return a < b ? a : b;
}

static void drop(struct api *a, struct grant *g)
{
	struct err e = { 0 };

	if (registry_grant_remove(&a->registry, g->id, &e) < 0)
		log_err("sandbox=%s %s, ignoring", g->sandbox, e.msg);
	api_registry_touched(a);
	list_del(&g->node);
	free(g);
}

static void plan(struct api *a);

/* The grant has expired if `who` is NULL. */
static void note_end(struct sandbox *s, const struct grant *g,
		     const struct identity *who, const char *request_id)
{
	audit_add(s->api,
		  &(struct audit){ .type = "approval.end",
				   .box = s,
				   .who = who,
				   .request_id = request_id,
				   .data = json_pack("{s:I, s:s}", "number",
						     (json_int_t)g->id, "rule",
						     g->rule) });
}

static void expire(struct api *a, struct grant *g)
{
	struct sandbox *s = box_by_id(a, g->sandbox);

	if (s)
		note_end(s, g, NULL, NULL);
	drop(a, g);
	if (s && s->gate)
		(void)gate_box_up(s, NULL, NULL);
}

static void on_expiry(struct timer *t)
{
	struct api *a = container_of(t, struct api, grants.expiry);
	struct list *n, *next;

	list_each (n, next, &a->grants.all) {
		struct grant *g = grant_of(n);

		if (g->until_ms > 0 && time_left(g) == 0)
			expire(a, g);
	}
	plan(a);
}

/* The next one that ends. */
static void plan(struct api *a)
{
	uint64_t wait = UINT64_MAX;
	struct list *n, *next;

	list_each (n, next, &a->grants.all) {
		const struct grant *g = grant_of(n);
		uint64_t left = time_left(g);

		if (g->until_ms > 0 && left < wait)
			wait = left > 0 ? left : 1;
	}
	if (wait == UINT64_MAX)
		timer_del(&a->loop, &a->grants.expiry);
	else
		timer_set(&a->loop, &a->grants.expiry,
			  wait < LOOK_MAX_MS ? wait : LOOK_MAX_MS, on_expiry);
}

static void remember(struct api *a, const struct grant_row *row)
{
	struct grant *g = xcalloc(1, sizeof(*g));
	uint64_t left, most;

	g->id = row->id;
	g->until_ms = row->until_ms;
	g->created_ms = row->created_ms;
	/* Never more than it was given at first. */
	left = until(row->until_ms, clock_wall_ms());
	most = until(row->until_ms, row->created_ms);
	g->end_ms = clock_boot_ms() + (left < most ? left : most);
	snprintf(g->sandbox, sizeof(g->sandbox), "%s", row->sandbox);
	snprintf(g->rule, sizeof(g->rule), "%s", row->rule);
	snprintf(g->who, sizeof(g->who), "%s", row->who);
	list_add(&a->grants.all, &g->node);
}

static int load_row(void *arg, const struct grant_row *row)
{
	if (strlen(row->rule) >= GRANT_RULE_CAP || !id_valid(row->sandbox))
		log_err("sandbox=%.64s bad grant in the registry, ignoring",
			row->sandbox);
	else
		remember(arg, row);
	return 0;
}

int grants_load(struct api *a, struct err *e)
{
	int r;

	list_init(&a->grants.all);
	r = registry_grants_sweep(&a->registry, e);
	if (r == 0)
		r = registry_grant_each(&a->registry, load_row, a, e);
	if (r == 0)
		plan(a);
	return r;
}

int grant_add(struct sandbox *s, const char *rule, uint64_t until_ms,
	      const char *who, struct err *e)
{
	struct api *a = s->api;
	struct grant_row row = { .sandbox = s->id,
				 .rule = rule,
				 .who = who,
				 .until_ms = until_ms,
				 .created_ms = clock_wall_ms() };
	struct grant *same = NULL;
	struct list *n, *next;
	unsigned count = 0;
	int r;

	if (strlen(rule) >= GRANT_RULE_CAP)
		return err_set(e, E2BIG, "the rule would be too long");
	list_each (n, next, &a->grants.all) {
		struct grant *g = grant_of(n);

		count += is_of(g, s);
		if (is_of(g, s) && strcmp(g->rule, rule) == 0)
			same = g;
	}
	if (count >= GRANTS_OF_BOX && !same)
		return err_set(e, EMFILE,
			       "sandbox %s has %u grants: write a policy for "
			       "it",
			       s->id, count);
	r = registry_grant_add(&a->registry, &row, e);
	api_registry_touched(a);
	if (r < 0)
		return r;
	if (same)
		drop(a, same);
	remember(a, &row);
	plan(a);
	return 0;
}

void grants_text(const struct sandbox *s, struct buf *out)
{
	const struct list *n, *all = &s->api->grants.all;

	for (n = all->next; n != all; n = n->next) {
		const struct grant *g = grant_of((struct list *)n);

		if (is_of(g, s))
			buf_printf(out, "%s\n", g->rule);
	}
}

static json_t *grant_json(const struct grant *g)
{
	return json_pack("{s:I, s:s, s:o, s:s}", "number", (json_int_t)g->id,
			 "rule", g->rule, "until", json_time(g->until_ms), "by",
			 g->who);
}

json_t *grants_json(const struct sandbox *s)
{
	const struct list *n, *all = &s->api->grants.all;
	json_t *list = NULL;

	for (n = all->next; n != all; n = n->next) {
		const struct grant *g = grant_of((struct list *)n);

		if (!is_of(g, s))
			continue;
		list = list ? list : json_array();
		json_array_append_new(list, grant_json(g));
	}
	return list;
}

/* The sandbox of the grant, or NULL if `who` may not see it. */
static struct sandbox *owner_of(struct api *a, const struct identity *who,
				const struct grant *g)
{
	struct sandbox *s = box_by_id(a, g->sandbox);

	return s && who_sees(who, s->project) ? s : NULL;
}

json_t *grants_list(struct api *a, const struct identity *who)
{
	json_t *list = json_array(), *j;
	struct list *n, *next;

	list_each (n, next, &a->grants.all) {
		const struct grant *g = grant_of(n);
		const struct sandbox *s = owner_of(a, who, g);

		if (!s)
			continue;
		j = grant_json(g);
		json_object_set_new(j, "sandbox", json_string(s->id));
		json_object_set_new(j, "name",
				    *s->spec.name ? json_string(s->spec.name)
						  : json_null());
		json_object_set_new(j, "project", json_string(s->project));
		json_object_set_new(j, "created_at", json_time(g->created_ms));
		json_array_append_new(list, j);
	}
	return list;
}

struct sandbox *grant_withdraw(struct api *a, const struct identity *who,
			       uint64_t number, const char *request_id,
			       struct err *e)
{
	struct list *n, *next;

	list_each (n, next, &a->grants.all) {
		struct grant *g = grant_of(n);
		struct sandbox *s = owner_of(a, who, g);

		if (!s || g->id != number)
			continue;
		note_end(s, g, who, request_id);
		drop(a, g);
		plan(a);
		return s;
	}
	err_set(e, ENOENT, "no grant %llu: see 'grants ls'",
		(unsigned long long)number);
	return NULL;
}

void grants_forget(struct sandbox *s)
{
	struct api *a = s->api;
	struct list *n, *next;

	list_each (n, next, &a->grants.all)
		if (is_of(grant_of(n), s))
			drop(a, grant_of(n));
}
