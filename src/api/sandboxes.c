/*
 * The life of a sandbox, as asked of the warden:
 *
 *	LAUNCHING --answer--> RUNNING --kill, deadline--> ENDING --answer--> -
 *	    \--failure--> -        \--WARDEN_ENDED--> -
 *
 * What may happen in between is in pause.c and restart.c.
 * box_gone() is the only way out for a sandbox that ran, drop() for one that
 * never did. Memory goes at the end of the turn.
 */
#include "api/sandboxes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/access.h"
#include "api/api.h"
#include "api/audit.h"
#include "api/image_config.h"
#include "api/proc_log.h"
#include "api/relay.h"
#include "api/tiers.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"

enum {
	KILL_RETRY_MS = 500,
	CLOCK_STEP_MS = 60 * 1000, /* tolerated step back of the clock */
};

static void box_drop_spec(struct sandbox *s)
{
	spec_done(&s->spec);
	free(s->shown_spec);
	s->shown_spec = NULL;
}

static void box_free(struct deferred *d)
{
	struct sandbox *s = container_of(d, struct sandbox, gone);

	box_drop_spec(s);
	agent_done(&s->agent);
	s->account->n_boxes--;
	account_release(s->account);
	free(s->samples);
	free(s);
}

/* Spares are nobody's: their ends are no event. */
static void log_end(struct sandbox *s, const char *reason)
{
	if (!s->spare)
		ended_log(s->api, (struct audit){ .box = s }, reason);
}

void box_count(struct sandbox *s, bool on)
{
	struct boxes *b = &s->api->boxes;

	if (s->counted == on)
		return;
	s->counted = on;
	b->n_users += on ? 1 : -1u;
}

/* Never the same twice: lists are in this order, also behind one that ended. A
 * clock that was ahead, and is right again, is not followed for ever. */
static uint64_t created_now(struct api *a)
{
	uint64_t now = clock_wall_ms(), last = a->boxes.last_created_ms;

	if (now <= last && last - now < CLOCK_STEP_MS)
		now = last + 1;
	a->boxes.last_created_ms = now;
	return now;
}

/* Out of every table; the memory stays until the end of the turn. */
static void drop(struct sandbox *s)
{
	struct api *a = s->api;

	timer_del(&a->loop, &s->deadline);
	warden_cancel(&s->call);
	drive_door_close(s);
	gate_box_down(s, true);
	grants_forget(s);
	access_forget(s);
	volumes_detached(s);
	list_del(&s->all);
	list_del(&s->by_id);
	list_del(&s->by_name);
	list_del(&s->in_spares);
	own_secrets_unused(a, s->project, s->spec.secrets);
	if (s->spare)
		a->boxes.n_spares--;
	box_count(s, false);
	if (s->state == BOX_LAUNCHING)
		a->boxes.n_launching--;
	s->state = BOX_ENDING;
	restart_abort(s);
	snapshots_orphan(s);
	box_set_disk(s, "");
	box_set_base(s, "");
	loop_defer(&a->loop, &s->gone, box_free);
	images_unused(a, s->image_id);
}

/* What its spec wants done first is done, or (`e`) cannot be. */
static void on_set_up(struct sandbox *s, const struct err *e)
{
	box_ready_fn *ready = s->ready;

	s->ready = NULL;
	if (e) {
		box_reason(s, "%s", e->msg);
		box_kill(s, NULL);
	} else {
		lifetime_ready(s);
	}
	if (ready)
		ready(s->ready_arg, e ? NULL : s, e);
}

