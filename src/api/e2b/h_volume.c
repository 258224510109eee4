/* E2B's requests about volumes themselves. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/job.h"
#include "api/e2b/volume.h"
#include "api/reply.h"
#include "api/routes.h"

void e2b_volume_token(const struct api *a, const char *id,
		      char out[PORT_MAC_CAP])
{
	port_sign(a, "e2b volume token 1", id, out);
}

/* Who has its token writes it: not for a key that may only read. */
static json_t *volume_json(const struct e2b_job *j, const json_t *native)
{
	json_t *id = json_object_get(native, "id");
	json_t *out = json_pack("{s:O, s:O}", "volumeID", id, "name",
				json_object_get(native, "name"));
	char token[PORT_MAC_CAP];

	if (j->who.scope < SCOPE_USE)
		return out;
	e2b_volume_token(j->api, json_string_value(id), token);
	json_object_set_new(out, "token", json_string(token));
	explicit_bzero(token, sizeof(token));
	return out;
}

static void on_volume(struct e2b_job *j, int status, json_t *answer)
{
	if (status / 100 == 2 && json_object_get(answer, "id"))
		e2b_job_json(j, status, volume_json(j, answer));
	else
		e2b_job_pass(j, status, answer);
}

static void make_body(struct e2b_job *j)
{
	json_t *name = json_object_get(j->body, "name");

	if (json_is_string(name))
		e2b_job_ask(j, "POST", json_pack("{s:O}", "name", name),
			    on_volume, "/v1/volumes");
	else
		e2b_job_fail(j, 400, "name is missing");
}

static void h_make(struct api *a, struct http_conn *c, const struct call *call)
{
	struct e2b_job *j = e2b_job(a, c, call);

	if (j)
		e2b_job_body(j, make_body);
}

static void on_list(struct e2b_job *j, int status, json_t *answer)
{
	json_t *list, *v;
	size_t i;

	if (status != 200) {
		e2b_job_pass(j, status, answer);
		return;
	}
	list = json_array();
	json_array_foreach (json_object_get(answer, "volumes"), i, v) {
		json_array_append_new(
			list, json_pack("{s:O, s:O}", "volumeID",
					json_object_get(v, "id"), "name",
					json_object_get(v, "name")));
	}
	e2b_job_json(j, 200, list);
}

static void h_list(struct api *a, struct http_conn *c, const struct call *call)
{
	struct e2b_job *j = e2b_job(a, c, call);

	if (j)
		e2b_job_ask(j, "GET", NULL, on_list, "/v1/volumes");
}

/* The volume in the path; NULL: there is none, and that was answered. */
static const struct volume *volume_of(struct api *a, struct http_conn *c,
				      const struct call *call)
{
	struct err e = { 0 };
	const struct volume *v = volume_find(a, &call->who, call->arg[0], &e);

	if (!v)
		e2b_fail_err(a, c, &e);
	return v;
}

static void h_one(struct api *a, struct http_conn *c, const struct call *call)
{
	const struct volume *v = volume_of(a, c, call);
	struct e2b_job *j = v ? e2b_job(a, c, call) : NULL;

	if (j)
		e2b_job_ask(j, "GET", NULL, on_volume, "/v1/volumes/%s", v->id);
}

static void on_removed(struct e2b_job *j, int status, json_t *answer)
{
	if (status == 204)
		e2b_job_empty(j, 204);
	else
		e2b_job_pass(j, status, answer);
}

static void on_box_removed(struct e2b_job *j, int status, json_t *answer)
{
	(void)status; /* if it is still there, the volume says so */
	(void)answer;
	e2b_job_ask(j, "DELETE", NULL, on_removed, "/v1/volumes/%s", j->id);
}

/* First the sandbox that it is looked at through. */
static void h_remove(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	const struct volume *v = volume_of(a, c, call);
	struct e2b_job *j = v ? e2b_job(a, c, call) : NULL;
	char box[ID_CAP];

	if (!j)
		return;
	memcpy(j->id, v->id, ID_CAP);
	volume_box_of(a, v->id, box);
	if (*box)
		e2b_job_ask(j, "DELETE", NULL, on_box_removed,
			    "/v1/sandboxes/%s", box);
	else
		on_box_removed(j, 404, NULL);
}

const struct route e2b_volume_routes[] = {
	E2B_ROW("POST", "/volumes", h_make, "Make a volume"),
	E2B_ROW("GET", "/volumes", h_list, "List the volumes"),
	E2B_ROW("GET", "/volumes/{id}", h_one, "Look at a volume"),
	E2B_ROW("DELETE", "/volumes/{id}", h_remove, "Remove a volume"),
	{ 0 },
};
