/* Requests about images, except for the one that makes them (upload.c). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/image_json.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/clock.h"

json_t *image_json(const struct image *i)
{
	char stamp[CLOCK_STAMP];

	clock_stamp(i->created_ms, stamp);
	return json_pack("{s:s, s:s, s:I, s:I, s:s}", "name", i->name, "id",
			 i->id, "size", (json_int_t)i->size, "entries",
			 (json_int_t)i->entries, "created_at", stamp);
}

json_t *image_json_full(const struct image *i)
{
	json_t *j = image_json(i);

	json_object_set_new(j, "config",
			    i->config ? json_deep_copy(i->config)
				      : json_null());
	json_object_set_new(j, "cache",
			    *i->cache ? json_string(i->cache) : json_null());
	return j;
}

static void h_image_get(struct api *a, struct http_conn *c,
			const struct call *call)
{
	const struct image *img = image_find(a, call->arg[0]);
	struct err e = { 0 };

	if (img) {
		reply_json(a, c, 200, image_json_full(img));
		return;
	}
	err_set(&e, ENOENT, "no image '%.64s'", call->arg[0]);
	reply_err(a, c, &e);
}

static void h_image_list(struct api *a, struct http_conn *c,
			 const struct call *call)
{
	json_t *list = json_array();
	struct list *n, *next;

	(void)call;
	list_each (n, next, &a->images.all) {
		struct image *i = container_of(n, struct image, node);

		if (!i->removing)
			json_array_append_new(list, image_json(i));
	}
	reply_json(a, c, 200, json_pack("{s:o}", "images", list));
}

/* Goes on to its end when the client leaves. */
struct image_removal {
	struct api *api;
	struct http_conn *conn; /* NULL: it left */
	char id[ID_CAP];
	struct identity who;
	char request[HTTP_REQUEST_ID];
	struct warden_call call;
	struct timer again;
	unsigned tries;
};

enum { SPARES_WAIT_MS = 20, SPARES_TRIES = 250 };

static void ask_remove(struct image_removal *r);

static void removal_gone(struct http_conn *c, void *owner)
{
	(void)c;
	((struct image_removal *)owner)->conn = NULL;
}

static void remove_again(struct timer *t)
{
	ask_remove(container_of(t, struct image_removal, again));
}

static void image_removed(const struct image_removal *r, struct image *img)
{
	const struct audit entry = {
		.type = "image.remove",
		.who = &r->who,
		.request_id = r->request,
		.data = img ? image_json(img) : json_pack("{s:s}", "id", r->id)
	};

	if (img)
		image_drop(r->api, img);
	if (r->conn)
		audit_reply(r->api, r->conn, &entry, 204, NULL);
	else
		audit_add(r->api, &entry);
}

static void on_image_removed(struct warden_call *c,
			     const struct warden_rep *rep, int fds[FD_PASS_MAX])
{
	struct image_removal *r = container_of(c, struct image_removal, call);
	struct image *img = image_by_id(r->api, r->id);
	struct err e = rep->err;

	(void)fds;
	/* Spares and sandboxes that used it are on their way out. */
	if (e.code == EBUSY && r->tries++ < SPARES_TRIES) {
		timer_set(&r->api->loop, &r->again, SPARES_WAIT_MS,
			  remove_again);
		return;
	}
	if (e.code && e.code != ENOENT) {
		if (img)
			img->removing = false;
		if (r->conn)
			reply_err(r->api, r->conn, &e);
	} else {
		image_removed(r, img);
	}
	free(r);
}

static void ask_remove(struct image_removal *r)
{
	warden_req_id(&r->call, WARDEN_IMAGE_REMOVE, r->id);
	warden_ask(&r->api->warden, &r->call, on_image_removed);
}

static void h_image_delete(struct api *a, struct http_conn *c,
			   const struct call *call)
{
	struct image *img = image_find(a, call->arg[0]);
	struct image_removal *r;
	struct err e = { 0 };

	if (!img) {
		err_set(&e, ENOENT, "no image '%.64s'", call->arg[0]);
		reply_err(a, c, &e);
		return;
	}
	if (image_in_use(a, img->id, false)) {
		err_set(&e, EBUSY,
			"image '%s' is in use: remove its sandboxes and "
			"snapshots first",
			img->name);
		reply_err(a, c, &e);
		return;
	}
	r = xcalloc(1, sizeof(*r));
	r->api = a;
	r->conn = c;
	memcpy(r->id, img->id, ID_CAP);
	r->who = call->who;
	memcpy(r->request, http_request_id(c), sizeof(r->request));
	img->removing = true;
	http_own(c, r, removal_gone);
	spares_drop(a, img->id);
	ask_remove(r);
}

static const struct route_query export_query[] = {
	{ "format", "string",
	  "oci (a layout, the default), docker (an archive) or rootfs (the "
	  "files)" },
	{ 0 },
};

static const struct route_query put_query[] = {
	{ "start", "string",
	  "a command that each sandbox of it runs when it starts; for a root "
	  "file system, the others say it in their label carrel.start" },
	{ 0 },
};

const struct route image_routes[] = {
	{ "GET", "/v1/images", h_image_list, SCOPE_READ, 0, "List the images",
	  NULL, NULL, "ImageList", 200 },
	{ "GET", "/v1/images/{name}", h_image_get, SCOPE_READ, 0,
	  "Show an image", NULL, NULL, "Image", 200 },
	{ "PUT", "/v1/images/{name}", h_image_put, SCOPE_ADMIN, ROUTE_OPERATOR,
	  "Make an image of a tar: a root file system, an OCI layout, a docker "
	  "archive",
	  put_query, "application/x-tar", "Image", 201 },
	{ "POST", "/v1/images/{name}/pull", h_image_pull, SCOPE_ADMIN,
	  ROUTE_OPERATOR, "Make an image of one in a registry", NULL,
	  "RegistryAsk", "Image", 201 },
	{ "POST", "/v1/images/{name}/push", h_image_push, SCOPE_ADMIN,
	  ROUTE_OPERATOR, "Send an image to a registry", NULL, "RegistryAsk",
	  "Pushed", 200 },
	{ "GET", "/v1/images/{name}/export", h_image_export, SCOPE_USE, 0,
	  "An image as a tar", export_query, NULL, "application/x-tar", 200 },
	{ "POST", "/v1/images/{name}", h_image_save, SCOPE_ADMIN,
	  ROUTE_OPERATOR, "Make an image of a sandbox's or snapshot's disk",
	  NULL, "ImageSave", "Image", 201 },
	{ "DELETE", "/v1/images/{name}", h_image_delete, SCOPE_ADMIN,
	  ROUTE_OPERATOR | ROUTE_ANYWAY, "Remove an image", NULL, NULL, NULL,
	  204 },
	{ 0 },
};
