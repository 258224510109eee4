/*
 * POST /v1/sandboxes/{id}/fork: sandboxes that start where another one is.
 *
 * All or none: their rows, and that of the snapshot they start as, are one
 * commit, when all of them run. Until then nobody knows them, so a crash of
 * ours leaves what the reconciliation kills; and the first that fails ends the
 * others.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/audit.h"
#include "api/box_json.h"
#include "api/box_log.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"

/* By its id: one that runs may end before the last one does. */
struct child {
	struct fork *fork;
	char id[ID_CAP];
};

struct fork {
	struct api *api;
	struct http_conn *conn;
	struct identity who;
	char ref[CALL_ARG_CAP], project[NAME_CAP];
	char parent[ID_CAP]; /* the sandbox, or that of the snapshot */
	struct spec spec;    /* of all of them, without a name */
	char name[NAME_CAP];
	char account[ID_CAP]; /* that they draw on; "": each its own */
	bool timed;           /* the request says how long they live */
	struct snapshot_take take;
	struct snapshot *from; /* held */
	struct replay replay;
	unsigned n, n_made, n_ready;
	struct child child[];
};

/* Ends those that were made; nobody was told of them. */
static void undo(struct fork *f)
{
	unsigned i;

	for (i = 0; i < f->n_made; i++) {
		struct sandbox *s = box_by_id(f->api, f->child[i].id);

		if (s)
			box_kill(s, NULL);
	}
	f->n_made = 0;
}

static void fork_free(struct fork *f)
{
	struct snapshot *from = take_ptr(f->from);

	replay_done(&f->replay);
	snapshot_leave(&f->take);
	if (from)
		snapshot_release(from);
	spec_done(&f->spec);
	free(f);
}

static void fork_gone(struct http_conn *c, void *owner)
{
	struct fork *f = owner;

	(void)c;
	undo(f);
	fork_free(f);
}

static void failed(struct fork *f, const struct err *e)
{
	undo(f);
	reply_err(f->api, f->conn, e);
	fork_free(f);
}

/* "try-2" of 3, "try" if it is the only one. */
static int child_name(const struct fork *f, unsigned i, char out[NAME_CAP],
		      struct err *e)
{
	int n = snprintf(out, NAME_CAP, f->n > 1 && *f->name ? "%s-%u" : "%s",
			 f->name, i + 1);

	if (n < NAME_CAP && (*out == '\0' || name_valid(out)))
		return 0;
	return err_set(e, EINVAL,
		       "name: '%s' is not a name of 1 to 63 of a-z, 0-9 and -, "
		       "with a number behind it",
		       f->name);
}

/* --- when they run --- */

static int tell_one(struct fork *f, unsigned i, struct err *e)
{
	struct sandbox *s = box_by_id(f->api, f->child[i].id);
	AUTO_FREE char *spec = NULL;

	if (!s || s->state != BOX_RUNNING)
		return err_set(e, EIO, "fork %u of %u has ended", i + 1, f->n);
	spec = box_spec_text(s);
	return box_tell(s, spec, e);
}

/* With the answer, if it may be asked for again. */
static int tell_all(struct fork *f, const char *answer, struct err *e)
{
	struct registry *r = &f->api->registry;
	bool fresh = f->from->kind == SNAPSHOT_FORK && !f->from->has_row;
	unsigned i;
	int rc;

	if (fresh && snapshot_save_base(f->from, e) < 0)
		return -e->code;
	rc = f->spec.persist ? registry_begin_durable(r, e)
			     : registry_begin(r, e);
	if (rc < 0)
		return rc;
	if (fresh)
		rc = snapshot_save(f->from, e);
	for (i = 0; i < f->n && rc == 0; i++)
		rc = tell_one(f, i, e);
	if (rc == 0 && f->replay.given)
		rc = replay_keep(f->api, &f->replay, answer, e);
	rc = registry_end(r, rc, e);
	if (fresh)
		f->from->has_row = rc == 0;
	for (i = 0; i < f->n && rc < 0; i++) {
		struct sandbox *s = box_by_id(f->api, f->child[i].id);

		if (s)
			s->told = false;
	}
	return rc;
}

/* NULL: one of them has ended. */
static char *answer_text(const struct fork *f)
{
	json_t *list = json_array(),
	       *all = json_pack("{s:o}", "sandboxes", list);
	char *text = NULL;
	unsigned i;

	for (i = 0; i < f->n; i++) {
		struct sandbox *s = box_by_id(f->api, f->child[i].id);

		if (s)
			json_array_append_new(list, box_json(s));
	}
	if (json_array_size(list) == f->n)
		text = json_dumps(all, JSON_COMPACT);
	json_decref(all);
	return text;
}

static void answer(struct fork *f, const char *text)
{
	json_t *ids = json_array();
	unsigned i;

	for (i = 0; i < f->n; i++) {
		struct sandbox *s = box_by_id(f->api, f->child[i].id);

		box_log_ready(s, &f->who, f->conn);
		json_array_append_new(ids, json_string(s->id));
	}
	audit_add(f->api,
		  &(struct audit){ .type = "sandbox.fork",
				   .box = box_by_id(f->api, f->parent),
				   .who = &f->who,
				   .request_id = http_request_id(f->conn),
				   .data = json_pack("{s:s, s:s, s:o}", "of",
						     f->parent, "snapshot",
						     f->from->id, "sandboxes",
						     ids) });
	reply_text(f->api, f->conn, 201, NULL, text);
	fork_free(f);
}

