/* Requests about strays (strays.h), and the one that prunes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/audit.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/product.h"

static void log_stray(struct api *a, const struct identity *who,
		      const char *type, json_t *stray)
{
	audit_add(a,
		  &(struct audit){ .type = type, .who = who, .data = stray });
}

/* --- GET /v1/strays --- */

static void h_stray_list(struct api *a, struct http_conn *c,
			 const struct call *call)
{
	json_t *list = json_array();
	struct list *n, *next;

	(void)call;
	list_each (n, next, &a->strays.all)
		json_array_append_new(
			list, stray_json(container_of(n, struct stray, node)));
	reply_json(a, c, 200,
		   json_pack("{s:o, s:o}", "state", strays_summary(a), "strays",
			     list));
}

/* --- POST /v1/strays/adopt --- */

struct adopting {
	struct api *api;
	struct http_conn *conn; /* NULL: it left */
	struct identity who;
	json_t *body;
	json_t *done, *failed; /* answers */
	struct timer later;
};

enum { SETTLE_MS = 20 };

static void adopting_gone(struct http_conn *c, void *owner)
{
	(void)c;
	((struct adopting *)owner)->conn = NULL;
}

static void adopting_free(struct adopting *w)
{
	json_decref(w->body);
	json_decref(w->done);
	json_decref(w->failed);
	free(w);
}

static void adopt_one(struct adopting *w, struct stray *s,
		      const struct adopt_ask *ask)
{
	json_t *j = stray_json(s);
	char name[DRIVE_PATH_CAP] = "";
	struct err e = { 0 };

	if (stray_adopt(w->api, s, ask, name, &e) < 0) {
		json_object_set_new(j, "error", json_string(e.msg));
		json_array_append_new(w->failed, j);
		return;
	}
	json_object_set_new(j, "name", json_string(name));
	log_stray(w->api, &w->who, "stray.adopt", json_copy(j));
	json_array_append_new(w->done, j);
}

/* Images and volumes come first: sandboxes and snapshots need them. */
static void adopt_all(struct adopting *w, const struct adopt_ask *ask)
{
	struct api *a = w->api;
	struct list *n, *next;
	unsigned kind;

	for (kind = 0; kind < STRAY_MISSING; kind++)
		list_each (n, next, &a->strays.all) {
			struct stray *s = container_of(n, struct stray, node);

			if (s->kind == kind)
				adopt_one(w, s, ask);
		}
}

static int adopt_named(struct adopting *w, const char *kind, const char *id,
		       const struct adopt_ask *ask, struct err *e)
{
	struct api *a = w->api;
	struct list *n, *next;

	list_each (n, next, &a->strays.all) {
		struct stray *s = container_of(n, struct stray, node);

		if (s->kind == STRAY_MISSING || strcmp(s->id, id) != 0 ||
		    strcmp(stray_kind_name(s->kind), kind) != 0)
			continue;
		adopt_one(w, s, ask);
		return 0;
	}
	return err_set(e, ENOENT,
		       "no stray '%.16s:%.100s': see '" PRODUCT " adopt'", kind,
		       id);
}

static int adopt(struct adopting *w, struct err *e)
{
	struct adopt_ask ask = { "", DEFAULT_PROJECT, "" };
	const char *kind = "", *id = "";
	json_error_t why;
	int all = 0;

	if (json_unpack_ex(w->body, &why, JSON_STRICT,
			   "{s?:b, s?:s, s?:s, s?:s, s?:s, s?:s}", "all", &all,
			   "kind", &kind, "id", &id, "name", &ask.name,
			   "project", &ask.project, "image", &ask.image) < 0)
		return err_set(e, EINVAL, "%.150s", why.text);
	if (!name_valid(ask.project))
		return err_set(e, EINVAL, "invalid project name '%.64s'",
			       ask.project);
	if (all && (*id || *ask.name))
		return err_set(e, EINVAL, "either all, or one with its name");
	if (all)
		adopt_all(w, &ask);
	else if (*id)
		return adopt_named(w, kind, id, &ask, e);
	return 0;
}

static void adopt_now(struct adopting *w)
{
	struct err e = { 0 };
	int r;

	w->done = json_array();
	w->failed = json_array();
	r = adopt(w, &e);
	if (w->conn && r < 0)
		reply_err(w->api, w->conn, &e);
	else if (w->conn)
		reply_json(w->api, w->conn, 200,
			   json_pack("{s:O, s:O}", "adopted", w->done, "failed",
				     w->failed));
	adopting_free(w);
}

