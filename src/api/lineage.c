#include "api/lineage.h"

#include <errno.h>
#include <string.h>

#include "api/api.h"

enum { DEPTH_MAX = 4096 }; /* forks of forks; a loop would be a bug of ours */

bool state_path_is_own(const char *path)
{
	return strcmp(path, "/etc/machine-id") == 0;
}

static void use(struct state_ref *r, const struct state_ref *like,
		struct snapshot *snap)
{
	*r = (struct state_ref){ .api = like->api };
	memcpy(r->project, like->project, sizeof(r->project));
	memcpy(r->side.image, like->side.image, sizeof(r->side.image));
	if (!snap)
		return;
	snapshot_hold(snap);
	r->held = snap;
	memcpy(r->snapshot, snap->id, sizeof(r->snapshot));
	memcpy(r->side.snap, snap->id, sizeof(r->side.snap));
}

/* The point of the life before, where this one began; NULL: the image. */
static struct snapshot *before(struct api *a, const struct snapshot *snap)
{
	return *snap->base ? snapshot_by_id(a, snap->base) : NULL;
}

void state_hold_base(struct state_ref *r, const struct state_ref *of,
		     void (*ready)(struct state_ref *r, const struct err *e))
{
	struct snapshot *base = of->held ? before(of->api, of->held) : NULL;
	struct err e = { 0 };

	/* It may have moved since, with all that it had. */
	if (base && state_has_tree(base, &e) < 0)
		err_wrap(&e, "what it started from, snapshot %s", base->id);
	else if (of->held && *of->held->base && !base)
		err_set(&e, ENOENT,
			"the snapshot %s that it started from is "
			"gone",
			of->held->base);
	use(r, of, base);
	r->ready = ready;
	ready(r, &e);
}

static bool same_life(const struct snapshot *a, const struct snapshot *b)
{
	return strcmp(a->sandbox, b->sandbox) == 0 &&
	       strcmp(a->base, b->base) == 0;
}

/* Which of two points of one life was first. */
static struct snapshot *earlier(struct snapshot *a, struct snapshot *b)
{
	if (a->created_ms != b->created_ms)
		return a->created_ms < b->created_ms ? a : b;
	return a->kind == SNAPSHOT_TEMP ? b : a; /* taken for this request */
}

/* Where the lives that led to `b` meet that of `a`; NULL: nowhere. */
static struct snapshot *meets(struct api *api, struct snapshot *a,
			      struct snapshot *b)
{
	unsigned i;

	for (i = 0; b && i < DEPTH_MAX; i++, b = before(api, b))
		if (same_life(a, b))
			return earlier(a, b);
	return NULL;
}

int state_hold_ancestor(struct state_ref *r, const struct state_ref *one,
			const struct sandbox *other, struct err *e)
{
	struct snapshot *a = one->held, *found = NULL;
	struct snapshot now = { .kind = SNAPSHOT_TEMP,
				.created_ms = UINT64_MAX };
	unsigned i;

	*r = (struct state_ref){ .api = one->api };
	if (strcmp(one->side.image, other->image_id) != 0)
		return err_set(e, EXDEV,
			       "they have no common ancestor: they started "
			       "from different images");
	memcpy(now.sandbox, other->id, sizeof(now.sandbox));
	memcpy(now.base, other->base, sizeof(now.base));
	for (i = 0; a && !found && i < DEPTH_MAX; i++, a = before(one->api, a))
		found = meets(one->api, a, &now);
	if (found && state_has_tree(found, e) < 0)
		return err_wrap(e, "their common ancestor, snapshot %s",
				found->id);
	use(r, one, found);
	return 0;
}