static void on_ready(void *arg, struct sandbox *s, const struct err *why)
{
	struct child *c = arg;
	struct fork *f = c->fork;
	AUTO_FREE char *text = NULL;
	struct err e = { 0 };

	if (!s) {
		e = *why;
		err_wrap(&e, "fork %u of %u", (unsigned)(c - f->child) + 1,
			 f->n);
		failed(f, &e);
		return;
	}
	if (++f->n_ready < f->n)
		return;
	text = answer_text(f);
	if (tell_all(f, text ? text : "", &e) < 0)
		failed(f, &e);
	else
		answer(f, text ? text : "{}");
}

/* --- making them --- */

/* The budgets of a family are spent together. */
static void inherit(const struct fork *f, struct sandbox *s)
{
	const struct sandbox *from = box_by_id(f->api, f->parent);

	box_set_account(s, f->account);
	if (from && !f->timed)
		lifetime_inherit(s, from);
}

static int make_one(struct fork *f, unsigned i, struct err *e)
{
	AUTO(spec_done) struct spec spec = { 0 };
	struct child *c = &f->child[i];
	struct sandbox *s = NULL;
	int r;

	spec_copy(&spec, &f->spec);
	r = child_name(f, i, spec.name, e);
	if (r == 0)
		r = box_create_from(f->from, &spec, f->parent, &s, e);
	if (r < 0 || !s)
		return r;
	c->fork = f;
	memcpy(c->id, s->id, sizeof(c->id));
	f->n_made++;
	if (*f->account)
		inherit(f, s);
	/* The disk of a persistent one changes under its name: it is where
	 * they start, and no ancestor that can be looked at later. */
	if (strcmp(f->from->id, f->parent) == 0)
		box_set_base(s, f->from->base);
	box_log_create(s, &f->who, f->conn, false);
	box_on_ready(s, on_ready, c);
	return 0;
}

static void make_all(struct fork *f)
{
	struct err e = { 0 };
	unsigned i;

	for (i = 0; i < f->n; i++)
		if (make_one(f, i, &e) < 0) {
			err_wrap(&e, "fork %u of %u", i + 1, f->n);
			failed(f, &e);
			return;
		}
}

static void on_taken(struct snapshot_take *t, struct snapshot *snap,
		     const struct err *e)
{
	struct fork *f = container_of(t, struct fork, take);

	f->from = snap;
	if (snap)
		make_all(f);
	else
		failed(f, e);
}

/* --- what is asked for --- */

/* The disk of one that is suspended; 1: it is taken of one that is not. */
static int use_sandbox(struct fork *f, const struct sandbox *s, struct err *e)
{
	memcpy(f->parent, s->id, sizeof(f->parent));
	memcpy(f->project, s->project, sizeof(f->project));
	memcpy(f->account, s->account->id, sizeof(f->account));
	spec_copy(&f->spec, &s->spec);
	*f->spec.name = '\0';
	if (s->state != BOX_SUSPENDED)
		return 1;
	f->from = snapshot_by_id(f->api, s->disk);
	if (!f->from)
		return err_set(e, EBUSY, "sandbox %s has no disk", s->id);
	snapshot_hold(f->from);
	return 0;
}

static int use_snapshot(struct fork *f, struct snapshot *snap, struct err *e)
{
	memcpy(f->parent, snap->sandbox, sizeof(f->parent));
	memcpy(f->project, snap->project, sizeof(f->project));
	snprintf(f->account, sizeof(f->account), "%s",
		 snap->account ? snap->account->id : snap->sandbox);
	f->from = snap;
	snapshot_hold(snap);
	return snapshot_spec(snap, &f->spec, e);
}

/* Budgets of its own are an operator's to give. */
static int take_account(struct fork *f, const json_t *j, struct err *e)
{
	const json_t *own = json_object_get(j, "own_budget");

	if (own && !json_is_boolean(own))
		return err_set(e, EINVAL, "own_budget: not true or false");
	if (!json_is_true(own))
		return 0;
	if (GUARD(SCOPE) && f->who.scope < SCOPE_POLICY)
		return err_set(e, EPERM,
			       "own_budget: the scope of this key is '%s', "
			       "'%s' is needed to give a fork budgets of its "
			       "own",
			       scope_word(f->who.scope),
			       scope_word(SCOPE_POLICY));
	*f->account = '\0';
	return 0;
}

