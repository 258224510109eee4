/*
 * The order of a merge:
 *
 *	hold theirs -> the ancestor -> what theirs changed
 *	-> user processes stand still -> snapshot of ours -> the plan
 *	-> the builtin: list, tar -> they go on
 *
 * Every way out ends in finish(), which lets the processes go on first.
 */
#include "api/merge.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/json_text.h"
#include "api/lineage.h"
#include "base/auto.h"
#include "base/clock.h"

enum {
	LIMIT_MS = 120 * 1000, /* user processes stand still at most so long */
	WORDS_MAX = FILE_NOTES_MAX * 1024,
	NAME_PART = 8, /* of the id, in the name of a snapshot that is kept */
};

static void on_released(struct warden_call *c, const struct warden_rep *rep,
			int fds[FD_PASS_MAX]);

/* The last step: nothing is held any more. */
static void tell(struct merge *m)
{
	merge_scope_done(&m->scope);
	buf_done(&m->pending);
	buf_done(&m->words);
	buf_done(&m->why);
	list_del(&m->node);
	m->done(m, &m->result);
}

static void ask_user(struct merge *m, enum warden_op op, warden_fn *fn)
{
	warden_cancel(&m->hold);
	memset(&m->hold, 0, sizeof(m->hold));
	warden_req_id(&m->hold, op, m->box_id);
	m->hold.req.pause.flags = PAUSE_USER;
	warden_ask(&m->api->warden, &m->hold, fn);
}

/* Whatever becomes of it, once: no other callback comes behind this. */
static void finish(struct merge *m, const struct err *e)
{
	if (e)
		m->result = *e;
	view_job_stop(&m->view);
	process_close(&m->proc, false);
	timer_del(&m->api->loop, &m->limit);
	state_release(&m->theirs);
	state_release(&m->ours);
	state_release(&m->base);
	if (m->holding)
		ask_user(m, WARDEN_RESUME, on_released);
	else
		tell(m);
}

static void on_released(struct warden_call *c, const struct warden_rep *rep,
			int fds[FD_PASS_MAX])
{
	struct merge *m = container_of(c, struct merge, hold);

	(void)fds;
	/* Without the warden's connection it has let them go by itself. */
	if (rep->err.code && rep->err.code != ESRCH)
		log_warn("sandbox=%s after a merge: %s", m->box_id,
			 rep->err.msg);
	if (m->began_us)
		m->pause_us = clock_boot_us() - m->began_us;
	m->holding = false;
	tell(m);
}

static void fail(struct merge *m, int code, const char *msg)
{
	struct err e = { 0 };

	err_set(&e, code, "%s", msg);
	finish(m, &e);
}

/* --- after a failure that left half of it --- */

static int keep_row(struct snapshot *snap, struct err *e)
{
	struct registry *r = &snap->api->registry;
	int rc = registry_begin_durable(r, e);

	if (rc < 0)
		return rc;
	rc = registry_end(r, snapshot_save(snap, e), e);
	snap->has_row = rc == 0;
	return rc;
}

/* What ours was becomes a snapshot for users. */
static void keep_ours(struct merge *m, struct err *e)
{
	struct snapshot *snap = m->ours.held;
	const struct sandbox *s = box_by_id(m->api, m->box_id);
	struct err why = { 0 };

	/* One that ended, or starts anew, has nothing half. */
	if (!snap || !s || s->state != BOX_RUNNING)
		return;
	snprintf(snap->name, sizeof(snap->name), "before-merge-%.*s", NAME_PART,
		 snap->id);
	snap->kind = SNAPSHOT_OWN;
	if (keep_row(snap, &why) < 0) {
		log_err("sandbox=%s its state before a merge cannot be kept: "
			"%s",
			m->box_id, why.msg);
		snap->kind = SNAPSHOT_TEMP;
		snap->name[0] = '\0';
		return;
	}
	why = *e;
	err_clear(e);
	err_set(e, why.code, "%.150s; the snapshot '%s' has what was before",
		why.msg, snap->name);
}

/* --- the builtin --- */

/* Gives it what waits; true: it takes more. */
static bool feed(struct merge *m)
{
	size_t n = process_input(&m->proc, buf_data(&m->pending),
				 buf_len(&m->pending));

	buf_eat(&m->pending, n);
	return buf_len(&m->pending) == 0;
}

static void feed_end(struct merge *m)
{
	static const char end = MERGE_END;

	m->fed = true;
	timer_set(&m->api->loop, &m->limit, LIMIT_MS, m->limit.fn);
	buf_add(&m->pending, &end, 1);
	(void)feed(m);
}

static enum view_next on_tar(struct view_job *v, const struct view_record *r)
{
	struct merge *m = container_of(v, struct merge, view);
	size_t n;

	if (r->kind != VIEW_DATA) {
		fail(m, EIO, "the worker that packs files broke the protocol");
		return VIEW_OVER;
	}
	n = process_input(&m->proc, r->data.p, r->data.n);
	if (n == r->data.n)
		return VIEW_GO_ON;
	buf_add(&m->pending, (const char *)r->data.p + n, r->data.n - n);
	return VIEW_HOLD;
}

