/*
 * Other limits for a sandbox that runs. Taking memory away makes the kernel
 * drop what is above, which may have to be written to the pool first: that is
 * done in a child. The limits inside (/sys/fs/cgroup) are live; MemTotal and
 * the processors that processes may use stay those of the launch.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "warden/warden.h"

struct resize {
	struct job job;
	struct waiter *wt;
	struct resize_spec to;
	struct cgroup_limits old;
	struct cgroup_fds fds;
	struct deferred gone;
};

static void resize_free(struct deferred *d)
{
	free(container_of(d, struct resize, gone));
}

static int resize_work(struct job *j, struct err *e)
{
	struct resize *r = container_of(j, struct resize, job);
	const struct cgroup_limits limits = { r->to.mem_bytes, r->to.cpus_milli,
					      r->to.pids };

	return cgroup_resize(&r->fds, &r->old, &limits, e);
}

static void resize_done(struct job *j, const struct err *result)
{
	struct resize *r = container_of(j, struct resize, job);
	struct box *b = box_find(j->w, r->to.id);
	struct err e = *result;

	cgroup_fds_close(&r->fds);
	if (b)
		b->resizing = false;
	/* Its groups went away under our hands, and nothing is wrong. */
	if (!b || b->state != BOX_RUNNING) {
		err_clear(&e);
		err_set(&e, ESRCH, "sandbox %s has ended", r->to.id);
	}
	if (b && e.code == 0) {
		b->spec.mem_bytes = r->to.mem_bytes;
		b->spec.cpus_milli = r->to.cpus_milli;
		b->spec.pids = r->to.pids;
		/* It holds without, until we are restarted. */
		if (record_write(b, &e) < 0)
			err_wrap(&e, "the new limits are not on record");
	}
	answer(r->wt, &e);
	loop_defer(&j->w->loop, &r->gone, resize_free);
}

static int may_resize(const struct box *b, const char *id, struct err *e)
{
	if (!b)
		return err_set(e, ESRCH, "no sandbox %s", id);
	if (b->state != BOX_RUNNING)
		return err_set(e, EBUSY, "sandbox %s does not run", id);
	if (b->resizing)
		return err_set(e, EBUSY,
			       "limits of sandbox %s are being changed", id);
	return 0;
}

void box_resize(struct warden *w, const struct resize_spec *to,
		struct waiter *wt)
{
	struct box *b = box_find(w, to->id);
	struct err e = { 0 };
	struct resize *r;
	int rc;

	if (may_resize(b, to->id, &e) < 0) {
		answer(wt, &e);
		return;
	}
	r = xcalloc(1, sizeof(*r));
	r->job = (struct job){ .w = w,
			       .work = resize_work,
			       .done = resize_done,
			       .said.fd = -1,
			       .pid_fd = -1 };
	r->wt = wt;
	r->to = *to;
	r->old = (struct cgroup_limits){ b->spec.mem_bytes, b->spec.cpus_milli,
					 b->spec.pids };
	b->resizing = true;
	rc = cgroup_fds_open(&r->fds, &w->cg, b->slot, &e);
	if (rc == 0 && to->mem_bytes < r->old.mem_bytes) {
		if (job_start(&r->job, &e) == 0)
			return; /* resize_done() comes */
	} else if (rc == 0) {
		(void)resize_work(&r->job, &e); /* `e` says it as well */
	}
	resize_done(&r->job, &e);
}
