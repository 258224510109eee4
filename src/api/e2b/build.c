#include "api/e2b/build.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "api/json_text.h"
#include "base/auto.h"
#include "base/clock.h"

/* --- its end --- */

static void work_free(struct deferred *d)
{
	struct build_work *w = container_of(d, struct build_work, gone);

	json_decref(w->plan);
	json_decref(w->env);
	buf_done(&w->lines);
	buf_done(&w->text[0]);
	buf_done(&w->text[1]);
	buf_done(&w->said);
	free(w);
}

static void on_box_gone(struct inner_ask *q, int status, json_t *answer)
{
	struct build_work *w = container_of(q, struct build_work, ask);

	if (status / 100 != 2 && status != 404 && status != 410)
		log_warn("sandbox=%s of a build: %s, it ends by its time",
			 w->box, inner_message(status, answer));
	loop_defer(&w->api->loop, &w->gone, work_free);
}

/* Nothing is under way; the sandbox goes, and the work with it. */
static void close_work(struct build_work *w)
{
	char target[BUILD_TARGET_CAP];
	struct err e = { 0 };

	w->ending = true;
	timer_del(&w->api->loop, &w->late);
	inner_ask_close(&w->ask);
	inner_close(&w->run);
	if (w->file_fd >= 0)
		close(w->file_fd);
	w->file_fd = -1;
	w->build->work = NULL;
	w->build = NULL;
	list_del(&w->node);
	build_logs_prune(w->api);
	if (*w->box &&
	    inner_ask(&w->ask,
		      &(struct inner_json){
			      w->api, &w->who, w->request, "DELETE",
			      build_target(w, "", target), NULL, on_box_gone },
		      &e) == 0)
		return;
	loop_defer(&w->api->loop, &w->gone, work_free);
}

static void write_down(struct build_work *w, const struct build *b)
{
	audit_add(w->api,
		  &(struct audit){
			  .type = "template.build",
			  .who = &w->who,
			  .request_id = w->request,
			  .data = json_pack("{s:s, s:s, s:s, s:s}", "template",
					    b->of->id, "name", b->of->name,
					    "build", b->id, "state",
					    build_state_name(b->state)),
		  });
}

static void finish(struct build_work *w, enum build_state state)
{
	struct build *b = w->build;
	struct err e = { 0 };

	b->state = state;
	b->finished_ms = clock_wall_ms();
	json_object_del(b->about, "tags");
	json_object_del(b->about, "box");
	if (build_save(w->api, b, &e) < 0)
		log_err("build=%s %s, ignoring", b->id, e.msg);
	write_down(w, b);
	close_work(w);
}

void build_fail(struct build_work *w, const char *fmt, ...)
{
	struct snapshot *snap;
	struct err none = { 0 };
	char text[512];
	va_list ap;

	if (w->ending)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	build_logf(w, "error", "%s", text);
	json_object_set_new(w->build->about, "reason",
			    json_pack("{s:s, s:o}", "step", w->step, "message",
				      json_lossy(text, strlen(text))));
	snap = *w->build->snapshot ? snapshot_by_id(w->api, w->build->snapshot)
				   : NULL;
	if (snap)
		(void)!snapshot_drop(snap, &none);
	w->build->snapshot[0] = '\0';
	finish(w, BUILD_ERROR);
}

static int set_tags(struct build_work *w, struct err *e)
{
	struct build *b = w->build;
	const json_t *v;
	size_t i;

	json_array_foreach (json_object_get(b->about, "tags"), i, v)
		if (template_tag(b->of, json_string_value(v), b, e) < 0)
			return -e->code;
	return template_save(w->api, b->of, e);
}

void build_done(struct build_work *w)
{
	struct build *b = w->build;
	struct err e = { 0 };

	json_object_set(b->about, "env", w->env);
	json_object_set_new(b->about, "user", json_string(w->user));
	json_object_set_new(b->about, "workdir", json_string(w->workdir));
	/* Before a tag says that it can be had. */
	b->state = BUILD_READY;
	if (build_save(w->api, b, &e) < 0 || set_tags(w, &e) < 0) {
		build_fail(w, "%s", e.msg);
		return;
	}
	build_logf(w, "info", "Build finished");
	finish(w, BUILD_READY);
}

/* --- asking --- */

const char *build_target(const struct build_work *w, const char *rest,
			 char out[BUILD_TARGET_CAP])
{
	snprintf(out, BUILD_TARGET_CAP, "/v1/sandboxes/%s%s", w->box, rest);
	return out;
}

void build_ask(struct build_work *w, const char *method, const char *target,
	       json_t *body,
	       void (*done)(struct inner_ask *q, int status, json_t *answer))
{
	struct err e = { 0 };

	if (inner_ask(&w->ask,
		      &(struct inner_json){ w->api, &w->who, w->request, method,
					    target, body, done },
		      &e) < 0)
		build_fail(w, "%s", e.msg);
}

/* --- from its start on --- */