/* The rest of a launch: agent, meter, whoever waits. */
static void launched(struct sandbox *s)
{
	struct api *a = s->api;
	box_ready_fn *ready = s->ready;
	struct err e = { 0 };
	int r;

	a->boxes.n_launching--;
	s->state = BOX_RUNNING;
	if (agent_connect(s, &e) < 0) {
		log_err("sandbox=%s %s", s->id, e.msg);
		a->metrics.create_failures += !s->spare;
		s->ready = NULL;
		if (s->spare)
			spare_settled(a, false);
		box_kill(s, NULL);
		if (ready)
			ready(s->ready_arg, NULL, &e);
		return;
	}
	if (s->spare) {
		spare_ready(s);
		return;
	}
	a->metrics.creates++;
	metrics_latency(&a->metrics, clock_boot_us() - s->asked_us);
	spares_poke(a);
	meter_start(s);
	r = box_set_up(s, on_set_up, &e);
	if (r != 0)
		on_set_up(s, r < 0 ? &e : NULL);
}

/*
 * What went wrong deep in a launch (a file that is not there, say) must not be
 * taken for a word about the request: only these are.
 */
int launch_code(int code)
{
	switch (code) {
	case ENOSPC:
	case ENOTSUP:
	case EAGAIN:
	case ENOMEM:
	case EMFILE:
	case ENFILE:
	case WARDEN_AWAY:
		return code;
	case ENOTDIR: /* where a volume was to be */
		return EINVAL;
	default:
		return EIO;
	}
}

static void launch_failed(struct sandbox *s, const struct err *why)
{
	box_ready_fn *ready = s->ready;
	struct api *a = s->api;
	struct err e = *why;

	e.code = launch_code(e.code);
	log_warn("sandbox=%s launch failed: %s", s->id, e.msg);
	log_end(s, "was not launched");
	if (s->spare)
		spare_settled(a, false);
	else
		a->metrics.create_failures++;
	drop(s);
	spares_poke(a);
	if (ready)
		ready(s->ready_arg, NULL, &e);
}

static void tell_waiters(struct sandbox *s, const struct err *e)
{
	while (!list_empty(&s->waiters)) {
		struct box_waiter *w =
			container_of(s->waiters.next, struct box_waiter, node);

		list_del(&w->node);
		w->fn(w, e);
	}
}

static void on_launch(struct warden_call *c, const struct warden_rep *rep,
		      int fds[FD_PASS_MAX])
{
	struct sandbox *s = container_of(c, struct sandbox, call);
	struct err e = { 0 };

	(void)fds;
	if (s->state == BOX_ENDING) { /* somebody changed their mind */
		if (rep->err.code)
			box_gone(s, "was not launched", NULL);
		else
			box_ask_kill(s);
	} else if (rep->err.code) {
		launch_failed(s, &rep->err);
	} else if (s->ended) {
		err_set(&e, EIO, "the sandbox ended while it was starting");
		launch_failed(s, &e);
	} else {
		s->kvm = rep->launch.flags & LAUNCH_KVM;
		launched(s);
	}
}

void box_fill_launch(struct sandbox *s, const char *from)
{
	struct launch_spec *l = &s->call.req.launch;

	warden_req_id(&s->call, WARDEN_LAUNCH, "");
	memcpy(l->id, s->id, ID_LEN);
	memcpy(l->image, s->image_id, ID_LEN);
	memcpy(l->from, from, strnlen(from, ID_LEN));
	if (*s->spec.name)
		snprintf(l->hostname, sizeof(l->hostname), "%s", s->spec.name);
	else
		snprintf(l->hostname, sizeof(l->hostname), "%.12s", s->id);
	l->flags = s->spec.sudo ? LAUNCH_SUDO : 0;
	/* Nobody is told that a run's sandbox exists, only what it says. */
	if (s->transient)
		l->flags |= LAUNCH_EARLY;
	if (s->spec.persist)
		l->flags |= LAUNCH_PERSIST;
	if (spec_is_vm(&s->spec))
		l->flags |= LAUNCH_MICROVM;
	if (strcmp(s->spec.allow_missing, "disk") == 0)
		l->flags |= LAUNCH_ALLOW_MISSING_DISK;
	l->pids = (uint32_t)s->spec.pids;
	l->nofile = (uint32_t)s->spec.nofile;
	l->cpus_milli = s->spec.cpus_milli;
	l->mem_bytes = s->spec.mem_bytes;
	l->disk_bytes = s->spec.disk_bytes;
	volumes_fill(s, l);
}

