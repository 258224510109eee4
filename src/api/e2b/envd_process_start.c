/* Start: a process and its events. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/auto_snapshot.h"
#include "api/e2b/connect.h"
#include "api/e2b/envd_process.h"
#include "api/proc_json.h"
#include "base/auto.h"
#include "base/str.h"

/* While its body is read, or a snapshot is taken before it. */
struct start {
	struct auto_snapshot snapshot;
	struct api *api;
	struct http_conn *conn;
	struct envd_stream_request request;
	json_t *message;
};

static void start_free(struct start *s)
{
	auto_snapshot_leave(&s->snapshot);
	json_decref(s->message);
	free(s);
}

static void start_gone(struct http_conn *c, void *owner)
{
	(void)c;
	start_free(owner);
}

static void refuse(struct start *s, const struct err *e)
{
	connect_refuse(s->api, s->conn, connect_code(e->code), e->msg);
	start_free(s);
}

/* --- what is asked for --- */

/* The strings of a spawn that the message does not have. */
struct texts {
	struct buf env, cwd;
};

static void texts_done(struct texts *t)
{
	buf_done(&t->env);
	buf_done(&t->cwd);
}

static int take_argv(const json_t *process, struct spawn *sp, struct err *e)
{
	const char *cmd = json_string_value(json_object_get(process, "cmd"));
	const json_t *args = json_object_get(process, "args");
	size_t n = json_array_size(args), i;

	if (!cmd || !*cmd)
		return err_set(e, EINVAL, "process.cmd is missing");
	if ((args && !json_is_array(args)) || n >= ARGS_MAX)
		return err_set(e, EINVAL,
			       "process.args is not a list of up to "
			       "8191 words");
	sp->argv = xcalloc(n + 2, sizeof(*sp->argv));
	sp->argv[0] = cmd;
	for (i = 0; i < n; i++) {
		sp->argv[i + 1] = json_string_value(json_array_get(args, i));
		if (!sp->argv[i + 1])
			return err_set(e, EINVAL,
				       "process.args has something else than "
				       "strings");
	}
	sp->argc = n + 1;
	return 0;
}

static void add_var(struct buf *text, size_t *n, const char *key,
		    const char *value)
{
	buf_printf(text, "%s=%s", key, value);
	buf_add(text, "", 1);
	++*n;
}

/* What programs look for to know where they are, unless the client said it. */
static void add_known(struct buf *text, size_t *n, const json_t *envs,
		      const struct sandbox *box)
{
	const char *template =
		json_string_value(json_object_get(e2b_kept(box), "template"));
	const struct {
		const char *name, *value;
	} known[] = {
		{ "E2B_SANDBOX", "true" },
		{ "E2B_SANDBOX_ID", box->id },
		{ "E2B_TEMPLATE_ID", template ? template : box->spec.image },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(known); i++)
		if (!json_object_get(envs, known[i].name) &&
		    !json_object_get(box->spec.env, known[i].name))
			add_var(text, n, known[i].name, known[i].value);
}

static int take_env(const json_t *process, const struct sandbox *box,
		    struct texts *t, struct spawn *sp, struct err *e)
{
	json_t *envs = json_object_get(process, "envs"), *v;
	const char *key, *at;
	size_t i;

	if ((envs && !json_is_object(envs)) ||
	    json_object_size(envs) >= ARGS_MAX)
		return err_set(e, EINVAL, "process.envs is not an object");
	json_object_foreach (envs, key, v) {
		if (*key == '\0' || strchr(key, '=') || !json_is_string(v))
			return err_set(e, EINVAL,
				       "process.envs: '%.64s' is not the name "
				       "of a string",
				       key);
		add_var(&t->env, &sp->envc, key, json_string_value(v));
	}
	add_known(&t->env, &sp->envc, envs, box);
	sp->env = xcalloc(sp->envc + 1, sizeof(*sp->env));
	at = buf_data(&t->env);
	for (i = 0; i < sp->envc; i++, at += strlen(at) + 1)
		sp->env[i] = at;
	return 0;
}

/*
 * "~" is the user's home, and what is relative starts where processes do: the
 * sandbox's directory if it has one, else that home.
 */
static int take_cwd(const json_t *process, const struct sandbox *box,
		    struct texts *t, struct spawn *sp, struct err *e)
{
	const json_t *v = json_object_get(process, "cwd");
	const char *cwd = json_string_value(v);

