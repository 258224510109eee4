/*
 * Volumes: disks that sandboxes are launched with, and that outlive them. One
 * is on disk before it is answered, which a child waits for.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "warden/warden.h"
#include "wire/agent_args.h"

struct making {
	struct job job;
	struct waiter *wt;
	char id[ID_CAP];
	struct deferred gone;
};

static void making_free(struct deferred *d)
{
	free(container_of(d, struct making, gone));
}

static int sync_work(struct job *j, struct err *e)
{
	return syncfs(j->w->store.root_fd) < 0 ? err_sys(e, "sync the pool")
					       : 0;
}

static void discard(struct warden *w, const char *id, struct err *e)
{
	if (store_attached_discard(&w->store, id, e) == 0)
		sweep_soon(w);
}

/* Unheard, it is nobody's. */
static void sync_done(struct job *j, const struct err *e)
{
	struct making *m = container_of(j, struct making, job);
	struct err none = { 0 };

	if (e->code != 0 || m->wt->conn->dead)
		discard(j->w, m->id, &none);
	answer(m->wt, e);
	loop_defer(&j->w->loop, &m->gone, making_free);
}

void volume_new(struct warden *w, const struct volume_spec *s,
		struct waiter *wt)
{
	struct err e = { 0 };
	struct making *m;

	if (store_attached_new(&w->store, s->id, s->bytes,
			       strcmp(w->conf.allow_missing, "disk") == 0,
			       SANDBOX_UID, &e) < 0) {
		answer(wt, &e);
		return;
	}
	m = xcalloc(1, sizeof(*m));
	m->job = (struct job){ .w = w,
			       .work = sync_work,
			       .done = sync_done,
			       .urgent = true,
			       .said.fd = -1,
			       .pid_fd = -1 };
	m->wt = wt;
	memcpy(m->id, s->id, ID_CAP);
	if (job_start(&m->job, &e) < 0)
		sync_done(&m->job, &e);
}

static bool has(const struct box *b, const char *id)
{
	size_t i;

	for (i = 0; i < LAUNCH_VOLUMES_MAX; i++)
		if (strcmp(b->spec.volumes[i].id, id) == 0)
			return true;
	return false;
}

static bool in_use(const struct warden *w, const char *id)
{
	struct list *pos, *tmp;
	size_t i;

	for (i = 0; i < BOX_BUCKETS; i++)
		list_each (pos, tmp, &w->boxes[i])
			if (has(container_of(pos, struct box, node), id))
				return true;
	return false;
}

void volume_remove(struct warden *w, const char *id, struct waiter *wt)
{
	struct err e = { 0 };

	if (in_use(w, id))
		err_set(&e, EBUSY, "a sandbox has volume %s", id);
	else
		discard(w, id, &e);
	answer(wt, &e);
}

int volumes_check(struct warden *w, const struct launch_spec *s, struct err *e)
{
	size_t i;

	for (i = 0; i < LAUNCH_VOLUMES_MAX && s->volumes[i].id[0]; i++) {
		int fd = store_attached_open(&w->store, s->volumes[i].id, e);

		if (fd < 0)
			return fd;
		close(fd);
	}
	return 0;
}