static int take_words(struct fork *f, json_t *j, struct err *e)
{
	json_t *name = json_object_get(j, "name"), *labels, *spec, *patch, *had;
	int r = 0;

	if (name && !json_is_null(name) &&
	    (!json_is_string(name) ||
	     str_copy(f->name, sizeof(f->name), json_string_value(name)) < 0 ||
	     !name_valid(f->name)))
		return err_set(e, EINVAL,
			       "name: not 1 to 63 of a-z, 0-9 and -");
	spec = json_object_get(j, "spec");
	if (json_object_get(spec, "name") || json_object_get(spec, "image") ||
	    json_object_get(spec, "tier"))
		return err_set(
			e, EINVAL,
			"spec: a fork has the image and the tier of what "
			"it is of, and its name is 'name'");
	f->timed = json_object_get(spec, "timeout") != NULL;
	had = json_incref(f->spec.canaries);
	if (spec)
		r = spec_from_json(&f->spec, spec, e);
	if (r == 0 && had)
		r = spec_inherit_canaries(&f->spec, had, e);
	json_decref(had);
	if (r == 0)
		r = rules_may_say(&f->who, spec, e);
	labels = json_object_get(j, "labels");
	if (r < 0 || !labels)
		return r;
	patch = json_pack("{s:O}", "labels", labels);
	r = spec_patch(&f->spec, patch, e);
	json_decref(patch);
	return r;
}

static int check_keys(const json_t *j, unsigned *n, struct err *e)
{
	static const char *const known[] = { "count", "name", "labels", "spec",
					     "own_budget" };
	const json_t *count = json_object_get(j, "count");
	const char *key;
	json_t *v;
	size_t i;

	json_object_foreach ((json_t *)j, key, v) {
		for (i = 0; i < ARRAY_LEN(known); i++)
			if (strcmp(key, known[i]) == 0)
				break;
		if (i == ARRAY_LEN(known))
			return err_set(e, EINVAL, "unknown key '%.64s'", key);
	}
	*n = 1;
	if (!count)
		return 0;
	if (!json_is_integer(count) || json_integer_value(count) < 1 ||
	    json_integer_value(count) > SNAPSHOT_COPIES_MAX)
		return err_set(e, EINVAL, "count: not 1 to %d",
			       SNAPSHOT_COPIES_MAX);
	*n = (unsigned)json_integer_value(count);
	return 0;
}

static int check_names(const struct fork *f, struct err *e)
{
	char name[NAME_CAP];
	unsigned i;

	for (i = 0; i < f->n; i++) {
		if (child_name(f, i, name, e) < 0)
			return -e->code;
		if (*name && box_by_name(f->api, f->project, name))
			return err_set(e, EEXIST, "the name '%s' is taken",
				       name);
	}
	return box_may_create(f->api, f->project, &f->spec, f->n, e);
}

static int begin(struct fork *f, json_t *j, struct err *e)
{
	const struct snapshot_ask ask = { .kind = SNAPSHOT_FORK,
					  .copies = f->n };
	struct sandbox *s = box_find(f->api, &f->who, f->ref, e);
	struct snapshot *snap = NULL;
	struct err none = { 0 };
	int r;

	if (!s)
		snap = snapshot_find(f->api, &f->who, f->ref, &none);
	if (!s && !snap)
		return -e->code;
	err_clear(e);
	r = s ? use_sandbox(f, s, e) : use_snapshot(f, snap, e);
	if (r < 0 || take_words(f, j, e) < 0 || take_account(f, j, e) < 0 ||
	    check_names(f, e) < 0)
		return -e->code;
	if (r == 1)
		return snapshot_take(&f->take, s, &ask, on_taken, e);
	make_all(f);
	return 0;
}

/* Until its body is there. */
struct ask {
	struct api *api;
	struct call call;
};

static void ask_gone(struct http_conn *c, void *owner)
{
	(void)c;
	free(owner);
}

/* An idempotency key is bound to the body and to the parent of the fork. */
static bool was_answered(struct fork *f, const char *body, size_t n)
{
	AUTO(buf_done) struct buf all = { 0 };

	buf_printf(&all, "fork %s\n", f->ref);
	buf_add(&all, body, n);
	return replay_answer(f->api, f->conn, &f->who, buf_data(&all),
			     buf_len(&all), &f->replay);
}

static void fork_body(struct http_conn *c, char *body, size_t size, void *owner)
{
	AUTO_FREE struct ask *q = owner;
	struct err e = { 0 };
	json_t *j = parse_body(body, size, &e);
	struct fork *f;
	unsigned n = 0;

	if (!j || check_keys(j, &n, &e) < 0) {
		json_decref(j);
		reply_err(q->api, c, &e);
		return;
	}
	f = xcalloc(1, sizeof(*f) + n * sizeof(f->child[0]));
	f->api = q->api;
	f->conn = c;
	f->who = q->call.who;
	f->n = n;
	memcpy(f->ref, q->call.arg[0], sizeof(f->ref));
	if (was_answered(f, body, size)) {
		fork_free(f);
		json_decref(j);
		return;
	}
	http_own(c, f, fork_gone);
	if (begin(f, j, &e) < 0)
		failed(f, &e);
	json_decref(j);
}

void h_fork(struct api *a, struct http_conn *c, const struct call *call)
{
	struct ask *q = xcalloc(1, sizeof(*q));

	q->api = a;
	q->call = *call;
	http_own(c, q, ask_gone);
	http_read_body(c, BODY_MAX, fork_body);
}