/* All but the request to the warden. */
static struct sandbox *enter(struct api *a, const char *project,
			     struct spec *spec, const char *image_id,
			     enum box_use use, struct err *e)
{
	char id[ID_CAP];
	struct sandbox *s;
	int r = id_make(id);

	if (r < 0) {
		err_set(e, -r, "no random numbers");
		return NULL;
	}
	s = box_new(a, id, project, spec, image_id);
	s->state = BOX_LAUNCHING;
	s->created_ms = created_now(a);
	s->asked_us = clock_boot_us();
	s->spare = use == BOX_SPARE;
	s->transient = use == BOX_RUN;
	a->boxes.n_launching++;
	if (s->spare) {
		a->boxes.n_spares++;
		list_add(&a->boxes.spares, &s->in_spares);
	} else {
		box_count(s, true);
	}
	return s;
}

static void ask_launch(struct sandbox *s)
{
	box_fill_launch(s, s->base);
	warden_ask(&s->api->warden, &s->call, on_launch);
}

struct sandbox *box_launch(struct api *a, const char *project,
			   struct spec *spec, const char *image_id,
			   enum box_use use, struct err *e)
{
	struct sandbox *s = enter(a, project, spec, image_id, use, e);

	if (s)
		ask_launch(s);
	return s;
}

int box_may_create(struct api *a, const char *project, const struct spec *spec,
		   unsigned n, struct err *e)
{
	if (a->boxes.closing)
		return err_set(e, EAGAIN,
			       "all sandboxes are being removed: try again");
	if (*spec->name && box_by_name(a, project, spec->name))
		return err_set(e, EEXIST, "the name '%s' is taken", spec->name);
	if (project_disk_check(a, project, e) < 0 ||
	    volumes_allow(a, project, spec, NULL, e) < 0 ||
	    policies_allow(a, project, spec, e) < 0 ||
	    tiers_allow(a, project, spec, e) < 0 ||
	    secrets_allow(a, project, spec, e) < 0)
		return -e->code;
	return admit(a, project, n, e);
}

static int use_spare(struct sandbox *s, const char *project, struct spec *spec,
		     uint64_t asked_us)
{
	struct api *a = s->api;

	s->spare = false;
	list_del(&s->in_spares);
	a->boxes.n_spares--;
	box_drop_spec(s);
	spec_move(&s->spec, spec);
	box_count(s, true);
	/* Lists are in the order of creation. */
	list_del(&s->all);
	list_add(&a->boxes.all, &s->all);
	snprintf(s->project, sizeof(s->project), "%s", project);
	s->created_ms = created_now(a);
	s->asked_us = asked_us;
	box_touch(s);
	a->metrics.spares_used++;
	if (s->state == BOX_LAUNCHING) {
		spare_settled(a, true);
		return 0;
	}
	a->metrics.creates++;
	metrics_latency(&a->metrics, clock_boot_us() - asked_us);
	return 1;
}

int box_create(struct api *a, const char *project, struct spec *spec,
	       bool transient, struct sandbox **out, struct err *e)
{
	uint64_t asked_us = clock_boot_us();
	const struct image *img = image_find(a, spec->image);
	struct sandbox *s;
	int r;

	if (!img)
		return err_set(e, ENOENT,
			       "no image '%.64s': see 'image ls', or make one "
			       "with 'image build'",
			       spec->image);
	if (stray_find(a, STRAY_MISSING, img->id))
		return err_set(
			e, ENOENT,
			"image '%s' is missing in the pool: put the pool "
			"back, or make the image again",
			img->name);
	r = image_config_apply(img, spec, e);
	if (r == 0)
		r = box_may_create(a, project, spec, 1, e);
	if (r < 0)
		return r;
	a->boxes.last_create_ms = asked_us / 1000;
	a->boxes.no_spares = false;
	s = spare_take(a, spec, img->id);
	if (s) {
		r = use_spare(s, project, spec, asked_us);
	} else {
		s = box_launch(a, project, spec, img->id,
			       transient ? BOX_RUN : BOX_MADE, e);
		if (!s)
			return -e->code;
		s->asked_us = asked_us;
		r = 0;
	}
	s->transient = transient;
	lifetime_start(s);
	spares_poke(a);
	if (r == 1) {
		meter_start(s);
		r = box_set_up(s, on_set_up, e);
	}
	if (r < 0)
		box_kill(s, NULL);
	else
		*out = s;
	return r;
}

