/* Requests about volumes (volumes.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/reply.h"
#include "api/routes.h"
#include "api/volumes.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/str.h"
#include "http/target.h"
#include "registry/volumes.h"

#define VOLUME_MIN (16ULL << 20)
#define VOLUME_MAX (1ULL << 46)

static json_t *volume_json(struct api *a, const struct volume *v)
{
	json_t *users = json_array();
	struct list *n, *next;

	list_each (n, next, &a->boxes.all) {
		const struct sandbox *s = container_of(n, struct sandbox, all);

		if (volume_has(s, v))
			json_array_append_new(users, json_string(s->id));
	}
	return json_pack("{s:s, s:s, s:s, s:I, s:s, s:o, s:o}", "id", v->id,
			 "name", v->name, "project", v->project, "size",
			 (json_int_t)v->bytes, "state",
			 v->missing ? "missing" : "ready", "sandboxes", users,
			 "created_at", json_time(v->created_ms));
}

static void show_list(struct api *a, struct http_conn *c,
		      const struct call *call)
{
	char project[NAME_CAP] = "";
	json_t *list = json_array();
	struct list *n, *next;

	if (http_query(http_request(c), "project", project, sizeof(project)) <
	    0)
		memcpy(project, "?", 2); /* nobody's */
	list_each (n, next, &a->volumes.all) {
		const struct volume *v = container_of(n, struct volume, node);

		if (who_sees(&call->who, v->project) && volume_ready(v) &&
		    (!*project || strcmp(project, v->project) == 0))
			json_array_append_new(list, volume_json(a, v));
	}
	reply_json(a, c, 200, json_pack("{s:o}", "volumes", list));
}

static void show_one(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	struct err e = { 0 };
	const struct volume *v = volume_find(a, &call->who, call->arg[0], &e);

	if (v)
		reply_json(a, c, 200, volume_json(a, v));
	else
		reply_err(a, c, &e);
}

/* --- work that goes on to its end when the client leaves --- */

struct volume_work {
	struct api *api;
	struct http_conn *conn; /* NULL: it left */
	struct identity who;
	char request[HTTP_REQUEST_ID];
	char id[ID_CAP];
	uint64_t bytes;
	struct warden_call call;
	struct deferred gone;
};

static void work_free(struct deferred *d)
{
	free(container_of(d, struct volume_work, gone));
}

static void work_left(struct http_conn *c, void *owner)
{
	(void)c;
	((struct volume_work *)owner)->conn = NULL;
}

static struct volume_work *work_new(struct api *a, struct http_conn *c,
				    const struct identity *who)
{
	struct volume_work *w = xcalloc(1, sizeof(*w));

	w->api = a;
	w->conn = c;
	w->who = *who;
	memcpy(w->request, http_request_id(c), sizeof(w->request));
	http_own(c, w, work_left);
	return w;
}

static void work_fail(struct volume_work *w, const struct err *e)
{
	if (w->conn)
		reply_err(w->api, w->conn, e);
	loop_defer(&w->api->loop, &w->gone, work_free);
}

/* Takes `answer`; NULL: one without a body. */
static void work_done(struct volume_work *w, const char *type,
		      const struct volume *v, int status, json_t *answer)
{
	const struct audit entry = {
		.type = type,
		.who = &w->who,
		.request_id = w->request,
		.data = json_pack("{s:s, s:s, s:s, s:I}", "id", v->id, "name",
				  v->name, "project", v->project, "size",
				  (json_int_t)v->bytes),
	};

	if (w->conn) {
		audit_reply(w->api, w->conn, &entry, status, answer);
	} else {
		audit_add(w->api, &entry);
		json_decref(answer);
	}
	loop_defer(&w->api->loop, &w->gone, work_free);
}

/* --- make --- */

static void on_made(struct warden_call *c, const struct warden_rep *rep,
		    int fds[FD_PASS_MAX])
{
	struct volume_work *w = container_of(c, struct volume_work, call);
	struct volume *v = volume_by_id(w->api, w->id);
	struct err e = rep->err;

	(void)fds;
	if (e.code ||
	    registry_volume_made(&w->api->registry, w->id, w->bytes, &e) < 0) {
		volume_discard(w->api, v);
		work_fail(w, &e);
		return;
	}
	v->making = false;
	v->bytes = w->bytes;
	v->seen = w->api->reconcile.round;
	work_done(w, "volume.create", v, 201, volume_json(w->api, v));
}

static int take_size(const json_t *j, const struct conf *c, uint64_t *out,
		     struct err *e)
{
	json_int_t n = json_integer_value(j);

	*out = c->disk_bytes;
	if (json_is_string(j) && parse_size(json_string_value(j), out) < 0)
		return err_set(e, EINVAL, "size: not a size, as in \"10G\"");
	if (json_is_integer(j))
		*out = n > 0 ? (uint64_t)n : 0;
	if (j && !json_is_string(j) && !json_is_integer(j))
		return err_set(e, EINVAL, "size: not a size, as in \"10G\"");
	if (*out < VOLUME_MIN || *out > VOLUME_MAX)
		return err_set(e, ERANGE, "size: from 16M to 64T");
	return 0;
}

