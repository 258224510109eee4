/*
 * Hogs: sandboxes that use all that they may have. Whoever wakes up on the
 * processor of one waits until the kernel's next tick, however small the hog's
 * share is and however idle the other processors are. So hogs get processors of
 * their own, as many as they fill together and may use, and the other sandboxes
 * the rest: nobody has less than before, and no one waits for a hog.
 *
 * It is looked for while sandboxes are busy: what all of them use is one
 * figure; what each uses is asked only when that is enough to fill a processor,
 * and then in pieces, as nobody else is served meanwhile.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "warden/apart.h"
#include "warden/warden.h"

enum {
	IDLE_MS = 400,
	BUSY_MS = 100, /* and one more for each sandbox */
	BUSY_MILLI = 500,
	WORTH_MILLI = 850, /* less than that fills no processor */
	/* Tenths of its limit that one uses who is a hog, who stays one... */
	HOG_TENTHS = 6,
	STAY_TENTHS = 3,
	HOG_LOOKS = 100, /* ...and for how many looks without */
	TURN_US = 1000,  /* then others have theirs */
	TURN_PAUSE_MS = 5,
	AGAIN_MS = 200, /* what failed */
	EVERYWHERE = 0,
	UNKNOWN = 1, /* no number of a pair */
};

/* Where one belongs: a number for each pair of sets. */
static unsigned place_of(const struct apart *a, const struct box *b)
{
	return a->n ? 2 * a->n + b->hog : EVERYWHERE;
}

/* The hogs' are the last ones: the first has more to do for the kernel. */
static void share_out(struct apart *a)
{
	unsigned left = (unsigned)CPU_COUNT(&a->cpus) - a->n;
	int i;

	CPU_ZERO(&a->hogs);
	CPU_ZERO(&a->others);
	for (i = 0; i < CPU_SETSIZE; i++) {
		if (!CPU_ISSET(i, &a->cpus))
			continue;
		CPU_SET(i, left ? &a->others : &a->hogs);
		left -= left > 0;
	}
}

static bool move(struct apart *a, struct box *b, unsigned place)
{
	const cpu_set_t *set = b->hog ? &a->hogs : &a->others;
	struct err e = { 0 };

	if (cgroup_set_cpus(&b->w->cg, b->slot,
			    place == EVERYWHERE ? NULL : set, &e) < 0 &&
	    e.code != ENOENT) { /* its group is gone, and so is it */
		log_debug("sandbox=%s keeps its processors: %s", b->spec.id,
			  e.msg);
		return false;
	}
	b->place = place;
	return true;
}

/* Until then: each task of a sandbox is moved. In how many milliseconds there
 * is more to do; 0: all are where they belong. */
static unsigned move_some(struct warden *w, uint64_t until_us)
{
	unsigned again_ms = 0;
	struct list *pos, *tmp;
	size_t i;

	for (i = 0; i < BOX_BUCKETS; i++)
		list_each (pos, tmp, &w->boxes[i]) {
			struct box *b = container_of(pos, struct box, node);
			unsigned place = place_of(&w->apart, b);

			/* One that starts looks at what it has. */
			if (b->place == place || b->looked_us == 0)
				continue;
			if (clock_boot_us() >= until_us)
				return TURN_PAUSE_MS;
			if (!move(&w->apart, b, place))
				again_ms = AGAIN_MS;
		}
	return again_ms;
}

static void move_more(struct timer *t)
{
	struct warden *w = container_of(t, struct warden, apart.move_timer);
	unsigned again_ms = move_some(w, clock_boot_us() + TURN_US);

	if (again_ms)
		timer_set(&w->loop, t, again_ms, move_more);
}

/* What it used since it was looked at, in thousandths of a processor. */
static unsigned use_of(struct box *b)
{
	uint64_t now_us = clock_boot_us(), use = 0;
	uint64_t cpu_us = cgroup_cpu_us(&b->w->cg, b->slot);

	if (b->looked_us && now_us > b->looked_us && cpu_us > b->cpu_us)
		use = (cpu_us - b->cpu_us) * 1000 / (now_us - b->looked_us);
	b->looked_us = now_us;
	b->cpu_us = cpu_us;
	return (unsigned)use;
}

/* As far as there are processors for it. */
static unsigned limit_of(const struct box *b, unsigned cpus)
{
	return b->spec.cpus_milli < (uint64_t)cpus * 1000
		       ? (unsigned)b->spec.cpus_milli
		       : cpus * 1000;
}

static bool uses_limit(const struct box *b, unsigned limit)
{
	return (uint64_t)b->use_milli * 10 >=
	       (uint64_t)limit * (b->hog_looks ? STAY_TENTHS : HOG_TENTHS);
}

static void measure(struct box *b)
{
	unsigned cpus = (unsigned)CPU_COUNT(&b->w->apart.cpus);

	if (b->state != BOX_RUNNING)
		return;
	b->use_milli = use_of(b);
	if (uses_limit(b, limit_of(b, cpus)))
		b->hog_looks = HOG_LOOKS;
	else if (b->hog_looks)
		b->hog_looks--;
}

