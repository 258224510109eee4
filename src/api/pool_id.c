#include "api/pool_id.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "api/api.h"
#include "base/product.h"

enum { BUMP_MS = 100, AGAIN_MS = 1000 };

static_assert(sizeof(((struct pool_row *)0)->id) == POOL_ID_CAP, "one id");

int pool_id_load(struct api *a, struct err *e)
{
	return registry_pool_get(&a->registry, &a->pool_id.row,
				 &a->pool_id.empty, e);
}

/* --- the decision --- */

enum pairing { PAIR_SAME, PAIR_APART, PAIR_HOLD };

static enum pairing hold(struct pool_id *p, const char *is)
{
	err_clear(&p->why);
	err_set(&p->why, ERR_HELD,
		"%s. Nothing was removed. Stop the daemon and put the right "
		"half back, or `" PRODUCT " adopt --all` keeps this database "
		"and takes over what the pool has",
		is);
	return PAIR_HOLD;
}

/* The pool has no id: it is new, or older than ids are. */
static enum pairing judge_new_pool(struct pool_id *p)
{
	bool contents = p->found.flags & POOL_HAS_CONTENTS;

	if (p->row.confirmed > 0)
		return hold(p, contents ? "the pool is not the one that the "
					  "database belongs to"
					: "the pool is empty, but the database "
					  "belongs to another one: is it "
					  "mounted?");
	if (p->empty && contents)
		return hold(p,
			    "the database is new, but the pool has contents");
	return p->empty ? PAIR_SAME : PAIR_APART;
}

static enum pairing judge(struct pool_id *p)
{
	if (*p->found.id == '\0')
		return judge_new_pool(p);
	if (*p->row.id == '\0' && p->empty &&
	    (p->found.flags & POOL_HAS_CONTENTS))
		return hold(p,
			    "the database is new, but the pool has contents");
	/* A backup names no pool. */
	if (*p->row.id == '\0')
		return p->empty ? PAIR_SAME : PAIR_APART;
	if (strcmp(p->row.id, p->found.id) != 0)
		return hold(p, "the database belongs to another pool");
	return p->found.generation > p->row.generation ||
			       p->found.generation < p->row.confirmed
		       ? PAIR_APART
		       : PAIR_SAME;
}

static int new_id(char id[POOL_ID_CAP], struct err *e)
{
	unsigned char raw[POOL_ID_LEN / 2];
	size_t i;

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return err_sys(e, "no random numbers");
	for (i = 0; i < sizeof(raw); i++)
		snprintf(id + 2 * i, 3, "%02x", raw[i]);
	return 0;
}

static void go_on(struct api *a, enum pairing v)
{
	struct pool_id *p = &a->pool_id;

	p->held = p->accept = p->sealed = false;
	p->current = v == PAIR_SAME && !p->bad_rows;
	if (!p->current)
		log_warn("database generation=%llu pool generation=%llu%s: an "
			 "object without a row becomes a stray",
			 (unsigned long long)p->row.generation,
			 (unsigned long long)p->found.generation,
			 p->bad_rows ? " and rows that are not understood"
				     : "");
	reconcile_walk(a);
}

static void stop_here(struct api *a)
{
	struct pool_id *p = &a->pool_id;

	p->held = true;
	log_err("database pool=%s pool=%s: %s", *p->row.id ? p->row.id : "-",
		*p->found.id ? p->found.id : "-", p->why.msg);
	api_hold(a);
}

/* The pool could not be asked, which may pass. */
static void check_again(struct timer *t)
{
	pool_id_check(container_of(t, struct api, pool_id.again));
}

static void on_read(struct warden_call *c, const struct warden_rep *rep,
		    int fds[FD_PASS_MAX])
{
	struct api *a = container_of(c, struct api, pool_id.call);
	struct pool_id *p = &a->pool_id;
	enum pairing v;

	(void)fds;
	if (rep->err.code == WARDEN_AWAY)
		return;
	if (rep->err.code) {
		p->why = rep->err;
		p->why.code = ERR_HELD;
		stop_here(a);
		timer_set(&a->loop, &p->again, AGAIN_MS, check_again);
		return;
	}
	p->found = rep->pool;
	p->found.id[POOL_ID_LEN] = '\0';
	v = judge(p);
	/* Another id from now on: should the right pool come back, it is not
	 * taken for this one. */
	if (v == PAIR_HOLD && p->accept)
		*p->row.id = '\0';
	if (v == PAIR_HOLD && !p->accept)
		stop_here(a);
	else
		go_on(a, v);
}

void pool_id_check(struct api *a)
{
	struct warden_call *c = &a->pool_id.call;

	timer_del(&a->loop, &a->pool_id.bump);
	timer_del(&a->loop, &a->pool_id.again);
	warden_cancel(c);
	warden_req_id(c, WARDEN_POOL, "");
	c->early = true;
	warden_ask(&a->warden, c, on_read);
}

void pool_id_accept(struct api *a)
{
	a->pool_id.accept = true;
	pool_id_check(a);
}

/* --- one generation more --- */

static void on_written(struct warden_call *c, const struct warden_rep *rep,
		       int fds[FD_PASS_MAX])
{
	struct api *a = container_of(c, struct api, pool_id.call);
	struct pool_id *p = &a->pool_id;
	struct err e = rep->err;

	(void)fds;
	if (e.code == WARDEN_AWAY)
		return;
	if (e.code == 0 && !(c->req.pool.flags & POOL_SYNC))
		return;
	if (e.code == 0)
		p->row.confirmed = c->req.pool.generation;
	if (e.code || registry_pool_put(&a->registry, &p->row, false, &e) < 0)
		log_err("the pool's id: %s, trying again with the next change",
			e.msg);
}

/* First the database: the pool never is of a generation that it has not. */
static void write_both(struct api *a, bool sync)
{
	struct pool_id *p = &a->pool_id;
	struct err e = { 0 };

	p->row.generation++;
	if (registry_pool_put(&a->registry, &p->row, sync, &e) < 0) {
		log_err("%s", e.msg);
		return;
	}
	warden_req_id(&p->call, WARDEN_POOL, "");
	memcpy(p->call.req.pool.id, p->row.id, POOL_ID_CAP);
	p->call.req.pool.generation = p->row.generation;
	p->call.req.pool.flags = sync ? POOL_SYNC : 0;
	p->call.early = true;
	warden_ask(&a->warden, &p->call, on_written);
}

void pool_id_walked(struct api *a, bool complete)
{
	struct pool_id *p = &a->pool_id;
	struct err e = { 0 };

	/* An incomplete walk may have missed strays: with equal identities the
	 * next walk would remove them as leftovers. */
	if (!complete && !p->current)
		return;
	if (*p->found.id)
		memcpy(p->row.id, p->found.id, POOL_ID_CAP);
	else if (*p->row.id == '\0' && new_id(p->row.id, &e) < 0) {
		log_err("%s", e.msg);
		return;
	}
	if (p->row.generation < p->found.generation)
		p->row.generation = p->found.generation;
	p->sealed = true;
	write_both(a, true);
}

static void on_bump(struct timer *t)
{
	struct api *a = container_of(t, struct api, pool_id.bump);

	if (a->pool_id.call.busy)
		timer_set(&a->loop, t, BUMP_MS, on_bump);
	else if (a->pool_id.sealed)
		write_both(a, false);
}

void pool_id_touch(struct api *a)
{
	if (a->pool_id.sealed && a->pool_id.bump.slot == 0)
		timer_set(&a->loop, &a->pool_id.bump, BUMP_MS, on_bump);
}
