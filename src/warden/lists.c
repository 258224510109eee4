/*
 * Lists, one object per request: the first whose id is behind the one that the
 * request names (""; the first of all). ENOENT is the end of a list. The api
 * walks them after every reconnection and drops rows of objects that are not
 * there, so any other error must not look like an end.
 */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "warden/warden.h"

void list_boxes(struct warden *w, struct warden_req *q, struct waiter *wt)
{
	struct warden_rep rep = { 0 };
	struct box *best = NULL;
	struct list *pos, *tmp;
	size_t i;

	for (i = 0; i < BOX_BUCKETS; i++)
		list_each (pos, tmp, &w->boxes[i]) {
			struct box *b = container_of(pos, struct box, node);

			if (b->state == BOX_RUNNING &&
			    strcmp(b->spec.id, q->id) > 0 &&
			    (!best || strcmp(b->spec.id, best->spec.id) < 0))
				best = b;
		}
	if (best)
		rep.launch = best->spec;
	if (best && box_is_paused(best))
		rep.launch.flags |= LAUNCH_PAUSED;
	if (!best)
		err_set(&rep.err, ENOENT, "no more sandboxes");
	answer_rep(wt, &rep, NULL, 0);
}

static void list_end(int r, const char *of, struct err *e)
{
	if (r == -ENOENT)
		err_set(e, ENOENT, "no more %s", of);
	else if (r < 0)
		err_set(e, -r, "read the list of %s in the pool: %s", of,
			strerror(-r));
}

void list_images(struct warden *w, struct warden_req *q, struct waiter *wt)
{
	struct warden_rep rep = { 0 };

	list_end(store_image_next(&w->store, q->id, rep.id), "images",
		 &rep.err);
	answer_rep(wt, &rep, NULL, 0);
}

void list_snapshots(struct warden *w, struct warden_req *q, struct waiter *wt)
{
	struct warden_rep rep = { 0 };
	char id[ID_CAP];

	list_end(snapshot_next(w, q->id, id), "snapshots", &rep.err);
	if (rep.err.code == 0)
		about_snapshot(w, id, &rep.launch);
	answer_rep(wt, &rep, NULL, 0);
}

void list_volumes(struct warden *w, struct warden_req *q, struct waiter *wt)
{
	struct warden_rep rep = { 0 };

	list_end(store_attached_next(&w->store, q->id, rep.volume.id,
				     &rep.volume.bytes),
		 "volumes", &rep.err);
	answer_rep(wt, &rep, NULL, 0);
}