	if (v && !json_is_null(v) && !cwd)
		return err_set(e, EINVAL, "process.cwd is not a path");
	if (!cwd || !*cwd || *cwd == '/') {
		sp->cwd = cwd;
		return 0;
	}
	if (cwd[0] == '~' && (cwd[1] == '/' || cwd[1] == '\0'))
		buf_printf(&t->cwd, ".%s", cwd + 1);
	else if (*box->spec.workdir)
		buf_printf(&t->cwd, "%s/%s", box->spec.workdir, cwd);
	else
		buf_puts(&t->cwd, cwd);
	sp->cwd = buf_str(&t->cwd);
	return 0;
}

static int take_rest(const json_t *m, struct spawn *sp, struct err *e)
{
	const json_t *tag = json_object_get(m, "tag");
	const json_t *size = json_object_get(m, "pty");

	sp->tag = json_string_value(tag);
	if (tag && !json_is_null(tag) && (!sp->tag || !proc_tag_valid(sp->tag)))
		return err_set(e, EINVAL,
			       "tag is not 1 to 64 letters, digits and "
			       "\"._-\"");
	if (!size || json_is_null(size)) {
		if (!json_is_false(json_object_get(m, "stdin")))
			sp->flags |= SPAWN_STDIN;
		return 0;
	}
	sp->flags |= SPAWN_PTY;
	size = json_object_get(size, "size");
	return size ? proc_size_parse(size, &sp->rows, &sp->cols, e) : 0;
}

static int spawn_parse(const struct start *s, const struct sandbox *box,
		       struct texts *t, struct spawn *sp, struct err *e)
{
	const json_t *process = json_object_get(s->message, "process");
	int r = take_argv(process, sp, e);

	if (r == 0)
		r = take_env(process, box, t, sp, e);
	if (r == 0)
		r = take_cwd(process, box, t, sp, e);
	if (r == 0)
		r = take_rest(s->message, sp, e);
	sp->user = s->request.user;
	return r;
}

/* --- doing it --- */

static void launch(struct start *s, const struct sandbox *box)
{
	AUTO(texts_done) struct texts t = { 0 };
	AUTO(spawn_done) struct spawn sp = { 0 };
	struct err e = { 0 };

	if (spawn_parse(s, box, &t, &sp, &e) < 0) {
		refuse(s, &e);
		return;
	}
	http_own(s->conn, NULL, NULL);
	envd_stream(s->api, s->conn, &s->request, &sp, NULL);
	start_free(s);
}

static void on_snapshot(struct auto_snapshot *w, const struct err *e)
{
	struct start *s = container_of(w, struct start, snapshot);
	const struct sandbox *box = box_by_id(s->api, s->request.id);
	struct err gone = { 0 };

	if (!e->code && box) {
		launch(s, box);
		return;
	}
	if (!box)
		err_set(&gone, ENOENT, "sandbox %s is gone", s->request.id);
	refuse(s, box ? e : &gone);
}

static void start_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	struct start *s = owner;
	struct sandbox *box = box_by_id(s->api, s->request.id);
	struct err e = { 0 };
	int r = -EINVAL;

	s->message = connect_message(c, body, n, &e);
	if (s->message && !box) {
		r = err_set(&e, ENOENT, "sandbox %s is gone", s->request.id);
	} else if (s->message && auto_snapshot_wanted(box)) {
		r = auto_snapshot_take(&s->snapshot, box, &s->request.who,
				       http_request_id(c), on_snapshot, &e);
	} else if (s->message) {
		launch(s, box);
		return;
	}
	if (r < 0)
		refuse(s, &e);
}

void envd_start(struct api *a, struct http_conn *c,
		const struct envd_call *call)
{
	struct start *s = xcalloc(1, sizeof(*s));
	struct err e = { 0 };

	s->api = a;
	s->conn = c;
	s->request.who = call->who;
	memcpy(s->request.id, call->box->id, ID_CAP);
	memcpy(s->request.user, call->user, sizeof(call->user));
	if (envd_stream_timeout(c, &s->request.timeout_ms, &e) < 0) {
		refuse(s, &e);
		return;
	}
	http_own(c, s, start_gone);
	http_read_body(c, ENVD_START_MAX, start_body);
}