/* Waits for the end of the walk through the pool, which finds the strays. */
static void adopt_later(struct timer *t)
{
	struct adopting *w = container_of(t, struct adopting, later);

	if (w->api->pool_id.held && !w->api->pool_id.accept) {
		if (w->conn)
			reply_err(w->api, w->conn, &w->api->pool_id.why);
		adopting_free(w);
	} else if (w->api->pool_id.held || !w->api->reconciled) {
		timer_set(&w->api->loop, t, SETTLE_MS, adopt_later);
	} else {
		adopt_now(w);
	}
}

static void adopt_body(struct http_conn *c, char *text, size_t n, void *owner)
{
	struct adopting *w = owner;
	struct err e = { 0 };

	w->body = parse_body(text, n, &e);
	if (!w->body) {
		reply_err(w->api, c, &e);
		adopting_free(w);
		return;
	}
	if (w->api->pool_id.held) {
		log_stray(w->api, &w->who, "pool.accept",
			  json_pack("{s:s}", "why", w->api->pool_id.why.msg));
		pool_id_accept(w->api);
	}
	adopt_later(&w->later);
}

/* Until the body is there nothing is under way: the client's end is ours. */
static void body_gone(struct http_conn *c, void *owner)
{
	(void)c;
	adopting_free(owner);
}

static void got_body(struct http_conn *c, char *text, size_t n, void *owner)
{
	http_own(c, owner, adopting_gone);
	adopt_body(c, text, n, owner);
}

static void h_adopt(struct api *a, struct http_conn *c, const struct call *call)
{
	struct adopting *w = xcalloc(1, sizeof(*w));

	w->api = a;
	w->conn = c;
	w->who = call->who;
	http_own(c, w, body_gone);
	http_read_body(c, BODY_MAX, got_body);
}

/* --- POST /v1/prune --- */

struct pruning {
	struct api *api;
	struct identity who;
	int dry_run, snapshots, images, strays;
	uint64_t before_ms; /* made earlier than this */
	json_t *removed, *kept;
};

static void prune_note(struct pruning *p, json_t *j, const struct err *e)
{
	if (e->code)
		json_object_set_new(j, "error", json_string(e->msg));
	json_array_append_new(e->code ? p->kept : p->removed, j);
}

/* Of a sandbox that is gone, and nothing was made from it. */
static bool is_unused(struct pruning *p, const struct snapshot *snap)
{
	if (!snapshot_visible(snap) || snap->holds > 0 || snap->n_boxes > 0 ||
	    !who_sees(&p->who, snap->project) ||
	    box_by_id(p->api, snap->sandbox))
		return false;
	if (snapshot_is_own(snap))
		return snap->created_ms < p->before_ms;
	return p->snapshots && snap->created_ms < p->before_ms &&
	       !templates_need(p->api, snap->id);
}

static void prune_snapshots(struct pruning *p)
{
	struct list *n, *next;

	list_each (n, next, &p->api->snapshots.all) {
		struct snapshot *snap = container_of(n, struct snapshot, node);
		struct err e = { 0 };
		json_t *j;

		if (!is_unused(p, snap))
			continue;
		j = json_pack("{s:s, s:s, s:s, s:I}", "kind", "snapshot", "id",
			      snap->id, "name", snap->name, "bytes",
			      (json_int_t)snap->bytes);
		if (!p->dry_run) {
			log_stray(p->api, &p->who, "snapshot.remove",
				  snapshot_json(snap));
			(void)!snapshot_drop(snap, &e);
		}
		prune_note(p, j, &e);
	}
}

static void prune_images(struct pruning *p)
{
	struct api *a = p->api;
	struct list *n, *next;

	list_each (n, next, &a->images.all) {
		struct image *img = container_of(n, struct image, node);
		struct err none = { 0 };
		char id[ID_CAP];

		if (img->removing || img->created_ms >= p->before_ms ||
		    strcmp(img->name, a->conf.image) == 0 ||
		    image_in_use(a, img->id, false))
			continue;
		memcpy(id, img->id, ID_CAP);
		prune_note(p,
			   json_pack("{s:s, s:s, s:s, s:I}", "kind", "image",
				     "id", img->id, "name", img->name, "bytes",
				     (json_int_t)img->size),
			   &none);
		if (p->dry_run)
			continue;
		log_stray(a, &p->who, "image.remove",
			  json_pack("{s:s, s:s}", "id", id, "name", img->name));
		spares_drop(a, id);
		image_drop(a, img);
		image_retire(a, id);
	}
}