int box_create_from(struct snapshot *from, struct spec *spec,
		    const char *parent, struct sandbox **out, struct err *e)
{
	struct api *a = from->api;
	struct sandbox *s;
	int r;

	snprintf(spec->image, sizeof(spec->image), "%s", from->image);
	r = box_may_create(a, from->project, spec, 1, e);
	if (r < 0)
		return r;
	a->boxes.last_create_ms = clock_boot_ms();
	s = enter(a, from->project, spec, from->image_id, BOX_MADE, e);
	if (!s)
		return -e->code;
	box_set_base(s, from->id);
	ask_launch(s);
	snprintf(s->parent, sizeof(s->parent), "%s", parent);
	lifetime_start(s);
	*out = s;
	return 0;
}

void box_on_ready(struct sandbox *s, box_ready_fn *ready, void *arg)
{
	s->ready = ready;
	s->ready_arg = arg;
}

static struct sandbox_row row_of(const struct sandbox *s, const char *spec)
{
	return (struct sandbox_row){
		.id = s->id,
		.project = s->project,
		.name = s->spec.name,
		.image_id = s->image_id,
		.image = s->spec.image,
		.spec = spec,
		.created_ms = s->created_ms,
		.boot_id = s->api->boot_id,
		.deadline_boot_ms = s->deadline_boot_ms,
		.deadline_wall_ms = s->deadline_wall_ms,
		.state = *s->disk                 ? "suspended"
			 : s->state == BOX_PAUSED ? "paused"
						  : "running",
		.disk = s->disk,
		.base = s->base,
		.parent = s->parent,
		.account = s->account->id,
	};
}

char *box_spec_text(const struct sandbox *s)
{
	json_t *j = spec_to_json(&s->spec);
	char *text = json_dumps(j, JSON_COMPACT);

	json_decref(j);
	return text ? text : xstrdup("{}");
}

const char *box_spec_shown(struct sandbox *s)
{
	if (!s->shown_spec)
		s->shown_spec = box_spec_text(s);
	return s->shown_spec;
}

int box_tell(struct sandbox *s, const char *spec, struct err *e)
{
	struct sandbox_row row = row_of(s, spec);
	struct registry *reg = &s->api->registry;
	/* What is to survive the host is on disk before anybody hears of it. */
	bool durable = s->spec.persist && reg->depth == 0;
	int r = durable ? registry_begin_durable(reg, e) : 0;

	if (r < 0)
		return r;
	r = registry_sandbox_add(reg, &row, e);
	if (durable)
		r = registry_end(reg, r, e);
	s->told |= r == 0;
	api_registry_touched(s->api);
	pool_id_touch(s->api);
	return r;
}

int box_save(struct sandbox *s, struct err *e)
{
	struct sandbox_row row = row_of(s, box_spec_shown(s));
	int r = registry_sandbox_update(&s->api->registry, &row, e);

	api_registry_touched(s->api);
	pool_id_touch(s->api);
	return r;
}

void box_set_tier(struct sandbox *s, const char *tier)
{
	snprintf(s->spec.tier, sizeof(s->spec.tier), "%s", tier);
	free(s->shown_spec);
	s->shown_spec = NULL;
}

void box_respec(struct sandbox *s, struct spec *spec)
{
	box_drop_spec(s);
	spec_move(&s->spec, spec);
}

static void kill_again(struct timer *t)
{
	box_ask_kill(container_of(t, struct sandbox, deadline));
}

