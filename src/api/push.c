/*
 * POST /v1/images/{name}/push: an image into a registry.
 *
 *	pack -> for config and layer: has it? else its bytes -> the manifest
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "api/fetch.h"
#include "api/image_json.h"
#include "api/long_answer.h"
#include "api/pack.h"
#include "api/registry_ask.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"

enum { QUEUE_MAX = 256 * 1024 };

/* In this order. */
enum step { STEP_CONFIG, STEP_LAYER, STEP_MANIFEST, STEP_END };

struct push {
	struct api *api;
	struct http_conn *conn;
	struct long_answer answer;
	struct identity who;
	char name[IMAGE_NAME_CAP];
	struct registry_ask ask;
	json_t *body; /* the ask points into it */
	struct pack pack;
	struct fetch fetch;
	enum step step;
	bool sending; /* it lacks what is sent in this step */
	int fd;       /* of the layer */
	uint64_t at;  /* that was given to the worker */
	struct deferred gone;
};

static void push_free(struct deferred *d)
{
	free(container_of(d, struct push, gone));
}

static void push_end(struct push *p)
{
	fetch_end(&p->fetch);
	pack_end(&p->pack);
	auto_close(&p->fd);
	p->fd = -1;
	json_decref(p->body);
	p->body = NULL;
	loop_defer(&p->api->loop, &p->gone, push_free);
}

static void push_gone(struct http_conn *c, void *owner)
{
	struct push *p = owner;

	(void)c;
	long_gone(&p->answer);
	push_end(p);
}

static void answered(struct long_answer *l)
{
	push_end(container_of(l, struct push, answer));
}

static void fail(struct push *p, const struct err *e)
{
	struct err full = *e;

	err_wrap(&full, "%s", p->ask.text);
	fetch_end(&p->fetch);
	pack_end(&p->pack);
	long_fail(&p->answer, &full);
}

static void finish(struct push *p)
{
	const char *digest = p->pack.manifest_blob.digest;
	struct audit entry = {
		.type = "image.push",
		.who = &p->who,
		.request_id = http_request_id(p->conn),
		.data = json_pack("{s:s, s:s, s:s}", "name", p->name,
				  "reference", p->ask.text, "digest", digest)
	};

	fetch_end(&p->fetch);
	long_done(&p->answer, &entry, 200,
		  json_pack("{s:s, s:s}", "reference", p->ask.text, "digest",
			    digest));
}

/* --- bytes ---------------------------------------------------------------- */

static void send_bytes(struct push *p, const char *s, size_t n)
{
	while (n > 0) {
		size_t piece = n < FETCH_DATA_MAX ? n : FETCH_DATA_MAX;

		fetch_ask(&p->fetch,
			  &(struct fetch_record){
				  .kind = FETCH_BYTES, .p = s, .n = piece });
		s += piece;
		n -= piece;
	}
}

/* As much of the layer as the worker takes for now. */
static void send_layer(struct push *p)
{
	static char piece[FETCH_DATA_MAX];
	struct err e = { 0 };

	while (p->at < p->pack.layer.blob.size &&
	       fetch_queued(&p->fetch) < QUEUE_MAX) {
		ssize_t n = pread(p->fd, piece, sizeof(piece), (off_t)p->at);

		if (n <= 0) {
			err_set(&e, EIO, "the packed image cannot be read");
			fail(p, &e);
			return;
		}
		p->at += (uint64_t)n;
		send_bytes(p, piece, (size_t)n);
	}
}

static void on_room(struct fetch *f)
{
	struct push *p = container_of(f, struct push, fetch);

	if (p->sending && p->step == STEP_LAYER)
		send_layer(p);
}

/* --- steps ---------------------------------------------------------------- */

static const struct oci_blob *step_blob(const struct push *p)
{
	return p->step == STEP_CONFIG ? &p->pack.config_blob
				      : &p->pack.layer.blob;
}

static void start_step(struct push *p)
{
	const struct pack *k = &p->pack;

	if (p->step == STEP_END) {
		finish(p);
	} else if (p->step == STEP_MANIFEST) {
		fetch_ask(&p->fetch, &(struct fetch_record){
					     .kind = FETCH_PUT_MANIFEST,
					     .reference = p->ask.ref.reference,
					     .media_type = OCI_MEDIA_MANIFEST,
					     .size = k->manifest_blob.size });
		send_bytes(p, buf_data(&k->manifest), buf_len(&k->manifest));
	} else {
		fetch_ask(&p->fetch,
			  &(struct fetch_record){
				  .kind = FETCH_HAS_BLOB,
				  .reference = step_blob(p)->digest });
	}
}