/* Images last: other strays may need them. */
static void prune_strays(struct pruning *p)
{
	static const enum stray_kind order[] = { STRAY_SANDBOX, STRAY_SNAPSHOT,
						 STRAY_VOLUME, STRAY_DRIVE,
						 STRAY_IMAGE };
	struct list *n, *next;
	size_t i;

	for (i = 0; i < ARRAY_LEN(order); i++)
		list_each (n, next, &p->api->strays.all) {
			struct stray *s = container_of(n, struct stray, node);
			json_t *j = stray_json(s), *entry;
			struct err e = { 0 };

			if (s->kind != order[i] ||
			    s->since_ms >= p->before_ms) {
				json_decref(j);
				continue;
			}
			entry = json_copy(j);
			if (p->dry_run || stray_remove(p->api, s, &e) < 0)
				json_decref(entry);
			else
				log_stray(p->api, &p->who, "stray.remove",
					  entry);
			prune_note(p, j, &e);
		}
}

static int take_prune(struct pruning *p, json_t *body, struct err *e)
{
	json_int_t older = -1;
	json_error_t why;
	uint64_t now;

	if (json_unpack_ex(body, &why, JSON_STRICT,
			   "{s?:b, s?:b, s?:b, s?:b, s?:I}", "dry_run",
			   &p->dry_run, "snapshots", &p->snapshots, "images",
			   &p->images, "strays", &p->strays, "older_than",
			   &older) < 0)
		return err_set(e, EINVAL, "%.150s", why.text);
	if (p->snapshots && older < 0)
		return err_set(e, EINVAL,
			       "snapshots that users took are removed by age "
			       "only: set older_than, in seconds");
	if ((*p->who.project || p->who.scope < SCOPE_ADMIN) &&
	    (p->images || p->strays))
		return err_set(e, EPERM,
			       "images and strays belong to no project: use an "
			       "admin key of all projects, or the socket");
	now = clock_wall_ms();
	p->before_ms = older < 0 ? UINT64_MAX
		       : (uint64_t)older > now / 1000
			       ? 0
			       : now - (uint64_t)older * 1000;
	return 0;
}

static void prune_body(struct http_conn *c, char *text, size_t n, void *owner)
{
	struct pruning *p = owner;
	struct err e = { 0 };
	json_t *body = parse_body(text, n, &e);

	if (!body || take_prune(p, body, &e) < 0) {
		reply_err(p->api, c, &e);
	} else {
		p->removed = json_array();
		p->kept = json_array();
		prune_snapshots(p);
		if (p->images)
			prune_images(p);
		if (p->strays)
			prune_strays(p);
		reply_json(p->api, c, 200,
			   json_pack("{s:b, s:o, s:o}", "dry_run", p->dry_run,
				     "removed", p->removed, "kept", p->kept));
	}
	json_decref(body);
	free(p);
}

static void prune_gone(struct http_conn *c, void *owner)
{
	(void)c;
	free(owner);
}

static void h_prune(struct api *a, struct http_conn *c, const struct call *call)
{
	struct pruning *p = xcalloc(1, sizeof(*p));

	p->api = a;
	p->who = call->who;
	http_own(c, p, prune_gone);
	http_read_body(c, BODY_MAX, prune_body);
}

const struct route stray_routes[] = {
	{ "GET", "/v1/strays", h_stray_list, SCOPE_READ,
	  ROUTE_ALONE | ROUTE_OPERATOR,
	  "List what the pool has and the database does not know", NULL, NULL,
	  "StrayList", 200 },
	{ "POST", "/v1/strays/adopt", h_adopt, SCOPE_ADMIN,
	  ROUTE_ALONE | ROUTE_OPERATOR,
	  "Give strays a row; ends a hold for a pool that does not fit", NULL,
	  "AdoptAsk", "Adopted", 200 },
	{ "POST", "/v1/prune", h_prune, SCOPE_USE, ROUTE_ANYWAY,
	  "Remove what nothing uses", NULL, "PruneAsk", "Pruned", 200 },
	{ 0 },
};
