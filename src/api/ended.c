#include "api/ended.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/clock.h"

enum { RETRY_MS = 1000 };

void ends_init(struct api *a)
{
	list_init(&a->ends.all);
}

static void forget(struct api *a, struct ended *x)
{
	struct err e = { 0 };

	if (registry_ended_remove(&a->registry, x->id, &e) < 0)
		log_err("%s, ignoring", e.msg);
	list_del(&x->node);
	a->ends.n--;
	free(x);
}

/* Those that are too old, and the oldest of too many. */
static void shrink(struct api *a)
{
	uint64_t now = clock_wall_ms();

	while (a->ends.n > 0) {
		struct ended *x =
			container_of(a->ends.all.next, struct ended, node);

		if (a->ends.n <= ENDED_MAX &&
		    (now < ENDED_MS || x->ended_ms >= now - ENDED_MS))
			return;
		forget(a, x);
	}
}

static void insert(struct api *a, const struct ended_row *row)
{
	struct ended *x = xcalloc(1, sizeof(*x));

	snprintf(x->id, sizeof(x->id), "%s", row->id);
	snprintf(x->name, sizeof(x->name), "%s", row->name);
	snprintf(x->project, sizeof(x->project), "%s", row->project);
	snprintf(x->image, sizeof(x->image), "%s", row->image);
	snprintf(x->reason, sizeof(x->reason), "%s", row->reason);
	x->created_ms = row->created_ms;
	x->ended_ms = row->ended_ms;
	x->record = row->record;
	list_add(&a->ends.all, &x->node);
	a->ends.n++;
}

static int load_row(void *arg, const struct ended_row *row)
{
	insert(arg, row);
	return 0;
}

void ended_log(struct api *a, struct audit entry, const char *reason)
{
	entry.type = "sandbox.end";
	entry.data = json_pack("{s:s}", "reason", reason);
	audit_add(a, &entry);
}

/* The row of an end whose record is about to be made. */
static struct ended_row late_row(struct api *a, const struct ended *x)
{
	return (struct ended_row){ .id = x->id,
				   .name = x->name,
				   .project = x->project,
				   .image = x->image,
				   .reason = x->reason,
				   .created_ms = x->created_ms,
				   .ended_ms = x->ended_ms,
				   .record = audit_record(a) };
}

/* We were killed before the record of its end was made. */
static void log_late(struct api *a, struct ended *x)
{
	const struct ended_row row = late_row(a, x);
	struct err e = { 0 };

	if (registry_ended_add(&a->registry, &row, &e) < 0)
		log_err("sandbox=%s %s, ignoring", x->id, e.msg);
	x->record = row.record;
	ended_log(a, (struct audit){ .ended = x }, x->reason);
}

/* --- ends that the registry did not take --- */

static int write_late(struct api *a, struct ended *x, struct err *e)
{
	const struct ended_row row = late_row(a, x);
	int r = registry_begin(&a->registry, e);

	if (r < 0)
		return r;
	r = registry_sandbox_remove(&a->registry, x->id, e);
	if (r == 0)
		r = registry_ended_add(&a->registry, &row, e);
	r = registry_end(&a->registry, r, e);
	if (r < 0)
		return r;
	x->late = false;
	x->record = row.record;
	ended_log(a, (struct audit){ .ended = x }, x->reason);
	api_registry_touched(a);
	return 0;
}

static void on_retry(struct timer *t)
{
	struct api *a = container_of(t, struct api, ends.retry);
	struct list *n, *next;
	struct err e = { 0 };

	list_each (n, next, &a->ends.all) {
		struct ended *x = container_of(n, struct ended, node);

		if (!x->late || write_late(a, x, &e) == 0)
			continue;
		timer_set(&a->loop, t, RETRY_MS, on_retry);
		return;
	}
}

void ended_retry(struct api *a, const char *id)
{
	struct list *n, *next;

	list_each (n, next, &a->ends.all) {
		struct ended *x = container_of(n, struct ended, node);

		if (strcmp(x->id, id) == 0)
			x->late = true;
	}
	if (a->ends.retry.slot == 0)
		timer_set(&a->loop, &a->ends.retry, RETRY_MS, on_retry);
}

int ends_load(struct api *a, struct err *e)
{
	int r = registry_ended_each(&a->registry, load_row, a, e);
	struct list *n, *tmp;

	if (r < 0)
		return r;
	list_each (n, tmp, &a->ends.all) {
		struct ended *x = container_of(n, struct ended, node);

		if (x->record >= a->audit.first)
			log_late(a, x);
	}
	shrink(a);
	return 0;
}

void ended_add(struct api *a, const struct ended_row *row)
{
	struct err e = { 0 };

	if (registry_ended_add(&a->registry, row, &e) < 0)
		log_err("sandbox=%s %s, ignoring", row->id, e.msg);
	insert(a, row);
	shrink(a);
}

const struct ended *ended_find(struct api *a, const struct identity *who,
			       const char *ref)
{
	enum { PREFIX_MIN = 4 };
	const struct ended *found = NULL;
	struct list *n, *next;

	shrink(a);
	if (strlen(ref) < PREFIX_MIN)
		return NULL;
	list_each (n, next, &a->ends.all) {
		const struct ended *x = container_of(n, struct ended, node);

		if (!str_starts(x->id, ref) || !who_sees(who, x->project))
			continue;
		if (found)
			return NULL;
		found = x;
	}
	return found;
}

int ended_say(const struct ended *x, struct err *e)
{
	uint64_t now = clock_wall_ms();
	char age[SIZE_TEXT];

	age_text(now > x->ended_ms ? now - x->ended_ms : 0, age);
	return err_set(e, ERR_ENDED, "sandbox %s has ended %s ago: %s", x->id,
		       age, x->reason);
}