static void on_kill(struct warden_call *c, const struct warden_rep *rep,
		    int fds[FD_PASS_MAX])
{
	struct sandbox *s = container_of(c, struct sandbox, call);

	(void)fds;
	if (rep->err.code == 0 || rep->err.code == ESRCH) {
		box_gone(s, NULL, rep->err.code ? NULL : &rep->last.use);
		return;
	}
	/* Whoever waits is told now; we go on until it is gone. */
	log_err("sandbox=%s kill failed: %s, trying again", s->id,
		rep->err.msg);
	tell_waiters(s, &rep->err);
	timer_set(&s->api->loop, &s->deadline, KILL_RETRY_MS, kill_again);
}

void box_ask_kill(struct sandbox *s)
{
	warden_req_id(&s->call, WARDEN_KILL, s->id);
	warden_ask(&s->api->warden, &s->call, on_kill);
}

void box_kill(struct sandbox *s, struct box_waiter *w)
{
	bool wait;

	if (w)
		list_add(&s->waiters, &w->node);
	s->ready = NULL;
	if (s->state == BOX_ENDING)
		return;
	timer_del(&s->api->loop, &s->deadline);
	if (s->state == BOX_LAUNCHING) {
		s->api->boxes.n_launching--;
		s->state = BOX_ENDING; /* on_launch() goes on from here */
		return;
	}
	/* restart.c goes on from where it is, once it is answered. */
	wait = s->state == BOX_RESTARTING && s->call.busy;
	s->state = BOX_ENDING;
	if (!wait)
		box_ask_kill(s);
}

void box_abort(struct sandbox *s, int code, const char *why)
{
	box_ready_fn *ready = s->ready;
	struct err e = { 0 };

	box_kill(s, NULL);
	err_set(&e, code, "%s", why);
	if (ready)
		ready(s->ready_arg, NULL, &e);
}

/* It had a row; now there is a word about its end. False: the registry could
 * not be written, and the end is kept and logged later. */
static bool keep_end(struct sandbox *s)
{
	struct api *a = s->api;
	const struct ended_row row = {
		.id = s->id,
		.name = s->spec.name,
		.project = s->project,
		.image = s->spec.image,
		.reason = s->reason,
		.created_ms = s->created_ms,
		.ended_ms = clock_wall_ms(),
		.record = audit_record(a),
	};
	struct err e = { 0 };
	int r = registry_begin(&a->registry, &e);
	bool begun = r == 0;

	if (begun)
		r = registry_sandbox_remove(&a->registry, s->id, &e);
	ended_add(a, &row);
	if (begun)
		r = registry_end(&a->registry, r, &e);
	if (r < 0) {
		log_err("sandbox=%s %s, trying again", s->id, e.msg);
		ended_retry(a, s->id);
	}
	api_registry_touched(a);
	return r == 0;
}

void box_gone(struct sandbox *s, const char *why,
	      const struct sandbox_use *last)
{
	struct api *a = s->api;
	struct err ok = { 0 }, e = { 0 };
	box_ready_fn *ready = s->ready;
	char said[REASON_CAP + 32];

	if (why)
		log_info("sandbox=%s %s", s->id, why);
	box_reason(s, "%s", why ? why : "removed");
	volumes_detached(s); /* after its end nobody would tell any more */
	if (!s->told || keep_end(s))
		log_end(s, s->reason);
	s->ready = NULL;
	drop(s);
	if (s->drop_own)
		snapshots_of_removed(a, s->id, s->drop_snapshots);
	meter_end(s, last);
	snprintf(said, sizeof(said), "the sandbox has ended: %s", s->reason);
	agent_lost(&s->agent, ENOTCONN, said);
	relays_finish(s);
	pause_end(s);
	tell_waiters(s, &ok);
	err_set(&e, EIO, "the sandbox ended while it was starting");
	if (ready)
		ready(s->ready_arg, NULL, &e);
	spares_poke(a);
}

/* Boot time does not go on over a restart of the host; wall time does. */
static void move_deadline(struct sandbox *s)
{
	uint64_t wall = clock_wall_ms(), at = s->deadline_wall_ms;

	if (at > 0)
		s->deadline_boot_ms =
			clock_boot_ms() + (at > wall ? at - wall : 0);
}

