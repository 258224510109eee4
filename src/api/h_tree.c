/*
 * GET /v1/sandboxes/{id}/tree: the family of a sandbox or snapshot. Above a
 * sandbox is the snapshot that it started from, above a snapshot its sandbox,
 * and above all of them an image. What users cannot see is left out, unless
 * it is all that is left to hold two of them together.
 */
#include <string.h>

#include "api/api.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/buf.h"

enum { CLIMB_MAX = 1000 };

/* A sandbox or a snapshot. */
struct node {
	const struct sandbox *box;
	const struct snapshot *snap;
};

static const char *id_of(struct node n)
{
	return n.box ? n.box->id : n.snap->id;
}

static const struct sandbox *living(struct api *a, const char *id)
{
	const struct sandbox *s = box_by_id(a, id);

	return s && box_visible(s) ? s : NULL;
}

static bool is_shown(struct api *a, const struct snapshot *snap)
{
	if (snap->taking || snap->removing || snap->kind == SNAPSHOT_TEMP)
		return false;
	return snapshot_visible(snap) || !living(a, snap->sandbox);
}

/* The next that is shown, from a snapshot upwards; both NULL: the image. */
static struct node climb(struct api *a, const struct snapshot *snap,
			 const char *self)
{
	unsigned i;

	for (i = 0; snap && i < CLIMB_MAX; i++) {
		bool own = strcmp(snap->sandbox, self) == 0;

		if (!own && is_shown(a, snap))
			return (struct node){ .snap = snap };
		if (!own && living(a, snap->sandbox))
			return (struct node){ .box = living(a, snap->sandbox) };
		snap = snapshot_by_id(a, snap->base);
	}
	return (struct node){ 0 };
}

static struct node parent_of(struct api *a, struct node n)
{
	struct node up;

	if (n.snap) {
		const struct sandbox *s = living(a, n.snap->sandbox);

		if (s)
			return (struct node){ .box = s };
		return climb(a, snapshot_by_id(a, n.snap->base), "");
	}
	up = climb(a, snapshot_by_id(a, n.box->base), n.box->id);
	if (!up.box && !up.snap)
		up.box = living(a, n.box->parent);
	return up;
}

static struct node top_of(struct api *a, struct node n)
{
	unsigned i;

	for (i = 0; i < CLIMB_MAX; i++) {
		struct node up = parent_of(a, n);

		if (!up.box && !up.snap)
			break;
		n = up;
	}
	return n;
}

static json_t *node_json(struct api *a, struct node n)
{
	struct node up = parent_of(a, n);
	const char *name = n.box ? n.box->spec.name : n.snap->name;
	const char *image = n.box ? n.box->image_id : n.snap->image_id;

	return json_pack(
		"{s:s, s:s, s:s?, s:s, s:s, s:o}", "type",
		n.box ? "sandbox" : "snapshot", "id", id_of(n), "name",
		*name ? name : NULL, "parent",
		up.box || up.snap ? id_of(up) : image, "state",
		n.box ? box_state_name(n.box->state)
		      : snapshot_kind_name(n.snap->kind),
		"created_at",
		json_time(n.box ? n.box->created_ms : n.snap->created_ms));
}

static json_t *image_node(struct api *a, struct node top)
{
	const char *id = top.box ? top.box->image_id : top.snap->image_id;
	const struct image *img = image_by_id(a, id);

	return json_pack("{s:s, s:s, s:s?, s:n, s:n, s:o}", "type", "image",
			 "id", id, "name", img ? img->name : NULL, "parent",
			 "state", "created_at",
			 json_time(img ? img->created_ms : 0));
}

static void add_if_of(struct api *a, json_t *list, struct node n,
		      struct node top)
{
	struct node mine = top_of(a, n);

	if (mine.box == top.box && mine.snap == top.snap)
		json_array_append_new(list, node_json(a, n));
}

static json_t *family(struct api *a, struct node of)
{
	struct node top = top_of(a, of);
	json_t *list = json_array();
	struct list *n, *next;

	json_array_append_new(list, image_node(a, top));
	list_each (n, next, &a->boxes.all) {
		struct sandbox *s = container_of(n, struct sandbox, all);

		if (box_visible(s))
			add_if_of(a, list, (struct node){ .box = s }, top);
	}
	list_each (n, next, &a->snapshots.all) {
		struct snapshot *snap = container_of(n, struct snapshot, node);

		if (is_shown(a, snap))
			add_if_of(a, list, (struct node){ .snap = snap }, top);
	}
	return list;
}

void h_tree(struct api *a, struct http_conn *c, const struct call *call)
{
	struct err e = { 0 }, none = { 0 };
	struct node n = { .box = box_find(a, &call->who, call->arg[0], &e) };

	if (!n.box)
		n.snap = snapshot_find(a, &call->who, call->arg[0], &none);
	if (!n.box && !n.snap)
		reply_err(a, c, &e);
	else
		reply_json(a, c, 200,
			   json_pack("{s:o}", "nodes", family(a, n)));
}
