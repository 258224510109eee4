/*
 * POST /v1/images/{name}/pull: an image from a registry.
 *
 *	manifest (through indexes, by platform) -> the blobs that are missing
 *	-> a layout of them, fed to an import as an upload would be
 *
 * Every byte that comes is compared with a digest: the manifest with the one
 * it was asked by (a tag vouches for nothing), blobs with the manifest's. What
 * was fetched stays (blobs.h), so a pull that was cut off goes on where it
 * was.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/fetch.h"
#include "api/image_json.h"
#include "api/import.h"
#include "api/layout.h"
#include "api/long_answer.h"
#include "api/registry_ask.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"

enum {
	BLOBS_MAX = OCI_LAYERS_MAX + 1, /* and the config */
	BUSY_MS = 200,
	PIECE = 64 * 1024,
	PIECES = 16, /* fed in one turn of the loop */
};

struct pull {
	struct api *api;
	struct http_conn *conn;
	struct long_answer answer;
	char name[IMAGE_NAME_CAP];
	struct registry_ask ask;
	struct fetch fetch;
	/* The manifest. */
	char wanted[FETCH_TAG_CAP]; /* what was asked for: a digest, or a tag */
	char top[OCI_DIGEST_CAP];   /* of the first document */
	struct buf doc;
	unsigned depth;
	struct oci_manifest manifest;
	/* The blobs: 0 is the config. */
	size_t i;
	struct blob_use uses[BLOBS_MAX];
	struct blob_write write;
	uint64_t bytes, total;
	struct timer again;
	/* The import. */
	struct import import;
	struct layout layout;
	char piece[PIECE];
	size_t piece_at, piece_n;
	struct deferred gone;
};

static void pull_free(struct deferred *d)
{
	free(container_of(d, struct pull, gone));
}

static void pull_end(struct pull *p)
{
	size_t i;

	fetch_end(&p->fetch);
	blob_write_stop(&p->write);
	import_end(&p->import);
	layout_done(&p->layout);
	timer_del(&p->api->loop, &p->again);
	for (i = 0; i < BLOBS_MAX; i++)
		blob_unuse(&p->uses[i]);
	buf_done(&p->doc);
	loop_defer(&p->api->loop, &p->gone, pull_free);
}

static void pull_gone(struct http_conn *c, void *owner)
{
	struct pull *p = owner;

	(void)c;
	long_gone(&p->answer);
	pull_end(p);
}

static void answered(struct long_answer *l)
{
	pull_end(container_of(l, struct pull, answer));
}

static void fail(struct pull *p, const struct err *e)
{
	struct err full = *e;

	err_wrap(&full, "%s", p->ask.text);
	/* Nothing of it goes on while the answer leaves. */
	fetch_end(&p->fetch);
	timer_del(&p->api->loop, &p->again);
	long_fail(&p->answer, &full);
}

/* --- the import ----------------------------------------------------------- */

static void feed(struct pull *p);

static void feed_again(struct timer *t)
{
	feed(container_of(t, struct pull, again));
}

static void feed(struct pull *p)
{
	struct err e = { 0 };
	unsigned n;

	for (n = 0; n < PIECES; n++) {
		size_t left = p->piece_n - p->piece_at;
		ssize_t got;

		if (left > 0) {
			size_t took = import_feed(&p->import,
						  p->piece + p->piece_at, left);

			p->piece_at += took;
			if (took < left)
				return; /* until there is room */
		}
		got = layout_read(&p->layout, p->piece, sizeof(p->piece), &e);
		if (got < 0) {
			fail(p, &e);
			return;
		}
		p->piece_at = 0;
		p->piece_n = (size_t)got;
		if (got == 0) {
			timer_del(&p->api->loop, &p->again);
			import_fed(&p->import);
			return;
		}
	}
	timer_set(&p->api->loop, &p->again, 0, feed_again);
}

static void on_ready(struct import *i)
{
	feed(container_of(i, struct pull, import));
}

static void on_unpacked(struct import *i, uint64_t entries, uint64_t bytes)
{
	struct pull *p = container_of(i, struct pull, import);

	long_tell(&p->answer,
		  json_pack("{s:s, s:I, s:I}", "step", "unpack", "entries",
			    (json_int_t)entries, "bytes", (json_int_t)bytes),
		  false);
}

static void on_made(struct import *i)
{
	struct pull *p = container_of(i, struct pull, import);
	json_t *data = image_json(&i->image);
	struct audit entry = { .type = "image.pull",
			       .who = audit_who(p->conn),
			       .request_id = http_request_id(p->conn),
			       .data = data };

	timer_del(&p->api->loop, &p->again);
	json_object_set_new(data, "reference", json_string(p->ask.text));
	json_object_set_new(data, "digest", json_string(p->top));
	long_done(&p->answer, &entry, 201, image_json_full(&i->image));
}

static void on_refused(struct import *i, const struct err *e)
{
	fail(container_of(i, struct pull, import), e);
}

