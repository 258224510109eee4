/* POST /v1/sandboxes/{id}/move: the same sandbox in the other tier. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/box_json.h"
#include "api/long_answer.h"
#include "api/move.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"

struct moving {
	struct api *api;
	struct http_conn *conn;
	struct call call;
	char id[ID_CAP];
	struct long_answer answer;
	const char *step; /* that was told last */
	struct move_client client;
	struct deferred gone;
};

static void moving_free(struct deferred *d)
{
	free(container_of(d, struct moving, gone));
}

/* It goes on without us. */
static void moving_gone(struct http_conn *c, void *owner)
{
	struct moving *m = owner;

	(void)c;
	move_leave(&m->client);
	long_gone(&m->answer);
	loop_defer(&m->api->loop, &m->gone, moving_free);
}

static void answered(struct long_answer *l)
{
	struct moving *m = container_of(l, struct moving, answer);

	loop_defer(&m->api->loop, &m->gone, moving_free);
}

static void on_progress(struct move_client *c, const char *step,
			uint64_t entries, uint64_t bytes)
{
	struct moving *m = container_of(c, struct moving, client);
	bool other = !m->step || strcmp(m->step, step) != 0;

	m->step = step;
	long_tell(&m->answer,
		  json_pack("{s:s, s:I, s:I}", "step", step, "entries",
			    (json_int_t)entries, "bytes", (json_int_t)bytes),
		  other);
}

static void on_done(struct move_client *c, const struct err *e)
{
	struct moving *m = container_of(c, struct moving, client);
	const struct sandbox *s = box_by_id(m->api, m->id);

	if (e->code || !s)
		long_fail(&m->answer, e);
	else
		long_end(&m->answer, box_json(s));
}

static int take_body(const char *body, size_t n, char tier[16], struct err *e)
{
	json_t *j = parse_body(body, n, e);
	const char *text = NULL;
	json_error_t why;
	int r;

	if (!j)
		return -e->code;
	r = json_unpack_ex(j, &why, JSON_STRICT, "{s:s}", "tier", &text);
	if (r < 0)
		err_set(e, EINVAL, "%.150s", why.text);
	else if (strcmp(text, "container") != 0 && strcmp(text, "microvm") != 0)
		r = err_set(e, EINVAL,
			    "tier: there are 'container' and 'microvm'");
	else
		r = str_copy(tier, 16, text);
	json_decref(j);
	return r;
}

/* 1: it is there already. */
static int begin(struct moving *m, const char *body, size_t n, struct err *e)
{
	char tier[16];
	struct sandbox *s;
	int r = take_body(body, n, tier, e);

	if (r < 0)
		return r;
	s = box_find(m->api, &m->call.who, m->call.arg[0], e);
	if (!s)
		return -e->code;
	memcpy(m->id, s->id, sizeof(m->id));
	m->client.progress = on_progress;
	m->client.done = on_done;
	r = move_start(s, tier, &m->call.who, http_request_id(m->conn),
		       &m->client, e);
	return r == -EALREADY ? 1 : r;
}

static void move_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	struct moving *m = owner;
	struct err e = { 0 };
	int r = begin(m, body, n, &e);

	if (r < 0) {
		reply_err(m->api, c, &e);
		free(m);
		return;
	}
	long_start(&m->answer, m->api, c, answered);
	if (r == 1)
		long_end(&m->answer, box_json(box_by_id(m->api, m->id)));
}

static void h_move(struct api *a, struct http_conn *c, const struct call *call)
{
	struct moving *m = xcalloc(1, sizeof(*m));

	m->api = a;
	m->conn = c;
	m->call = *call;
	http_own(c, m, moving_gone);
	http_read_body(c, BODY_MAX, move_body);
}

const struct route move_routes[] = {
	{ "POST", "/v1/sandboxes/{id}/move", h_move, SCOPE_USE, 0,
	  "The same sandbox in the other tier: its processes end, its disk "
	  "comes along",
	  NULL, "MoveAsk", "Sandbox", 200 },
	{ 0 },
};