static void send_blob(struct push *p)
{
	struct err e = { 0 };

	p->sending = true;
	fetch_ask(&p->fetch,
		  &(struct fetch_record){ .kind = FETCH_PUT_BLOB,
					  .reference = step_blob(p)->digest,
					  .size = step_blob(p)->size });
	if (p->step == STEP_CONFIG) {
		send_bytes(p, buf_data(&p->pack.config),
			   buf_len(&p->pack.config));
		return;
	}
	p->fd = blob_open(p->api, step_blob(p)->digest, &e);
	if (p->fd < 0)
		fail(p, &e);
	else
		send_layer(p);
}

static void on_said(struct fetch *f, const struct fetch_record *r)
{
	struct push *p = container_of(f, struct push, fetch);

	if (r->kind == FETCH_SENT)
		long_tell(&p->answer,
			  json_pack("{s:s, s:I, s:I}", "step", "push", "bytes",
				    (json_int_t)r->size, "total",
				    (json_int_t)p->pack.layer.blob.size),
			  false);
	if (r->kind != FETCH_DONE)
		return;
	if (!r->flag && !p->sending && p->step < STEP_MANIFEST) {
		send_blob(p);
		return;
	}
	p->sending = false;
	p->step++;
	start_step(p);
}

static void on_fetch_failed(struct fetch *f, const struct err *e)
{
	fail(container_of(f, struct push, fetch), e);
}

static const struct fetch_ops fetch_ops = {
	.said = on_said,
	.room = on_room,
	.failed = on_fetch_failed,
};

static void on_packed(struct pack *k, const struct err *e)
{
	struct push *p = container_of(k, struct push, pack);
	const struct fetch_record open = {
		.kind = FETCH_OPEN,
		.host = p->ask.ref.host,
		.repository = p->ask.ref.repository,
		.user = p->ask.user,
		.password = p->ask.password,
		.flag = true,
	};

	if (e->code) {
		fail(p, e);
		return;
	}
	long_tell(&p->answer, json_pack("{s:s}", "step", "push"), true);
	fetch_begin(&p->fetch, p->api, &fetch_ops, &open);
	start_step(p);
}

static void on_packing(struct pack *k, uint64_t bytes)
{
	struct push *p = container_of(k, struct push, pack);

	long_tell(&p->answer,
		  json_pack("{s:s, s:I}", "step", "pack", "bytes",
			    (json_int_t)bytes),
		  false);
}

/* --- the request ---------------------------------------------------------- */

static int begin(struct push *p, struct err *e)
{
	const struct image *img = image_find(p->api, p->name);

	if (!img)
		return err_set(e, ENOENT, "no image '%.64s'", p->name);
	if (registry_ask_read(&p->ask, p->api, p->body, e) < 0)
		return -e->code;
	if (oci_digest_valid(p->ask.ref.reference))
		return err_set(e, EINVAL,
			       "'%.100s': what is pushed gets a tag, its "
			       "digest is what it is",
			       p->ask.text);
	p->pack.progress = on_packing;
	p->pack.gzip = true;
	return pack_begin(&p->pack, p->api, img, who_project(&p->who),
			  on_packed, e);
}

static void take_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	struct push *p = owner;
	struct err e = { 0 };

	p->body = parse_body(body, n, &e);
	if (!p->body || begin(p, &e) < 0) {
		reply_err(p->api, c, &e);
		push_end(p);
		return;
	}
	long_start(&p->answer, p->api, c, answered);
}

void h_image_push(struct api *a, struct http_conn *c, const struct call *call)
{
	struct push *p = xcalloc(1, sizeof(*p));

	p->api = a;
	p->conn = c;
	p->fd = -1;
	p->who = call->who;
	if (str_copy(p->name, sizeof(p->name), call->arg[0]) < 0)
		p->name[0] = '\0';
	http_own(c, p, push_gone);
	http_read_body(c, BODY_MAX, take_body);
}