static const struct import_ops import_ops = {
	.ready = on_ready,
	.room = on_ready,
	.progress = on_unpacked,
	.done = on_made,
	.failed = on_refused,
};

static const struct oci_blob *blob_at(const struct pull *p, size_t i)
{
	return i == 0 ? &p->manifest.config : &p->manifest.layers[i - 1];
}

static size_t n_blobs(const struct pull *p)
{
	return p->manifest.n_layers + 1;
}

static bool seen_before(const struct pull *p, size_t i)
{
	size_t k;

	for (k = 0; k < i; k++)
		if (strcmp(blob_at(p, k)->digest, blob_at(p, i)->digest) == 0)
			return true;
	return false;
}

/* In the order in which it can be unpacked as it comes. */
static void make_layout(struct pull *p)
{
	struct layout *l = &p->layout;
	char path[OCI_PATH_CAP];
	struct buf index = { 0 };
	struct oci_blob b;
	size_t i;

	oci_blob_of(&b, OCI_MEDIA_MANIFEST, buf_data(&p->doc),
		    buf_len(&p->doc));
	oci_index_write(&index, &b, &p->ask.platform, NULL);
	layout_init(l, p->api);
	layout_add_text(l, "oci-layout", OCI_LAYOUT_TEXT,
			strlen(OCI_LAYOUT_TEXT));
	layout_add_text(l, "index.json", buf_data(&index), buf_len(&index));
	buf_done(&index);
	oci_blob_path(path, b.digest);
	layout_add_text(l, path, buf_data(&p->doc), buf_len(&p->doc));
	for (i = 0; i < n_blobs(p); i++) {
		if (seen_before(p, i))
			continue;
		oci_blob_path(path, blob_at(p, i)->digest);
		layout_add_blob(l, path, blob_at(p, i));
	}
}

static void start_import(struct pull *p)
{
	const struct import_spec from = { .kind = IMPORT_TAR };
	struct err e = { 0 };

	fetch_end(&p->fetch);
	make_layout(p);
	if (import_begin(&p->import, p->api, &import_ops, p->name, &from, &e) <
	    0)
		fail(p, &e);
}

/* --- blobs ---------------------------------------------------------------- */

static void next_blob(struct pull *p);

static void blob_again(struct timer *t)
{
	next_blob(container_of(t, struct pull, again));
}

static void tell_bytes(struct pull *p, bool always)
{
	const json_int_t n = (json_int_t)p->manifest.n_layers;
	const uint64_t bytes = p->bytes + p->write.at;

	long_tell(&p->answer,
		  json_pack("{s:s, s:I, s:I, s:I, s:I}", "step", "fetch",
			    "bytes", (json_int_t)bytes, "total",
			    (json_int_t)p->total, "blob", (json_int_t)p->i,
			    "blobs", n + 1),
		  always);
}

static void end_blob(struct pull *p)
{
	struct err e = { 0 };

	if (p->write.at != blob_at(p, p->i)->size)
		err_set(&e, EBADMSG, "blob %s is shorter than announced",
			blob_at(p, p->i)->digest);
	if (e.code || blob_write_end(&p->write, NULL, &e) < 0) {
		fail(p, &e);
		return;
	}
	p->write.at = 0;
	next_blob(p);
}

/* What is there of it is read again, a part in each turn of the loop. */
static void hash_part(struct timer *t)
{
	struct pull *p = container_of(t, struct pull, again);
	const struct oci_blob *b = blob_at(p, p->i);
	struct err e = { 0 };
	int r = blob_write_hash(&p->write, &e);

	if (r < 0)
		fail(p, &e);
	else if (r == 1)
		timer_set(&p->api->loop, t, 0, hash_part);
	else if (p->write.at == b->size)
		end_blob(p);
	else
		fetch_ask(&p->fetch,
			  &(struct fetch_record){ .kind = FETCH_GET_BLOB,
						  .reference = b->digest,
						  .size = b->size,
						  .offset = p->write.at });
}

static void next_blob(struct pull *p)
{
	struct err e = { 0 };
	int r = 0;

	while (p->i < n_blobs(p)) {
		const struct oci_blob *b = blob_at(p, p->i);

		if (!p->uses[p->i].node.next)
			blob_use(p->api, &p->uses[p->i], b->digest);
		if (!blob_has(p->api, b)) {
			r = blob_write_begin(&p->write, p->api, b, &e);
			break;
		}
		p->bytes += b->size;
		p->i++;
	}
	if (p->i == n_blobs(p))
		start_import(p);
	else if (r == -EBUSY) /* another pull wants it, too */
		timer_set(&p->api->loop, &p->again, BUSY_MS, blob_again);
	else if (r < 0)
		fail(p, &e);
	else
		timer_set(&p->api->loop, &p->again, 0, hash_part);
	if (r == 0 && p->i < n_blobs(p))
		tell_bytes(p, true);
}

/* --- the manifest --------------------------------------------------------- */

