#include "api/pack.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/auto.h"

void pack_end(struct pack *p)
{
	if (!p->api)
		return;
	view_job_stop(&p->job);
	blob_write_stop(&p->write);
	blob_unuse(&p->use);
	timer_del(&p->api->loop, &p->soon);
	buf_done(&p->config);
	buf_done(&p->manifest);
	json_decref(p->run);
	p->run = NULL;
	p->api = NULL;
}

static void write_documents(struct pack *p)
{
	oci_config_write(&p->config, &p->image);
	oci_blob_of(&p->config_blob, OCI_MEDIA_CONFIG, buf_data(&p->config),
		    buf_len(&p->config));
	oci_manifest_write(&p->manifest, &p->image, &p->config_blob);
	oci_blob_of(&p->manifest_blob, OCI_MEDIA_MANIFEST,
		    buf_data(&p->manifest), buf_len(&p->manifest));
}

static void finish(struct pack *p)
{
	static const struct err ok = { 0 };

	write_documents(p);
	p->done(p, &ok);
}

static void on_soon(struct timer *t)
{
	finish(container_of(t, struct pack, soon));
}

static enum view_next on_record(struct view_job *v, const struct view_record *r)
{
	struct pack *p = container_of(v, struct pack, job);
	struct err e = { 0 };

	if (r->kind == VIEW_SUM)
		oci_digest_text(p->layer.diff_id, r->sum);
	if (r->kind != VIEW_DATA)
		return VIEW_GO_ON;
	if (blob_write_add(&p->write, r->data.p, r->data.n, &e) < 0) {
		view_job_stop(v);
		p->done(p, &e);
		return VIEW_OVER;
	}
	if (p->progress)
		p->progress(p, p->write.at);
	return VIEW_GO_ON;
}

static void on_ended(struct view_job *v, const struct err *why)
{
	struct pack *p = container_of(v, struct pack, job);
	struct image *img = image_by_id(p->api, p->id);
	struct err e = *why;

	p->layer.blob.size = p->write.at;
	if (e.code == 0 && p->gzip != !!*p->layer.diff_id)
		err_set(&e, EIO, "the worker did not say what it packed");
	if (e.code || blob_write_end(&p->write, p->layer.blob.digest, &e) < 0) {
		p->done(p, &e);
		return;
	}
	if (!p->gzip)
		memcpy(p->layer.diff_id, p->layer.blob.digest, OCI_DIGEST_CAP);
	blob_use(p->api, &p->use, p->layer.blob.digest);
	if (img)
		img->layers[p->gzip] = p->layer;
	finish(p);
}

static const struct view_ops ops = {
	.record = on_record,
	.ended = on_ended,
};

static void describe(struct pack *p, const struct image *img)
{
	memcpy(p->id, img->id, ID_CAP);
	p->run = img->config ? json_incref(img->config) : NULL;
	oci_platform_host(&p->image.platform);
	p->image.created_ms = img->created_ms;
	p->image.run = p->run;
	p->image.layers = &p->layer;
	p->image.n_layers = 1;
}

int pack_begin(struct pack *p, struct api *a, const struct image *img,
	       const char *project,
	       void (*done)(struct pack *p, const struct err *e), struct err *e)
{
	const struct oci_layer *had = &img->layers[p->gzip];
	struct view_side side = { 0 };
	const struct view_question q = { .work = VIEW_PACK,
					 .flags = p->gzip ? VIEW_GZIP : 0,
					 .side = { &side } };

	p->api = a;
	p->done = done;
	p->write.fd = -1;
	describe(p, img);
	/* Images never change: what was packed before is what it is. */
	if (*had->blob.digest && blob_has(a, &had->blob)) {
		p->layer = *had;
		blob_use(a, &p->use, had->blob.digest);
		timer_set(&a->loop, &p->soon, 0, on_soon);
		return 0;
	}
	snprintf(p->layer.blob.media_type, sizeof(p->layer.blob.media_type),
		 "%s", p->gzip ? OCI_MEDIA_LAYER_GZIP : OCI_MEDIA_LAYER);
	memcpy(side.image, img->id, ID_CAP);
	if (blob_write_new(&p->write, a, e) < 0 ||
	    view_job_start(&p->job, a, project, &q, &ops, e) < 0) {
		pack_end(p);
		return -e->code;
	}
	return 0;
}