static struct volume *take_wish(struct volume_work *w, const json_t *body,
				struct err *e)
{
	const char *name = NULL, *project = who_project(&w->who);
	json_error_t why;
	json_t *size = NULL;

	if (json_unpack_ex((json_t *)body, &why, JSON_STRICT,
			   "{s:s, s?:o, s?:s}", "name", &name, "size", &size,
			   "project", &project) < 0) {
		err_set(e, EINVAL, "%.150s", why.text);
		return NULL;
	}
	if (!name_valid(name) || !name_valid(project)) {
		err_set(e, EINVAL, "'%.64s' is not 1 to 63 of a-z, 0-9 and -",
			name_valid(name) ? project : name);
		return NULL;
	}
	if (!who_sees(&w->who, project)) {
		err_set(e, ENOENT, "no project '%s'", project);
		return NULL;
	}
	if (take_size(size, &w->api->conf, &w->bytes, e) < 0 ||
	    project_disk_room(w->api, project, w->bytes, e) < 0)
		return NULL;
	return volume_add(w->api, project, name, e);
}

static void on_body(struct http_conn *c, char *text, size_t n, void *owner)
{
	struct volume_work *w = owner;
	struct err e = { 0 };
	json_t *body = parse_body(text, n, &e);
	struct volume *v = body ? take_wish(w, body, &e) : NULL;

	(void)c;
	json_decref(body);
	if (!v) {
		work_fail(w, &e);
		return;
	}
	memcpy(w->id, v->id, ID_CAP);
	warden_req_id(&w->call, WARDEN_VOLUME_NEW, v->id);
	memcpy(w->call.req.volume.id, v->id, ID_CAP);
	w->call.req.volume.bytes = w->bytes;
	warden_ask(&w->api->warden, &w->call, on_made);
}

/* Until the body is there nothing is under way: the client's end is ours. */
static void body_gone(struct http_conn *c, void *owner)
{
	struct volume_work *w = owner;

	(void)c;
	loop_defer(&w->api->loop, &w->gone, work_free);
}

static void got_body(struct http_conn *c, char *text, size_t n, void *owner)
{
	http_own(c, owner, work_left);
	on_body(c, text, n, owner);
}

static void h_make(struct api *a, struct http_conn *c, const struct call *call)
{
	struct volume_work *w = work_new(a, c, &call->who);

	http_own(c, w, body_gone);
	http_read_body(c, BODY_MAX, got_body);
}

/* --- remove --- */

static void on_removed(struct warden_call *c, const struct warden_rep *rep,
		       int fds[FD_PASS_MAX])
{
	struct volume_work *w = container_of(c, struct volume_work, call);
	struct volume *v = volume_by_id(w->api, w->id), old = *v;
	struct err e = { 0 };

	(void)fds;
	if (rep->err.code && rep->err.code != ENOENT) {
		v->removing = false;
		if (registry_volume_made(&w->api->registry, v->id, v->bytes,
					 &e) < 0)
			log_err("volume=%s %s", v->name, e.msg);
		work_fail(w, &rep->err);
		return;
	}
	volume_drop(w->api, v);
	work_done(w, "volume.remove", &old, 204, NULL);
}

/* NULL with an error: it is not there, or somebody needs it. */
static struct volume *find_free(struct api *a, const struct call *call,
				struct err *e)
{
	struct volume *v = volume_find(a, &call->who, call->arg[0], e);
	const struct sandbox *user = v ? volume_user(a, v) : NULL;

	if (!v)
		return NULL;
	if (!v->making && !v->removing && !user)
		return v;
	if (user)
		err_set(e, EBUSY, "sandbox %s has volume '%s': remove it first",
			user->id, v->name);
	else
		err_set(e, EBUSY, "volume '%s' is being %s", v->name,
			v->making ? "made" : "removed");
	return NULL;
}

static void h_remove(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	struct err e = { 0 };
	struct volume *v = find_free(a, call, &e);
	struct volume_work *w;

	/* From here on it is gone, also after a crash. */
	if (!v || registry_volume_made(&a->registry, v->id, 0, &e) < 0) {
		reply_err(a, c, &e);
		return;
	}
	w = work_new(a, c, &call->who);
	memcpy(w->id, v->id, ID_CAP);
	v->removing = true;
	warden_req_id(&w->call, WARDEN_VOLUME_REMOVE, v->id);
	warden_ask(&a->warden, &w->call, on_removed);
}

static const struct route_query list_query[] = {
	{ "project", "string", "only of this one" },
	{ 0 },
};

const struct route volume_routes[] = {
	{ "POST", "/v1/volumes", h_make, SCOPE_USE, 0, "Make a volume", NULL,
	  "VolumeNew", "Volume", 201 },
	{ "GET", "/v1/volumes", show_list, SCOPE_READ, ROUTE_ALONE,
	  "List the volumes", list_query, NULL, "VolumeList", 200 },
	{ "GET", "/v1/volumes/{id}", show_one, SCOPE_READ, ROUTE_ALONE,
	  "Look at a volume", NULL, NULL, "Volume", 200 },
	{ "DELETE", "/v1/volumes/{id}", h_remove, SCOPE_USE, ROUTE_ANYWAY,
	  "Remove a volume that no sandbox has", NULL, NULL, NULL, 204 },
	{ 0 },
};
