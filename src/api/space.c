#include "api/space.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/reply.h"
#include "api/snapshots.h"
#include "api/view_job.h"
#include "base/auto.h"

struct space {
	struct api *api;
	struct http_conn *conn;
	struct snapshot *snap; /* held */
	struct view_job view;
	json_t *found;
	struct deferred gone;
};

static void space_free(struct deferred *d)
{
	struct space *s = container_of(d, struct space, gone);

	json_decref(s->found);
	free(s);
}

static void space_end(struct space *s)
{
	view_job_stop(&s->view);
	snapshot_release(s->snap);
	loop_defer(&s->api->loop, &s->gone, space_free);
}

static void space_gone(struct http_conn *c, void *owner)
{
	(void)c;
	space_end(owner);
}

static void space_fail(struct space *s, const struct err *e)
{
	struct err why = *e;

	space_end(s);
	reply_err(s->api, s->conn, &why);
}

static enum view_next on_space(struct view_job *v, const struct view_record *r)
{
	struct space *s = container_of(v, struct space, view);
	struct err e = { 0 };

	if (r->kind == VIEW_SPACED && !s->found) {
		s->found = json_pack("{s:I, s:I, s:I}", "bytes",
				     (json_int_t)r->space.bytes, "shared",
				     (json_int_t)r->space.shared, "entries",
				     (json_int_t)r->space.entries);
		return VIEW_GO_ON;
	}
	err_set(&e, EIO, "the worker that measures disks broke the protocol");
	space_fail(s, &e);
	return VIEW_OVER;
}

static void on_measured(struct view_job *v, const struct err *e)
{
	struct space *s = container_of(v, struct space, view);
	struct err none = { 0 };
	json_t *j;

	if (e->code == 0 && !s->found)
		err_set(&none, EIO,
			"the worker that measures disks said "
			"nothing");
	if (e->code || none.code) {
		space_fail(s, e->code ? e : &none);
		return;
	}
	j = snapshot_json(s->snap);
	json_object_set(j, "space", s->found);
	space_end(s);
	reply_json(s->api, s->conn, 200, j);
}

static const struct view_ops space_ops = { on_space, on_measured, NULL };

void space_reply(struct api *a, struct http_conn *c, struct snapshot *snap)
{
	struct space *s = xcalloc(1, sizeof(*s));
	struct view_side side = { 0 };
	const struct view_question q = { .work = VIEW_SPACE,
					 .side = { &side } };
	struct err e = { 0 };

	memcpy(side.image, snap->image_id, sizeof(side.image));
	memcpy(side.snap, snap->id, sizeof(side.snap));
	s->api = a;
	s->conn = c;
	s->snap = snap;
	snapshot_hold(snap);
	http_own(c, s, space_gone);
	if (view_job_start(&s->view, a, snap->project, &q, &space_ops, &e) < 0)
		space_fail(s, &e);
}
