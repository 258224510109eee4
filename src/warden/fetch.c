/*
 * Workers that speak to registries: with the host's network, and nothing else
 * of the host (see fetch/). Which hosts they may speak to is the operator's
 * word, which they get from here: the api cannot widen it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "warden/warden.h"
#include "wire/fetch.h"

struct fetch {
	struct list node;
	struct worker worker;
	const struct conn *owner; /* NULL: gone */
	struct deferred gone;
};

static void fetch_free(struct deferred *d)
{
	free(container_of(d, struct fetch, gone));
}

static void fetch_gone(struct worker *k)
{
	struct fetch *f = container_of(k, struct fetch, worker);

	list_del(&f->node);
	k->w->n_fetches--;
	loop_defer(&k->w->loop, &f->gone, fetch_free);
}

static int open_nothing(struct warden *w, const struct worker_spec *s,
			const struct part *p, int fds[WORKER_FDS_MAX],
			struct err *e)
{
	(void)w;
	(void)s;
	(void)p;
	(void)fds;
	(void)e;
	return 0;
}

static void say_failed(int fd, const struct err *e)
{
	const struct fetch_record r = { .kind = FETCH_ERROR, .err = *e };
	struct buf b = { 0 };

	fetch_record_put(&b, &r);
	(void)buf_write(&b, fd);
	buf_done(&b);
}

int fetch_start(struct warden *w, const struct conn *owner, int fds[2],
		struct err *e)
{
	char allowed[sizeof(w->conf.registries_ca) +
		     sizeof(w->conf.registries) +
		     sizeof(w->conf.registries_insecure) + 8];
	const struct worker_spec s = { .mode = "fetch",
				       .arg = allowed,
				       .program_fd = w->fetch_fd,
				       .host_net = true,
				       .open = open_nothing,
				       .fail = say_failed };
	struct fetch *f;
	int r;

	if (w->n_fetches >= FETCHES_MAX)
		return err_set(e, EAGAIN, "%d workers speak to registries",
			       FETCHES_MAX);
	snprintf(allowed, sizeof(allowed), "%s\n%s\n%s", w->conf.registries_ca,
		 w->conf.registries, w->conf.registries_insecure);
	f = xcalloc(1, sizeof(*f));
	f->worker.w = w;
	f->worker.gone = fetch_gone;
	f->owner = owner;
	r = worker_start(&f->worker, &s, fds, e);
	if (r < 0) {
		free(f);
		return r;
	}
	list_add(&w->fetches, &f->node);
	w->n_fetches++;
	return 0;
}

void fetches_orphan(struct warden *w, const struct conn *owner)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, &w->fetches) {
		struct fetch *f = container_of(pos, struct fetch, node);

		if (f->owner != owner)
			continue;
		f->owner = NULL;
		worker_stop(&f->worker);
	}
}
