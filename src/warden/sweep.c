/*
 * Discarded volumes are destroyed by a child: a large one takes half a second
 * and more, and nobody waits for it.
 */
#include <errno.h>

#include "base/log.h"
#include "warden/warden.h"

enum { SWEEP_AFTER_MS = 100, SWEEP_RETRY_MS = 10000 };

static int sweep_work(struct job *j, struct err *e)
{
	int r = store_sweep(&j->w->store, e);

	/* Quota groups may have to wait for the kernel: no news, no error. */
	return r > 0 ? err_set(e, EAGAIN, "something is left") : r;
}

static void sweep_start(struct timer *t);

static void sweep_done(struct job *j, const struct err *e)
{
	struct warden *w = j->w;

	w->sweeping = false;
	if (e->code) {
		if (e->code != EAGAIN)
			log_warn("sweep: %s, trying again later", e->msg);
		timer_set(&w->loop, &w->sweep_timer, SWEEP_RETRY_MS,
			  sweep_start);
	} else if (w->sweep_again) {
		sweep_soon(w);
	}
	w->sweep_again = false;
}

static void sweep_start(struct timer *t)
{
	struct warden *w = container_of(t, struct warden, sweep_timer);
	struct err e = { 0 };

	w->sweep_job.w = w;
	w->sweep_job.work = sweep_work;
	w->sweep_job.done = sweep_done;
	w->sweeping = true;
	if (job_start(&w->sweep_job, &e) < 0)
		sweep_done(&w->sweep_job, &e);
}

void sweep_soon(struct warden *w)
{
	if (w->sweeping)
		w->sweep_again = true;
	else if (w->sweep_timer.slot == 0)
		timer_set(&w->loop, &w->sweep_timer, SWEEP_AFTER_MS,
			  sweep_start);
}
