/* PUT /v1/images/{name}: the body of the request becomes an image. */
#include <errno.h>
#include <stdlib.h>

#include "api/api.h"
#include "api/image_json.h"
#include "api/import.h"
#include "api/reply.h"
#include "api/routes.h"
#include "http/target.h"
#include "image/oci.h"
#include "spec/check.h"
#include "spec/spec.h"

struct upload {
	struct import import;
	struct http_conn *conn;
	struct deferred gone;
};

static void upload_free(struct deferred *d)
{
	free(container_of(d, struct upload, gone));
}

static void upload_end(struct upload *u)
{
	import_end(&u->import);
	loop_defer(&u->import.api->loop, &u->gone, upload_free);
}

static void upload_gone(struct http_conn *c, void *owner)
{
	struct upload *u = owner;

	(void)c;
	log_info("image=%s its upload was given up, removing it",
		 u->import.image.name);
	upload_end(u);
}

static size_t body_data(struct http_conn *c, const char *p, size_t n,
			void *owner)
{
	struct upload *u = owner;

	(void)c;
	return import_feed(&u->import, p, n);
}

static void body_end(struct http_conn *c, void *owner)
{
	struct upload *u = owner;

	(void)c;
	import_fed(&u->import);
}

static void on_ready(struct import *i)
{
	struct upload *u = container_of(i, struct upload, import);

	http_stream_body(u->conn, body_data, body_end);
}

static void on_room(struct import *i)
{
	http_resume_body(container_of(i, struct upload, import)->conn);
}

static void on_done(struct import *i)
{
	struct upload *u = container_of(i, struct upload, import);
	struct audit entry = { .type = "image.create",
			       .who = audit_who(u->conn),
			       .request_id = http_request_id(u->conn),
			       .data = image_json(&i->image) };

	audit_reply(i->api, u->conn, &entry, 201, image_json_full(&i->image));
	upload_end(u);
}

static void on_failed(struct import *i, const struct err *e)
{
	struct upload *u = container_of(i, struct upload, import);

	import_refuse(i->api, u->conn, e);
	upload_end(u);
}

static const struct import_ops ops = {
	.ready = on_ready,
	.room = on_room,
	.done = on_done,
	.failed = on_failed,
};

/* What each sandbox of it is to run: a root file system cannot say so. */
static int take_start(struct upload *u, struct err *e)
{
	char line[SPEC_START_BYTES + 1];
	json_t *list;
	int r = http_query(http_request(u->conn), "start", line, sizeof(line));

	if (r == 0)
		return 0;
	if (r < 0)
		return err_set(e, EINVAL,
			       "start: not a command of 1 to %d bytes",
			       SPEC_START_BYTES);
	list = json_pack("[s]", line);
	r = check_start(list, e);
	json_decref(list);
	if (r == 0)
		u->import.image.config =
			json_pack("{s:{s:s}}", "Labels", OCI_LABEL_START, line);
	return r;
}

void h_image_put(struct api *a, struct http_conn *c, const struct call *call)
{
	const struct import_spec from = { .kind = IMPORT_TAR };
	struct upload *u = xcalloc(1, sizeof(*u));
	struct err e = { 0 };

	u->conn = c;
	if (http_request(c)->body == HTTP_NO_BODY)
		err_set(&e, EINVAL, "the body must be a tar archive");
	if (e.code || take_start(u, &e) < 0 ||
	    import_begin(&u->import, a, &ops, call->arg[0], &from, &e) < 0) {
		json_decref(u->import.image.config);
		free(u);
		reply_err(a, c, &e);
		return;
	}
	http_own(c, u, upload_gone);
}