static void on_packed(struct view_job *v, const struct err *e)
{
	struct merge *m = container_of(v, struct merge, view);

	if (e->code)
		finish(m, e);
	else
		feed_end(m);
}

static const struct view_ops pack_ops = { on_tar, on_packed, NULL };

/* A look at the three sides, where something is to be seen. */
static struct view_question look_at(const struct merge *m, enum view_work work)
{
	/* Wider than what was asked for is too wide. */
	bool asked = m->scope.n == 0 || (m->scope.widened && m->paths.n > 0);
	struct view_question q = {
		.work = work,
		.side = { &m->base.side, &m->theirs.side, &m->ours.side },
		.inner = true,
	};

	q.paths = (const char *const *)(asked ? m->paths.v : m->scope.v);
	q.n_paths = asked ? m->paths.n : m->scope.n;
	return q;
}

/* What is to be put, by the same three sides that the plan was made of. */
static void pack(struct merge *m)
{
	struct view_question q = look_at(m, VIEW_PACK);
	struct err e = { 0 };

	q.flags = m->plan.prefer == PREFER_THEIRS ? VIEW_THEIRS : 0;
	if (view_job_start(&m->view, m->api, who_project(&m->who), &q,
			   &pack_ops, &e) < 0)
		finish(m, &e);
}

/* The list is taken, or a part of the tar was. */
static void go_on(struct merge *m)
{
	if (!feed(m) || m->fed)
		return;
	if (m->view.busy)
		view_job_resume(&m->view);
	else if (m->plan.put == 0)
		feed_end(m);
	else
		pack(m);
}

static void on_started(struct process *p)
{
	go_on(container_of(p, struct merge, proc));
}

static void on_output(struct process *p, unsigned stream, const void *data,
		      size_t n)
{
	struct merge *m = container_of(p, struct merge, proc);
	struct buf *b = stream == 1 ? &m->words : &m->why;
	size_t max = stream == 1 ? WORDS_MAX : FILE_ERROR_MAX;

	buf_add(b, data, buf_len(b) + n <= max ? n : max - buf_len(b));
	process_consumed(p, stream, n);
}

/* What was done, as the builtin tells it: notes, and the end. */
static int read_words(struct merge *m, struct err *e)
{
	struct file_record r;
	bool whole = false;
	int n;

	while ((n = file_record_get(&m->words, &r)) > 0 && !whole) {
		if (r.kind == FILE_NOTE)
			json_array_append_new(
				m->notes, json_lossy(r.note, strlen(r.note)));
		whole = r.kind == FILE_UNPACKED;
		buf_eat(&m->words, (size_t)n);
	}
	return whole ? 0
		     : err_set(e, EPROTO,
			       "the sandbox's agent broke the protocol");
}

static void on_ended(struct process *p, const struct exit_info *x,
		     const struct err *why)
{
	struct merge *m = container_of(p, struct merge, proc);
	bool half = m->fed; /* until we know better */
	struct err e = { 0 };

	if (why) {
		e = *why;
	} else if (x->signaled) {
		err_set(&e, EIO, "the merge was ended by signal %u%s", x->code,
			x->code == SIGKILL ? " (out of memory?)" : "");
	} else if (x->code != 0) {
		file_error_get(buf_data(&m->why), buf_len(&m->why), &e);
		half = str_starts(e.msg, MERGE_HALF);
	} else if (read_words(m, &e) == 0) {
		finish(m, NULL);
		return;
	}
	if (half)
		keep_ours(m, &e);
	finish(m, &e);
}

static const struct process_ops proc_ops = {
	.started = on_started,
	.output = on_output,
	.room = on_started,
	.ended = on_ended,
};

static void apply(struct merge *m)
{
	const char *argv[] = { "host.merge", "/", NULL };
	const struct spawn sp = {
		.flags = SPAWN_BUILTIN | SPAWN_STDIN,
		.user = "",
		.cwd = "/",
		.tag = "",
		.argc = 2,
		.argv = argv,
		.env = (const char *[]){ NULL },
	};
	struct sandbox *s = box_by_id(m->api, m->box_id);
	struct err e = { 0 };

	m->pending = m->plan.list;
	m->plan.list = (struct buf){ 0 };
	buf_add(&m->pending, "", 1);
	m->proc.ops = &proc_ops;
	if (!s || s->state != BOX_RUNNING)
		fail(m, ESRCH, "the sandbox has ended");
	else if (process_spawn(&m->proc, s, &sp, &e) < 0)
		finish(m, &e);
}

/* --- the plan --- */

static enum view_next on_step(struct view_job *v, const struct view_record *r)
{
	struct merge *m = container_of(v, struct merge, view);
	struct err e = { 0 };

