/*
 * POST /v1/images/{name}: a state of a sandbox's disk becomes an image. A
 * worker puts the snapshot's changes onto a copy of the image below it, which
 * shares what did not change; then it is committed as any import is.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/image_json.h"
#include "api/import.h"
#include "api/reply.h"
#include "api/routes.h"
#include "api/snapshots.h"
#include "base/auto.h"
#include "image/oci.h"

struct save {
	struct api *api;
	struct http_conn *conn;
	char name[CALL_ARG_CAP];
	struct identity who;
	json_t *config; /* that was asked for, or NULL */
	char source[128];
	struct state_ref state;
	bool held;
	struct import import;
	struct deferred gone;
};

static void save_free(struct deferred *d)
{
	free(container_of(d, struct save, gone));
}

static void save_end(struct save *s)
{
	import_end(&s->import);
	if (s->held)
		state_release(&s->state);
	s->held = false;
	json_decref(s->config);
	s->config = NULL;
	loop_defer(&s->api->loop, &s->gone, save_free);
}

static void save_gone(struct http_conn *c, void *owner)
{
	(void)c;
	save_end(owner);
}

static void save_fail(struct save *s, const struct err *e)
{
	import_refuse(s->api, s->conn, e);
	save_end(s);
}

static void on_ready(struct import *i)
{
	import_fed(i); /* what it is made of is here already */
}

static void on_room(struct import *i)
{
	(void)i;
}

static void on_done(struct import *i)
{
	struct save *s = container_of(i, struct save, import);
	json_t *data = image_json(&i->image);
	struct audit entry = { .type = "image.save",
			       .who = &s->who,
			       .request_id = http_request_id(s->conn),
			       .data = data };

	json_object_set_new(data, "from", json_string(s->source));
	audit_reply(s->api, s->conn, &entry, 201, image_json_full(&i->image));
	save_end(s);
}

static void on_failed(struct import *i, const struct err *e)
{
	save_fail(container_of(i, struct save, import), e);
}

static const struct import_ops ops = {
	.ready = on_ready,
	.room = on_room,
	.done = on_done,
	.failed = on_failed,
};

/* What the image below wants, and over it what was asked for. */
static void set_config(struct save *s, const struct image *base)
{
	json_t *j = base && base->config ? json_deep_copy(base->config)
					 : json_object();

	if (s->config)
		json_object_update(j, s->config);
	if (json_object_size(j) > 0)
		s->import.image.config = json_incref(j);
	json_decref(j);
}

static void on_state(struct state_ref *r, const struct err *why)
{
	struct save *s = container_of(r, struct save, state);
	struct import_spec from = { .kind = IMPORT_SNAPSHOT };
	struct err e = *why;

	if (e.code == 0 && *r->side.snap == '\0')
		err_set(&e, EINVAL,
			"'%s' is an image already: save a sandbox or a "
			"snapshot",
			s->source);
	if (e.code == 0) {
		memcpy(from.base, r->side.image, ID_CAP);
		memcpy(from.from, r->side.snap, ID_CAP);
		set_config(s, image_by_id(s->api, r->side.image));
		(void)!import_begin(&s->import, s->api, &ops, s->name, &from,
				    &e);
	}
	if (e.code)
		save_fail(s, &e);
}

static int take_config(struct save *s, const json_t *v, struct err *e)
{
	AUTO_FREE char *text = json_dumps(v, JSON_COMPACT);

	json_decref(s->config);
	s->config = text ? oci_run_read(text, strlen(text), e) : NULL;
	if (!s->config && e->code == 0)
		err_set(e, EINVAL, "not an object");
	if (e->code == 0)
		return 0;
	e->code = EINVAL; /* the fault is the request's, not an image's */
	return err_wrap(e, "config");
}

static int take_key(struct save *s, const char *key, const json_t *v,
		    struct err *e)
{
	const char *text = json_string_value(v);

	if (strcmp(key, "config") == 0)
		return json_is_null(v) ? 0 : take_config(s, v, e);
	if (strcmp(key, "snapshot") != 0 && strcmp(key, "cache") != 0)
		return err_set(e, EINVAL, "unknown key '%.64s'", key);
	if (json_is_null(v))
		return 0;
	if (!text || strlen(text) != json_string_length(v))
		return err_set(e, EINVAL, "%s: not a string", key);
	if (*key == 's' ? str_copy(s->source, sizeof(s->source), text) < 0
			: str_copy(s->import.image.cache,
				   sizeof(s->import.image.cache), text) < 0)
		return err_set(e, EINVAL, "%s: too long", key);
	return 0;
}

static int take_ask(struct save *s, json_t *body, struct err *e)
{
	const char *key;
	json_t *v;

	json_object_foreach (body, key, v)
		if (take_key(s, key, v, e) < 0)
			return -e->code;
	if (*s->source == '\0')
		return err_set(e, EINVAL,
			       "snapshot: which sandbox or snapshot?");
	return import_check(s->api, s->name, e);
}

static void take_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	struct save *s = owner;
	struct err e = { 0 };
	json_t *j = parse_body(body, n, &e);

	(void)c;
	if (!j || take_ask(s, j, &e) < 0) {
		json_decref(j);
		save_fail(s, &e);
		return;
	}
	json_decref(j);
	s->held = true;
	state_hold(&s->state, s->api, &s->who, s->source, on_state);
}

void h_image_save(struct api *a, struct http_conn *c, const struct call *call)
{
	struct save *s = xcalloc(1, sizeof(*s));

	s->api = a;
	s->conn = c;
	s->who = call->who;
	memcpy(s->name, call->arg[0], sizeof(s->name));
	http_own(c, s, save_gone);
	http_read_body(c, BODY_MAX, take_body);
}