/* Fills `hogs`, which has room for all. */
static size_t find_hogs(struct warden *w, struct hog *hogs)
{
	unsigned cpus = (unsigned)CPU_COUNT(&w->apart.cpus);
	struct list *pos, *tmp;
	size_t n = 0, i;

	for (i = 0; i < BOX_BUCKETS; i++)
		list_each (pos, tmp, &w->boxes[i]) {
			struct box *b = container_of(pos, struct box, node);

			b->hog = false;
			if (b->state == BOX_RUNNING && b->hog_looks)
				hogs[n++] =
					(struct hog){ b->use_milli,
						      limit_of(b, cpus), b };
		}
	return n;
}

static void decide(struct warden *w)
{
	struct apart *a = &w->apart;
	const struct apart_load load = { (unsigned)CPU_COUNT(&a->cpus),
					 a->all_milli, a->n };
	struct hog *hogs = xcalloc(w->n_boxes + 1, sizeof(*hogs));
	size_t found = find_hogs(w, hogs), chosen, i;
	unsigned n = apart_choose(hogs, found, &load, &chosen);

	if (n)
		a->alert = HOG_LOOKS;
	for (i = 0; i < chosen; i++)
		hogs[i].box->hog = true;
	if (n != a->n)
		log_debug("apart=%u of=%u hogs=%zu", n, load.cpus, chosen);
	a->n = n;
	share_out(a);
	free(hogs);
	move_more(&a->move_timer);
}

/* A sandbox may have the list of what there was. */
static void move_all_anew(struct warden *w)
{
	struct list *pos, *tmp;
	size_t i;

	for (i = 0; i < BOX_BUCKETS; i++)
		list_each (pos, tmp, &w->boxes[i])
			container_of(pos, struct box, node)->place = UNKNOWN;
	w->apart.n = 0;
	move_more(&w->apart.move_timer);
}

/* The processors there are: whoever changed them wants it to count. */
static bool read_cpus(struct warden *w)
{
	struct apart *a = &w->apart;
	struct err e = { 0 };
	cpu_set_t cpus, old = a->cpus;

	if (cgroup_cpus(&w->cg, &cpus, &e) < 0) {
		if (!a->blind)
			log_warn("busy sandboxes stay where they are: %s",
				 e.msg);
		a->blind = true;
		return false;
	}
	a->blind = false;
	a->cpus = cpus;
	if (CPU_COUNT(&old) > 0 && !CPU_EQUAL(&cpus, &old))
		move_all_anew(w);
	return true;
}

/* What all have used since the last look, in thousandths of a processor. */
static unsigned use_of_all(struct warden *w)
{
	struct apart *a = &w->apart;
	uint64_t now_us = clock_boot_us(), use = 0;
	uint64_t all_us = cgroup_cpu_us_all(&w->cg);

	if (now_us > a->looked_us && all_us > a->all_us)
		use = (all_us - a->all_us) * 1000 / (now_us - a->looked_us);
	a->looked_us = now_us;
	a->all_us = all_us;
	return (unsigned)use;
}

static void look(struct timer *t);

static void look_later(struct warden *w)
{
	struct apart *a = &w->apart;
	bool busy = a->alert || a->all_milli >= BUSY_MILLI;

	timer_set(&w->loop, &a->timer, busy ? BUSY_MS + w->n_boxes : IDLE_MS,
		  look);
}

static void measure_some(struct timer *t)
{
	struct warden *w = container_of(t, struct warden, apart.timer);
	struct apart *a = &w->apart;
	const uint64_t until_us = clock_boot_us() + TURN_US;
	struct list *pos, *tmp;

	while (a->measured < BOX_BUCKETS) {
		if (clock_boot_us() >= until_us) {
			timer_set(&w->loop, t, TURN_PAUSE_MS, measure_some);
			return;
		}
		list_each (pos, tmp, &w->boxes[a->measured])
			measure(container_of(pos, struct box, node));
		a->measured++;
	}
	decide(w);
	look_later(w);
}

static void look(struct timer *t)
{
	struct warden *w = container_of(t, struct warden, apart.timer);
	struct apart *a = &w->apart;

	a->all_milli = use_of_all(w);
	if (w->n_boxes == 0) /* the next one starts it again */
		return;
	if (a->alert)
		a->alert--;
	if ((a->n || a->alert || a->all_milli >= WORTH_MILLI) && read_cpus(w) &&
	    CPU_COUNT(&a->cpus) > 1) {
		a->measured = 0;
		measure_some(t);
	} else {
		look_later(w);
	}
}

void apart_watch(struct warden *w)
{
	if (w->conf.keep_apart && w->cg.cpusets && w->apart.timer.slot == 0)
		timer_set(&w->loop, &w->apart.timer, IDLE_MS, look);
}

void apart_adopted(struct box *b)
{
	struct err e = { 0 };

	/* Whoever kept it apart is no more. */
	if (b->w->cg.cpusets &&
	    cgroup_set_cpus(&b->w->cg, b->slot, NULL, &e) < 0)
		log_warn("sandbox=%s may have too few processors: %s",
			 b->spec.id, e.msg);
	apart_watch(b->w);
}

void apart_release(struct warden *w)
{
	w->apart.n = 0;
	if (move_some(w, UINT64_MAX))
		log_warn("not all sandboxes have all processors");
}
