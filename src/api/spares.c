/*
 * Spares: sandboxes of the default spec and image, in each tier, that are
 * launched before anybody asks. A create that wants just that takes one, and
 * has only the row of the registry to wait for.
 *
 * They are refilled one at a time and only while nobody waits: a launch of a
 * spare would be in the way of a launch that a user waits for.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/process.h"
#include "base/clock.h"

enum {
	QUIET_MS = 20, /* since the last create */
	/* The launch of a machine is work for more than one processor, and who
	 * has just got one runs the first command in it. */
	QUIET_VM_MS = 1000,
	FAILED_MS = 1000, /* pause after a failure, doubled each time */
	FAILED_MAX_MS = 60000,
};

/* --- machines --- */

struct rehearsal {
	struct process process;
	struct api *api;
	struct deferred gone;
};

static void rehearsal_free(struct deferred *d)
{
	free(container_of(d, struct rehearsal, gone));
}

static void rehearsal_over(struct rehearsal *t)
{
	loop_defer(&t->api->loop, &t->gone, rehearsal_free);
}

static void on_started(struct process *p)
{
	process_close(p, false);
	rehearsal_over(container_of(p, struct rehearsal, process));
}

static void on_output(struct process *p, unsigned stream, const void *data,
		      size_t n)
{
	(void)data;
	process_consumed(p, stream, n);
}

static void on_ended(struct process *p, const struct exit_info *x,
		     const struct err *e)
{
	(void)x;
	(void)e;
	rehearsal_over(container_of(p, struct rehearsal, process));
}

/*
 * An emulated machine translates its code when it is first run, which is most
 * of what a first command takes. This one takes the same way until it is found
 * that a directory is no program: then it is known, and nothing was started.
 */
static void rehearse(struct sandbox *s)
{
	static const struct process_ops ops = {
		.started = on_started,
		.output = on_output,
		.ended = on_ended,
	};
	const char *argv[] = { "/", NULL }, *env[] = { NULL };
	const struct spawn sp = { .user = "",
				  .cwd = "",
				  .tag = "",
				  .argc = 1,
				  .argv = argv,
				  .env = env };
	struct rehearsal *t = xcalloc(1, sizeof(*t));
	struct err e = { 0 };

	t->process.ops = &ops;
	t->api = s->api;
	if (process_spawn(&t->process, s, &sp, &e) < 0)
		free(t);
}

void spare_ready(struct sandbox *s)
{
	if (spec_is_vm(&s->spec))
		rehearse(s);
	spare_settled(s->api, true);
}

/* --- all of them --- */

static bool same_launch(const struct spec *a, const struct spec *b)
{
	return a->cpus_milli == b->cpus_milli && a->mem_bytes == b->mem_bytes &&
	       a->disk_bytes == b->disk_bytes && a->pids == b->pids &&
	       a->nofile == b->nofile && a->sudo == b->sudo &&
	       a->persist == b->persist && strcmp(a->tier, b->tier) == 0 &&
	       strcmp(a->allow_missing, b->allow_missing) == 0 &&
	       *a->name == '\0' && *b->name == '\0' &&
	       json_array_size(b->volumes) == 0;
}

struct sandbox *spare_take(struct api *a, const struct spec *spec,
			   const char *image_id)
{
	struct sandbox *found = NULL;
	struct list *n, *next;

	list_each (n, next, &a->boxes.spares) {
		struct sandbox *s = container_of(n, struct sandbox, in_spares);

		if (strcmp(s->image_id, image_id) != 0 ||
		    !same_launch(&s->spec, spec))
			continue;
		if (s->state == BOX_RUNNING && endpoint_is_open(&s->agent.ep))
			return s;
		/* Half-way there beats starting from nothing. */
		if (s->state == BOX_LAUNCHING && !s->ended)
			found = s;
	}
	return found;
}

void spares_drop(struct api *a, const char *image_id)
{
	struct list *n, *next;

	list_each (n, next, &a->boxes.spares) {
		struct sandbox *s = container_of(n, struct sandbox, in_spares);

		if (!image_id || strcmp(s->image_id, image_id) == 0)
			box_kill(s, NULL);
	}
}

/* Are there fewer of a tier than wanted? */
static bool missing(const struct api *a, bool vm)
{
	uint64_t want = vm ? a->conf.microvm_spares : a->conf.spares;
	const struct list *n;

	for (n = a->boxes.spares.next; n != &a->boxes.spares; n = n->next) {
		const struct sandbox *s =
			container_of(n, struct sandbox, in_spares);

		if (want > 0 && spec_is_vm(&s->spec) == vm)
			want--;
	}
	return want > 0;
}

static bool any_missing(const struct api *a)
{
	return missing(a, false) || missing(a, true);
}

static void launch_spare(struct api *a)
{
	const struct image *img = image_find(a, a->conf.image);
	struct spec spec;
	struct err e = { 0 };

	if (!img)
		return;
	spec_defaults(&spec, &a->conf);
	snprintf(spec.tier, sizeof(spec.tier), "%s",
		 missing(a, false) ? "container" : "microvm");
	if (!box_launch(a, DEFAULT_PROJECT, &spec, img->id, BOX_SPARE, &e))
		log_warn("no spare: %s", e.msg);
}

static void on_refill(struct timer *t)
{
	struct api *a = container_of(t, struct api, boxes.refill);
	struct boxes *b = &a->boxes;
	uint64_t now = clock_boot_ms(), quiet;

	if (!warden_is_up(&a->warden) || b->closing || b->no_spares ||
	    !any_missing(a))
		return;
	/* Users come first: one place more than they have stays free. */
	if (b->n_users + b->n_spares + 1 >= a->conf.max_sandboxes)
		return;
	quiet = b->last_create_ms +
		(missing(a, false) ? QUIET_MS : QUIET_VM_MS);
	/* Soon again: one of the other tier may be missing by then. */
	if (b->n_launching > 0 || now < quiet) {
		timer_set(&a->loop, t, QUIET_MS, on_refill);
		return;
	}
	launch_spare(a);
}

static void drop_surplus(struct api *a)
{
	struct boxes *b = &a->boxes;

	if (b->n_spares > 0 &&
	    b->n_users + b->n_spares >= a->conf.max_sandboxes)
		spares_drop(a, NULL);
}

void spares_poke(struct api *a)
{
	struct boxes *b = &a->boxes;

	drop_surplus(a);
	if (any_missing(a) && b->refill.slot == 0)
		timer_set(&a->loop, &b->refill,
			  b->refill_pause_ms ? b->refill_pause_ms : QUIET_MS,
			  on_refill);
}

void spare_settled(struct api *a, bool ok)
{
	struct boxes *b = &a->boxes;

	if (ok)
		b->refill_pause_ms = 0;
	else if (b->refill_pause_ms == 0)
		b->refill_pause_ms = FAILED_MS;
	else if (b->refill_pause_ms < FAILED_MAX_MS)
		b->refill_pause_ms *= 2;
	spares_poke(a);
}