static void ask_manifest(struct pull *p, const char *reference)
{
	snprintf(p->wanted, sizeof(p->wanted), "%s", reference);
	buf_clear(&p->doc);
	fetch_ask(&p->fetch, &(struct fetch_record){ .kind = FETCH_GET_MANIFEST,
						     .reference = p->wanted });
}

static int check_doc(struct pull *p, struct err *e)
{
	struct oci_blob is;

	oci_blob_of(&is, "", buf_data(&p->doc), buf_len(&p->doc));
	if (!*p->top)
		memcpy(p->top, is.digest, sizeof(p->top));
	if (oci_digest_valid(p->wanted) && strcmp(p->wanted, is.digest) != 0)
		return err_set(e, EBADMSG,
			       "the manifest is not what its digest says");
	return oci_kind(buf_data(&p->doc), buf_len(&p->doc), e);
}

static int take_index(struct pull *p, struct err *e)
{
	struct oci_blob b;
	int r = oci_index_pick(buf_data(&p->doc), buf_len(&p->doc),
			       &p->ask.platform, &b, e);

	if (r < 0)
		return r;
	if (p->depth++ == OCI_NESTED_MAX)
		return err_set(e, EBADMSG, "too many indexes in indexes");
	ask_manifest(p, b.digest);
	return 0;
}

static int take_manifest(struct pull *p, struct err *e)
{
	size_t i;
	int r = oci_manifest_read(buf_data(&p->doc), buf_len(&p->doc),
				  &p->manifest, e);

	if (r < 0)
		return r;
	for (i = 0; i < n_blobs(p); i++) {
		if (blob_at(p, i)->size > p->api->conf.blobs_bytes - p->total)
			return err_set(e, ENOSPC,
				       "the image has more bytes than are kept "
				       "here (`blobs_size`)");
		p->total += blob_at(p, i)->size;
	}
	next_blob(p);
	return 0;
}

static void end_doc(struct pull *p)
{
	struct err e = { 0 };
	int r = check_doc(p, &e);

	if (r == OCI_INDEX)
		take_index(p, &e);
	else if (r == OCI_MANIFEST)
		take_manifest(p, &e);
	/* Whatever is wrong with a document, the registry's image is. */
	if (e.code && e.code != ENOSPC)
		e.code = EBADMSG;
	if (e.code)
		fail(p, &e);
}

/* --- what the worker says ------------------------------------------------- */

static void take_data(struct pull *p, const struct fetch_record *r)
{
	struct err e = { 0 };

	if (*p->write.part) {
		if (blob_write_add(&p->write, r->p, r->n, &e) == 0)
			tell_bytes(p, false);
	} else if (buf_len(&p->doc) + r->n > FETCH_MANIFEST_MAX) {
		err_set(&e, EBADMSG, "the manifest is too large");
	} else {
		buf_add(&p->doc, r->p, r->n);
	}
	if (e.code)
		fail(p, &e);
}

static void on_said(struct fetch *f, const struct fetch_record *r)
{
	struct pull *p = container_of(f, struct pull, fetch);

	if (r->kind == FETCH_DATA)
		take_data(p, r);
	else if (r->kind == FETCH_DONE && *p->write.part)
		end_blob(p);
	else if (r->kind == FETCH_DONE && p->total == 0)
		end_doc(p);
}

static void on_fetch_failed(struct fetch *f, const struct err *e)
{
	fail(container_of(f, struct pull, fetch), e);
}

static const struct fetch_ops fetch_ops = {
	.said = on_said,
	.failed = on_fetch_failed,
};

/* --- the request ---------------------------------------------------------- */

static void begin(struct pull *p)
{
	const struct fetch_record open = {
		.kind = FETCH_OPEN,
		.host = p->ask.ref.host,
		.repository = p->ask.ref.repository,
		.user = p->ask.user,
		.password = p->ask.password,
	};

	long_start(&p->answer, p->api, p->conn, answered);
	long_tell(&p->answer, json_pack("{s:s}", "step", "manifest"), true);
	fetch_begin(&p->fetch, p->api, &fetch_ops, &open);
	ask_manifest(p, p->ask.ref.reference);
}

static void take_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	struct pull *p = owner;
	struct err e = { 0 };
	json_t *j = parse_body(body, n, &e);

	if (j && import_check(p->api, p->name, &e) == 0 &&
	    registry_ask_read(&p->ask, p->api, j, &e) == 0)
		begin(p);
	json_decref(j);
	if (e.code == 0)
		return;
	reply_err(p->api, c, &e);
	pull_end(p);
}

void h_image_pull(struct api *a, struct http_conn *c, const struct call *call)
{
	struct pull *p = xcalloc(1, sizeof(*p));

	p->api = a;
	p->conn = c;
	p->write.fd = -1;
	/* What is too long for a name is found to be none. */
	if (str_copy(p->name, sizeof(p->name), call->arg[0]) < 0)
		p->name[0] = '\0';
	http_own(c, p, pull_gone);
	http_read_body(c, BODY_MAX, take_body);
}