	if (r->kind != VIEW_STEP) {
		fail(m, EIO,
		     "the worker that compares disks broke the protocol");
		return VIEW_OVER;
	}
	if (merge_plan_add(&m->plan, r, &e) == 0)
		return VIEW_GO_ON;
	finish(m, &e);
	return VIEW_OVER;
}

bool merge_refused(const struct merge *m)
{
	return m->plan.conflicts > 0 && m->plan.prefer == PREFER_NONE;
}

static void on_planned(struct view_job *v, const struct err *e)
{
	struct merge *m = container_of(v, struct merge, view);

	if (e->code)
		finish(m, e);
	else if (m->dry_run || merge_refused(m) || m->plan.n_paths == 0)
		finish(m, NULL);
	else
		apply(m);
}

static const struct view_ops plan_ops = { on_step, on_planned, NULL };

static void on_ours(struct state_ref *r, const struct err *e)
{
	struct merge *m = container_of(r, struct merge, ours);
	const struct view_question q = look_at(m, VIEW_MERGE);
	struct err why = *e;

	if (why.code || view_job_start(&m->view, m->api, who_project(&m->who),
				       &q, &plan_ops, &why) < 0)
		finish(m, &why);
}

static void look_at_ours(struct merge *m)
{
	char ref[ID_CAP + 16];

	snprintf(ref, sizeof(ref), "sandbox:%s", m->box_id);
	state_hold(&m->ours, m->api, &m->who, ref, on_ours);
}

/* --- standing still --- */

static void too_long(struct timer *t)
{
	struct merge *m = container_of(t, struct merge, limit);
	struct err e = { 0 };

	err_set(&e, ETIMEDOUT,
		"it took more than %d s%s: merge some paths at a time",
		LIMIT_MS / 1000, m->fed ? "" : ", nothing was changed");
	if (m->fed)
		keep_ours(m, &e);
	finish(m, &e);
}

static void on_held(struct warden_call *c, const struct warden_rep *rep,
		    int fds[FD_PASS_MAX])
{
	struct merge *m = container_of(c, struct merge, hold);

	(void)fds;
	if (rep->err.code) {
		m->holding = false;
		finish(m, &rep->err);
		return;
	}
	m->began_us = clock_boot_us();
	timer_set(&m->api->loop, &m->limit, LIMIT_MS, too_long);
	look_at_ours(m);
}

/* --- what theirs changed --- */

static enum view_next on_changed(struct view_job *v,
				 const struct view_record *r)
{
	struct merge *m = container_of(v, struct merge, view);

	if (r->kind != VIEW_STEP) {
		fail(m, EIO,
		     "the worker that compares disks broke the protocol");
		return VIEW_OVER;
	}
	if (m->n_changed++ == MERGE_PATHS_MAX) {
		fail(m, E2BIG, MERGE_TOO_MUCH);
		return VIEW_OVER;
	}
	if (!state_path_is_own(r->step.theirs.path))
		merge_scope_add(&m->scope, r->step.theirs.path);
	return VIEW_GO_ON;
}

static void on_surveyed(struct view_job *v, const struct err *e)
{
	struct merge *m = container_of(v, struct merge, view);

	if (e->code || m->scope.n == 0) {
		finish(m, e);
	} else if (m->dry_run) {
		look_at_ours(m);
	} else {
		m->holding = true;
		ask_user(m, WARDEN_PAUSE, on_held);
	}
}

static const struct view_ops survey_ops = { on_changed, on_surveyed, NULL };

/* As a merge into the ancestor itself. */
static int survey(struct merge *m, struct err *e)
{
	struct view_question q = look_at(m, VIEW_MERGE);

	q.side[2] = &m->base.side;
	q.inner = false;
	return view_job_start(&m->view, m->api, who_project(&m->who), &q,
			      &survey_ops, e);
}

static void on_theirs(struct state_ref *r, const struct err *e)
{
	struct merge *m = container_of(r, struct merge, theirs);
	const struct sandbox *s = box_by_id(m->api, m->box_id);
	struct err why = *e;

	if (why.code == 0 && !s)
		err_set(&why, ESRCH, "the sandbox has ended");
	if (why.code ||
	    state_hold_ancestor(&m->base, &m->theirs, s, &why) < 0 ||
	    survey(m, &why) < 0)
		finish(m, &why);
}

static bool under_way(struct api *a, const char *box_id)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, &a->merges)
		if (strcmp(container_of(pos, struct merge, node)->box_id,
			   box_id) == 0)
			return true;
	return false;
}

int merge_start(struct merge *m, struct err *e)
{
	if (!m->dry_run && under_way(m->api, m->box_id))
		return err_set(e, EBUSY,
			       "something is being merged into this sandbox "
			       "already");
	m->notes = json_array();
	list_add(&m->api->merges, &m->node);
	state_hold(&m->theirs, m->api, &m->who, m->from, on_theirs);
	return 0;
}

void merge_give_up(struct merge *m)
{
	if (!m->fed && !(m->hold.busy && m->hold.req.op == WARDEN_RESUME))
		fail(m, ECANCELED, "the client left");
}
