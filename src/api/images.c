#include "api/images.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/auto.h"
#include "base/buf.h"

struct retired {
	struct list node;
	struct api *api;
	char id[ID_CAP];
	struct warden_call call;
	struct timer again;
	struct deferred gone;
};

enum { AGAIN_MS = 200 };

static void try_remove(struct retired *r);

void images_init(struct api *a)
{
	list_init(&a->images.all);
	list_init(&a->images.retired);
}

static void add(struct api *a, const struct image *img)
{
	struct image *i = xcalloc(1, sizeof(*i));

	*i = *img;
	json_incref(i->config);
	list_add(&a->images.all, &i->node);
	a->images.n++;
}

static int load_row(void *arg, const struct image_row *row)
{
	struct image img = { .size = row->size,
			     .entries = row->entries,
			     .created_ms = row->created_ms };
	json_t *config = json_loads(row->config, 0, NULL);

	if (!image_name_valid(row->name) || !id_valid(row->id) ||
	    str_copy(img.name, sizeof(img.name), row->name) < 0 ||
	    str_copy(img.id, sizeof(img.id), row->id) < 0 ||
	    str_copy(img.cache, sizeof(img.cache), row->cache) < 0) {
		log_err("image=%.64s bad row in the registry, ignoring",
			row->name);
		((struct api *)arg)->pool_id.bad_rows = true;
	} else {
		img.config = config;
		add(arg, &img);
	}
	json_decref(config);
	return 0;
}

int images_load(struct api *a, struct err *e)
{
	return registry_image_each(&a->registry, load_row, a, e);
}

bool image_name_valid(const char *s)
{
	size_t n = strnlen(s, IMAGE_NAME_CAP), i;

	if (n == 0 || n >= IMAGE_NAME_CAP || strchr("._:-", s[0]))
		return false;
	for (i = 0; i < n; i++)
		if (!(s[i] >= 'a' && s[i] <= 'z') &&
		    !(s[i] >= '0' && s[i] <= '9') && !strchr("._:-", s[i]))
			return false;
	return !id_valid(s);
}

struct image *image_find(struct api *a, const char *ref)
{
	struct list *n, *next;

	list_each (n, next, &a->images.all) {
		struct image *i = container_of(n, struct image, node);

		if (!i->removing &&
		    (strcmp(i->name, ref) == 0 || strcmp(i->id, ref) == 0))
			return i;
	}
	return NULL;
}

static struct image *image_by_name(struct api *a, const char *name)
{
	struct list *n, *next;

	list_each (n, next, &a->images.all) {
		struct image *i = container_of(n, struct image, node);

		if (strcmp(i->name, name) == 0)
			return i;
	}
	return NULL;
}

struct image *image_by_id(struct api *a, const char *id)
{
	struct list *n, *next;

	list_each (n, next, &a->images.all) {
		struct image *i = container_of(n, struct image, node);

		if (strcmp(i->id, id) == 0)
			return i;
	}
	return NULL;
}

int image_put(struct api *a, const struct image *img, struct err *e)
{
	AUTO_FREE char *config =
		img->config ? json_dumps(img->config, JSON_COMPACT) : NULL;
	struct image_row row = { .name = img->name,
				 .id = img->id,
				 .size = img->size,
				 .entries = img->entries,
				 .created_ms = img->created_ms,
				 .config = config ? config : "",
				 .cache = img->cache };
	struct image *old;
	char old_id[ID_CAP];
	int r = registry_image_put(&a->registry, &row, e);

	if (r < 0)
		return r;
	pool_id_touch(a);
	old = image_find(a, img->name);
	if (!old) {
		add(a, img);
	} else {
		struct list node = old->node;

		memcpy(old_id, old->id, ID_CAP);
		json_decref(old->config);
		*old = *img;
		json_incref(old->config);
		old->node = node;
		spares_drop(a, old_id);
		image_retire(a, old_id);
	}
	spares_poke(a);
	return 0;
}

void image_drop(struct api *a, struct image *img)
{
	struct err e = { 0 };

	list_del(&img->node);
	a->images.n--;
	/* A new one may have come while this one was being removed: then the
	 * row of the name is the new one's. */
	if (!image_by_name(a, img->name) &&
	    registry_image_remove(&a->registry, img->name, &e) < 0)
		log_err("image=%s %s, ignoring", img->name, e.msg);
	json_decref(img->config);
	free(img);
}

static void free_retired(struct deferred *d)
{
	free(container_of(d, struct retired, gone));
}

static void remove_again(struct timer *t)
{
	try_remove(container_of(t, struct retired, again));
}

static void on_removed(struct warden_call *c, const struct warden_rep *rep,
		       int fds[FD_PASS_MAX])
{
	struct retired *r = container_of(c, struct retired, call);

	(void)fds;
	/* In use by one that only the warden knows: on its way out. */
	if (rep->err.code == EBUSY) {
		timer_set(&r->api->loop, &r->again, AGAIN_MS, remove_again);
		return;
	}
	/* Nobody to ask: the next reconciliation tries again. */
	if (rep->err.code && rep->err.code != ENOENT)
		log_warn("image=%s not removed: %s", r->id, rep->err.msg);
	timer_del(&r->api->loop, &r->again);
	list_del(&r->node);
	loop_defer(&r->api->loop, &r->gone, free_retired);
}

static void try_remove(struct retired *r)
{
	if (r->call.busy || image_in_use(r->api, r->id, true))
		return;
	warden_req_id(&r->call, WARDEN_IMAGE_REMOVE, r->id);
	warden_ask(&r->api->warden, &r->call, on_removed);
}

static struct retired *find_retired(struct api *a, const char *id)
{
	struct list *n, *next;

	list_each (n, next, &a->images.retired) {
		struct retired *r = container_of(n, struct retired, node);

		if (strcmp(r->id, id) == 0)
			return r;
	}
	return NULL;
}

void image_retire(struct api *a, const char *id)
{
	struct retired *r = find_retired(a, id);

	if (!r) {
		r = xcalloc(1, sizeof(*r));
		r->api = a;
		memcpy(r->id, id, ID_CAP);
		list_add(&a->images.retired, &r->node);
	}
	try_remove(r);
}

void images_unused(struct api *a, const char *id)
{
	struct retired *r;

	if (list_empty(&a->images.retired))
		return;
	r = find_retired(a, id);
	if (r)
		try_remove(r);
}