/* What may be left of it: a disk, or (unless the host was restarted) all. */
static void load_state(struct sandbox *s, const struct sandbox_row *row)
{
	struct api *a = s->api;
	bool rebooted = strcmp(row->boot_id, a->boot_id) != 0;
	bool suspended = strcmp(row->state, "suspended") == 0;

	if (suspended && !snapshot_by_id(a, row->disk)) {
		box_gone(s, "its disk is not there any more", NULL);
		return;
	}
	if (rebooted && !suspended && !s->spec.persist) {
		box_gone(s, "the host was restarted", NULL);
		return;
	}
	if (rebooted)
		move_deadline(s);
	s->state = suspended ? BOX_SUSPENDED : BOX_FOUND;
	s->has_volumes = !suspended;
	box_count(s, !suspended);
	lifetime_resume(s);
	meter_resume(s);
	if (spec_has_door(&s->spec))
		egress_resume(s);
	if (!suspended)
		return;
	box_set_disk(s, row->disk);
	meter_stop(s, NULL);
}

static int load_row(void *arg, const struct sandbox_row *row)
{
	struct api *a = arg;
	AUTO(spec_done) struct spec spec = { 0 };
	struct err e = { 0 };
	struct sandbox *s;
	json_t *j = json_loads(row->spec, JSON_REJECT_DUPLICATES, NULL);
	int r;

	spec_kept(&spec, &a->conf);
	r = j ? spec_from_json(&spec, j, &e) : -EINVAL;
	json_decref(j);
	if (r < 0 || !id_valid(row->id) || !id_valid(row->image_id) ||
	    !name_valid(row->project)) {
		log_err("sandbox=%.64s bad row in the registry, ignoring",
			row->id);
		a->pool_id.bad_rows = true;
		return 0;
	}
	s = box_new(a, row->id, row->project, &spec, row->image_id);
	s->state = BOX_FOUND;
	s->told = true;
	s->created_ms = row->created_ms;
	if (a->boxes.last_created_ms < s->created_ms)
		a->boxes.last_created_ms = s->created_ms;
	s->deadline_boot_ms = row->deadline_boot_ms;
	s->deadline_wall_ms = row->deadline_wall_ms;
	snprintf(s->parent, sizeof(s->parent), "%s", row->parent);
	if (id_valid(row->account))
		box_set_account(s, row->account);
	if (snapshot_by_id(a, row->base))
		box_set_base(s, row->base);
	load_state(s, row);
	return 0;
}

int boxes_load(struct api *a, struct err *e)
{
	return registry_sandbox_each(&a->registry, load_row, a, e);
}

struct sandbox *box_take_over(struct api *a, const struct box_found *found,
			      struct spec *spec, struct err *e)
{
	struct sandbox *s =
		box_new(a, found->id, found->project, spec, found->image_id);
	const char *disk = found->disk;

	s->state = *disk ? BOX_SUSPENDED : BOX_FOUND;
	s->created_ms = created_now(a);
	s->seen = a->reconcile.round;
	box_set_disk(s, disk);
	box_count(s, !*disk);
	if (box_tell(s, box_spec_shown(s), e) < 0) {
		drop(s);
		return NULL;
	}
	meter_start(s);
	if (*disk)
		meter_stop(s, NULL);
	return s;
}

void box_adopt(struct sandbox *s, bool paused)
{
	struct err e = { 0 };

	s->state = paused ? BOX_PAUSED : BOX_RUNNING;
	s->pause.unheard = paused;
	/* We may have died before we wrote down that its time stands, or runs
	 * again. */
	if (paused)
		lifetime_asleep(s);
	else
		lifetime_awake(s);
	gate_box_found(s);
	if (paused)
		return;
	if (agent_connect(s, &e) < 0)
		log_warn("sandbox=%s %s, trying again when it is used", s->id,
			 e.msg);
	else
		proc_log_resume(s);
	drive_door_open(s);
}
