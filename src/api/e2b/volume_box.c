#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/volume.h"

struct volume_box {
	struct list node;
	struct api *api;
	char volume[ID_CAP];
	char box[ID_CAP]; /* "": it is being made */
	struct list waits;
	struct timer soon; /* to tell those who came when it was there */
	struct inner_ask ask;
	struct share *place;
	struct deferred gone;
};

void e2b_volumes_init(struct api *a)
{
	list_init(&a->e2b_volumes.boxes);
}

static void box_free(struct deferred *d)
{
	free(container_of(d, struct volume_box, gone));
}

static void box_drop(struct volume_box *b)
{
	timer_del(&b->api->loop, &b->soon);
	list_del(&b->node);
	share_give(b->place, 1);
	loop_defer(&b->api->loop, &b->gone, box_free);
}

static void tell_all(struct volume_box *b, int status, const char *why)
{
	/* Those who come meanwhile wait for the next one. */
	while (!list_empty(&b->waits)) {
		struct volume_wait *w =
			container_of(b->waits.next, struct volume_wait, node);

		list_del(&w->node);
		w->ready(w, *b->box ? b->box : NULL, status, why);
	}
}

static void on_made(struct inner_ask *q, int status, json_t *answer)
{
	struct volume_box *b = container_of(q, struct volume_box, ask);
	const char *id = json_string_value(json_object_get(answer, "id"));

	if (status / 100 == 2 && id && str_copy(b->box, ID_CAP, id) == 0) {
		tell_all(b, 200, "");
		return;
	}
	/* Not found any more, but told. */
	list_del(&b->node);
	tell_all(b, status ? status : 503, inner_message(status, answer));
	box_drop(b);
}

static void on_soon(struct timer *t)
{
	tell_all(container_of(t, struct volume_box, soon), 200, "");
}

static struct volume_box *find(struct api *a, const char *volume)
{
	struct list *n, *next;

	list_each (n, next, &a->e2b_volumes.boxes) {
		struct volume_box *b = container_of(n, struct volume_box, node);

		if (strcmp(b->volume, volume) == 0)
			return b;
	}
	return NULL;
}

/* Those whose sandbox has ended by itself. */
static void forget_ended(struct api *a)
{
	struct list *n, *next;

	list_each (n, next, &a->e2b_volumes.boxes) {
		struct volume_box *b = container_of(n, struct volume_box, node);
		const struct sandbox *s = *b->box ? box_by_id(a, b->box) : NULL;

		if (*b->box && (!s || s->state != BOX_RUNNING) &&
		    list_empty(&b->waits))
			box_drop(b);
	}
}

static json_t *box_spec(const struct volume *v)
{
	return json_pack("{s:[o], s:{s:s}, s:i, s:i, s:b, s:i, s:s}", "volumes",
			 json_sprintf("%s:%s:shared", v->name, VOLUME_TOP),
			 "labels", VOLUME_LABEL, v->id, "timeout",
			 VOLUME_LIFE_S, "idle-timeout", VOLUME_IDLE_S, "sudo",
			 1, "pids", 64, "memory", "128M");
}

int volume_box(struct api *a, const struct volume *v,
	       const struct identity *who, const char *request_id,
	       struct volume_wait *w, struct err *e)
{
	struct share *place;
	struct volume_box *b;
	int r;

	forget_ended(a);
	b = find(a, v->id);
	if (b) {
		list_add(&b->waits, &w->node);
		if (*b->box)
			timer_set(&a->loop, &b->soon, 0, on_soon);
		return 0;
	}
	place = share_take(&a->pools.volumes, v->project, 1, e);
	if (!place)
		return -e->code;
	b = xcalloc(1, sizeof(*b));
	b->place = place;
	b->api = a;
	memcpy(b->volume, v->id, ID_CAP);
	list_init(&b->waits);
	list_add(&a->e2b_volumes.boxes, &b->node);
	r = inner_ask(&b->ask,
		      &(struct inner_json){ a, who, request_id, "POST",
					    "/v1/sandboxes", box_spec(v),
					    on_made },
		      e);
	if (r < 0)
		box_drop(b);
	else
		list_add(&b->waits, &w->node);
	return r;
}

void volume_leave(struct volume_wait *w)
{
	if (w->node.next)
		list_del(&w->node);
}

void volume_box_of(struct api *a, const char *volume_id, char out[ID_CAP])
{
	const struct volume_box *b = find(a, volume_id);

	snprintf(out, ID_CAP, "%s", b ? b->box : "");
}

bool volume_has_box(struct api *a, const char *id)
{
	struct list *n, *next;

	list_each (n, next, &a->e2b_volumes.boxes)
		if (strcmp(container_of(n, struct volume_box, node)->box, id) ==
		    0)
			return true;
	return false;
}