void build_next(struct build_work *w)
{
	const json_t *steps = json_object_get(w->plan, "steps");

	if (w->i == json_array_size(steps)) {
		snprintf(w->step, sizeof(w->step), "finalize");
		build_end(w);
		return;
	}
	snprintf(w->step, sizeof(w->step), "%zu", w->i + 1);
	build_step(w, json_array_get(steps, w->i++));
}

static void on_late(struct timer *t)
{
	build_fail(container_of(t, struct build_work, late),
		   "it took more than %d s", BUILD_TIME_S);
}

static int check_text(const json_t *plan, const char *key, size_t max,
		      struct err *e)
{
	const json_t *v = json_object_get(plan, key);

	if (!v || json_is_null(v))
		return 0;
	if (!json_is_string(v) || json_string_length(v) > max ||
	    strlen(json_string_value(v)) != json_string_length(v))
		return err_set(e, EINVAL,
			       "%s: not a string of at most %zu bytes", key,
			       max);
	return 0;
}

static int check_plan(const json_t *plan, struct err *e)
{
	const json_t *steps = json_object_get(plan, "steps"), *v;
	size_t i;

	if (check_text(plan, "fromImage", 255, e) < 0 ||
	    check_text(plan, "fromTemplate", 255, e) < 0 ||
	    check_text(plan, "startCmd", SPEC_START_BYTES - 1, e) < 0 ||
	    check_text(plan, "readyCmd", SPEC_START_BYTES - 1, e) < 0)
		return -e->code;
	if ((steps && !json_is_array(steps)) ||
	    json_array_size(steps) > BUILD_STEPS_MAX)
		return err_set(e, EINVAL, "steps: not a list of at most %d",
			       BUILD_STEPS_MAX);
	json_array_foreach (steps, i, v)
		if (build_check_step(v, e) < 0)
			return err_wrap(e, "step %zu", i + 1);
	return 0;
}

static int check_room(struct api *a, const struct build *of, struct err *e)
{
	unsigned all = 0, mine = 0;
	struct list *n, *next;

	list_each (n, next, &a->templates.works) {
		const struct build_work *w =
			container_of(n, struct build_work, node);

		all++;
		mine += strcmp(w->who.project, of->of->project) == 0;
	}
	if (all < BUILDS_MAX && mine < BUILDS_PROJECT_MAX)
		return 0;
	return err_set(e, EUSERS,
		       "%u builds are under way: try again when they are done",
		       all);
}

static void copy_text(const json_t *plan, const char *key, json_t *about,
		      const char *as)
{
	json_t *v = json_object_get(plan, key);

	if (json_is_string(v) && json_string_length(v) > 0)
		json_object_set(about, as, v);
}

int build_start(struct api *a, const struct identity *who,
		const char *request_id, struct build *b, json_t *plan,
		struct err *e)
{
	struct build_work *w;

	if (b->state != BUILD_WAITING)
		return err_set(e, EEXIST, "build %s was started before", b->id);
	if (check_plan(plan, e) < 0 || check_room(a, b, e) < 0)
		return -e->code;
	copy_text(plan, "startCmd", b->about, "start");
	copy_text(plan, "readyCmd", b->about, "ready");
	b->state = BUILD_BUILDING;
	if (build_save(a, b, e) < 0) {
		b->state = BUILD_WAITING;
		return -e->code;
	}
	w = xcalloc(1, sizeof(*w));
	w->api = a;
	w->build = b;
	w->who = w->asker = *who;
	/* What it makes is of the template's project. */
	memcpy(w->who.project, b->of->project, sizeof(w->who.project));
	snprintf(w->request, sizeof(w->request), "%s", request_id);
	w->plan = json_incref(plan);
	w->env = json_object();
	w->file_fd = -1;
	b->work = w;
	list_add(&a->templates.works, &w->node);
	timer_set(&a->loop, &w->late, BUILD_TIME_S * 1000ULL, on_late);
	snprintf(w->step, sizeof(w->step), "base");
	build_base(w);
	return 0;
}

/* --- its sandbox --- */

bool build_has_box(struct api *a, const char *id)
{
	struct list *n, *next;

	list_each (n, next, &a->templates.works)
		if (strcmp(container_of(n, struct build_work, node)->box, id) ==
		    0)
			return true;
	return false;
}

static void settle(struct api *a, struct build *b)
{
	const char *id = json_string_value(json_object_get(b->about, "box"));
	struct sandbox *s = id ? box_by_id(a, id) : NULL;
	struct err e = { 0 };

	if (!id || b->work)
		return;
	if (s) {
		log_info("sandbox=%s its build is over, removing it", s->id);
		box_reason(s, "its build was over");
		box_kill(s, NULL);
	}
	json_object_del(b->about, "box");
	if (build_save(a, b, &e) < 0)
		log_err("build=%s %s, ignoring", b->id, e.msg);
}

void builds_settle(struct api *a)
{
	struct list *n, *next, *m, *after;

	list_each (n, next, &a->templates.all) {
		struct template *t = container_of(n, struct template, node);

		list_each (m, after, &t->builds)
			settle(a, container_of(m, struct build, node));
	}
}
