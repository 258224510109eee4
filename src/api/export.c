/*
 * GET /v1/images/{name}/export: an image as a tar, for others. An OCI layout
 * or a docker archive is packed first, since its documents come in front and
 * know the layer's digest; a root file system leaves as it is read.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/layout.h"
#include "api/pack.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "http/target.h"

enum { PIECE = 64 * 1024, PIECES = 16 };

struct image_export {
	struct api *api;
	struct http_conn *conn;
	char name[IMAGE_NAME_CAP];
	bool docker, begun;
	struct pack pack;
	struct layout layout;
	struct view_job job; /* of a root file system */
	struct timer again;
	struct deferred gone;
};

static void export_free(struct deferred *d)
{
	free(container_of(d, struct image_export, gone));
}

static void export_end(struct image_export *x)
{
	pack_end(&x->pack);
	layout_done(&x->layout);
	view_job_stop(&x->job);
	timer_del(&x->api->loop, &x->again);
	loop_defer(&x->api->loop, &x->gone, export_free);
}

static void export_gone(struct http_conn *c, void *owner)
{
	(void)c;
	export_end(owner);
}

/* An answer that has begun is cut: nobody takes it for whole. */
static void export_fail(struct image_export *x, const struct err *e)
{
	if (x->begun) {
		log_warn("image=%s export: %s, cutting the answer", x->name,
			 e->msg);
		http_reply_cut(x->conn);
	} else {
		reply_err(x->api, x->conn, e);
	}
	export_end(x);
}

static const struct http_field fields[] = {
	{ "Content-Type", "application/x-tar" }, { 0 }
};

/* --- layouts -------------------------------------------------------------- */

static void pump(struct image_export *x);

static void pump_again(struct timer *t)
{
	pump(container_of(t, struct image_export, again));
}

static void on_taken(struct http_conn *c, void *owner)
{
	(void)c;
	pump(owner);
}

static void pump(struct image_export *x)
{
	char piece[PIECE];
	struct err e = { 0 };
	unsigned i;

	for (i = 0; i < PIECES; i++) {
		ssize_t n = layout_read(&x->layout, piece, sizeof(piece), &e);

		if (n < 0) {
			export_fail(x, &e);
			return;
		}
		if (n == 0) {
			http_reply_end(x->conn);
			export_end(x);
			return;
		}
		if (!http_reply_data(x->conn, piece, (size_t)n))
			return; /* until the client has it */
	}
	timer_set(&x->api->loop, &x->again, 0, pump_again);
}

static void add_oci(struct image_export *x, const struct pack *p)
{
	struct buf index = { 0 };
	char path[OCI_PATH_CAP];

	oci_index_write(&index, &p->manifest_blob, &p->image.platform, x->name);
	layout_add_text(&x->layout, "oci-layout", OCI_LAYOUT_TEXT,
			strlen(OCI_LAYOUT_TEXT));
	layout_add_text(&x->layout, "index.json", buf_data(&index),
			buf_len(&index));
	oci_blob_path(path, p->manifest_blob.digest);
	layout_add_text(&x->layout, path, buf_data(&p->manifest),
			buf_len(&p->manifest));
	oci_blob_path(path, p->config_blob.digest);
	layout_add_text(&x->layout, path, buf_data(&p->config),
			buf_len(&p->config));
	oci_blob_path(path, p->layer.blob.digest);
	layout_add_blob(&x->layout, path, &p->layer.blob);
	buf_done(&index);
}

/* "name:tag"; a name without one is the latest. */
static void add_docker(struct image_export *x, const struct pack *p)
{
	struct buf manifest = { 0 };
	char path[OCI_PATH_CAP], tag[IMAGE_NAME_CAP + 8];

	snprintf(tag, sizeof(tag), "%s%s", x->name,
		 strchr(x->name, ':') ? "" : ":latest");
	docker_manifest_write(&manifest, &p->image, &p->config_blob, tag);
	layout_add_text(&x->layout, "manifest.json", buf_data(&manifest),
			buf_len(&manifest));
	docker_config_path(path, &p->config_blob);
	layout_add_text(&x->layout, path, buf_data(&p->config),
			buf_len(&p->config));
	docker_layer_path(path, &p->layer);
	layout_add_blob(&x->layout, path, &p->layer.blob);
	buf_done(&manifest);
}

static void on_packed(struct pack *p, const struct err *e)
{
	struct image_export *x = container_of(p, struct image_export, pack);

	if (e->code) {
		export_fail(x, e);
		return;
	}
	layout_init(&x->layout, x->api);
	if (x->docker)
		add_docker(x, p);
	else
		add_oci(x, p);
	x->begun = true;
	http_reply_start_sized(x->conn, 200, fields, layout_size(&x->layout),
			       on_taken);
	pump(x);
}

/* --- root file systems ---------------------------------------------------- */

static void on_room(struct http_conn *c, void *owner)
{
	struct image_export *x = owner;

	(void)c;
	view_job_resume(&x->job);
}

static enum view_next on_record(struct view_job *v, const struct view_record *r)
{
	struct image_export *x = container_of(v, struct image_export, job);

	if (r->kind != VIEW_DATA)
		return VIEW_GO_ON;
	if (!x->begun)
		http_reply_start(x->conn, 200, fields, on_room);
	x->begun = true;
	return http_reply_data(x->conn, r->data.p, r->data.n) ? VIEW_GO_ON
							      : VIEW_HOLD;
}

static void on_ended(struct view_job *v, const struct err *e)
{
	struct image_export *x = container_of(v, struct image_export, job);

	if (e->code) {
		export_fail(x, e);
		return;
	}
	if (!x->begun)
		http_reply_start(x->conn, 200, fields, NULL);
	http_reply_end(x->conn);
	export_end(x);
}

static const struct view_ops ops = {
	.record = on_record,
	.ended = on_ended,
};

/* --- the request ---------------------------------------------------------- */

static int begin(struct image_export *x, const struct image *img,
		 const struct identity *who, const char *format, struct err *e)
{
	struct view_side side = { 0 };
	const struct view_question q = { .work = VIEW_PACK, .side = { &side } };

	memcpy(side.image, img->id, ID_CAP);
	memcpy(x->name, img->name, sizeof(x->name));
	x->docker = strcmp(format, "docker") == 0;
	if (strcmp(format, "rootfs") == 0)
		return view_job_start(&x->job, x->api, who_project(who), &q,
				      &ops, e);
	if (*format && !x->docker && strcmp(format, "oci") != 0)
		return err_set(e, EINVAL,
			       "format: oci, docker or rootfs, not '%.16s'",
			       format);
	return pack_begin(&x->pack, x->api, img, who_project(who), on_packed,
			  e);
}

void h_image_export(struct api *a, struct http_conn *c, const struct call *call)
{
	const struct image *img = image_find(a, call->arg[0]);
	struct image_export *x;
	char format[16] = "";
	struct err e = { 0 };

	if (!img) {
		err_set(&e, ENOENT, "no image '%.64s'", call->arg[0]);
		reply_err(a, c, &e);
		return;
	}
	x = xcalloc(1, sizeof(*x));
	x->api = a;
	x->conn = c;
	http_own(c, x, export_gone);
	if (http_query(http_request(c), "format", format, sizeof(format)) < 0)
		err_set(&e, EINVAL, "format: oci, docker or rootfs");
	if (e.code || begin(x, img, &call->who, format, &e) < 0)
		export_fail(x, &e);
}
