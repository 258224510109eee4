/*
 * Image imports: a worker unpacks a foreign archive, or what a sandbox made of
 * its image, into a staged image. The warden touches no byte of it: it hands
 * the write end of the worker's input and the read end of its words to the
 * api.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/log.h"
#include "sandbox/mount.h"
#include "warden/warden.h"

struct import *import_find(struct warden *w, const char *id)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, &w->imports) {
		struct import *i = container_of(pos, struct import, node);

		if (strcmp(i->id, id) == 0)
			return i;
	}
	return NULL;
}

static void import_free(struct deferred *d)
{
	free(container_of(d, struct import, gone));
}

static void drop_orphan(struct import *i);

/* What waited for the worker, or for a commit, can go on. */
static void import_go_on(struct import *i)
{
	struct list waiting, *pos, *tmp;

	list_init(&waiting);
	list_each (pos, tmp, &i->waiters) {
		list_del(pos);
		list_add(&waiting, pos);
	}
	list_each (pos, tmp, &waiting) {
		struct waiter *wt = container_of(pos, struct waiter, node);

		list_del(&wt->node);
		if (wt->op == WARDEN_IMAGE_COMMIT)
			import_commit(i, wt);
		else
			import_remove(i, wt);
	}
	drop_orphan(i);
}

static void import_done(struct import *i)
{
	if (list_empty(&i->node))
		return; /* already: the node is in no list */
	list_del(&i->node);
	i->w->n_imports--;
	loop_defer(&i->w->loop, &i->gone, import_free);
}

static int commit_work(struct job *j, struct err *e)
{
	struct import *i = container_of(j, struct import, job);

	return store_image_commit(&j->w->store, i->id, e);
}

/* The first waiter is the one who asked for the commit. */
static void commit_done(struct job *j, const struct err *e)
{
	struct import *i = container_of(j, struct import, job);
	struct waiter *wt = container_of(i->waiters.next, struct waiter, node);

	list_del(&wt->node);
	i->committing = false;
	answer(wt, e);
	/* Unheard, it is nobody's, and the next api may have its list already:
	 * import_go_on() discards it. */
	if (e->code == 0 && i->owner)
		import_done(i);
	import_go_on(i);
}

void import_commit(struct import *i, struct waiter *wt)
{
	struct err e = { 0 };

	if (!i->worker.ended || i->committing) {
		list_add(&i->waiters, &wt->node);
		return;
	}
	i->job = (struct job){ .w = i->w,
			       .work = commit_work,
			       .done = commit_done };
	if (list_empty(&i->node)) /* over; only this turn still has it */
		err_set(&e, ENOENT, "no import of image %s", i->id);
	else if (!i->worker.ok)
		err_set(&e, EBADMSG, "image %s was not unpacked", i->id);
	else if (job_start(&i->job, &e) == 0) {
		i->committing = true;
		list_add(&i->waiters, &wt->node);
		return;
	}
	answer(wt, &e);
}

/* A copy of an image that could not be made is not there, which is fine. */
static void discard(struct import *i, struct err *e)
{
	int r = store_image_discard(&i->w->store, i->id, e);

	if (r == -ENOENT)
		err_clear(e);
	if (r == 0 || r == -ENOENT) {
		import_done(i);
		sweep_soon(i->w);
	}
}

void import_remove(struct import *i, struct waiter *wt)
{
	struct err e = { 0 };

	if (!i->worker.ended || i->committing) {
		worker_stop(&i->worker);
		list_add(&i->waiters, &wt->node);
		return;
	}
	discard(i, &e);
	answer(wt, &e);
}

/* Nobody will ask for the result any more. */
static void drop_orphan(struct import *i)
{
	struct err e = { 0 };

	if (i->owner || !i->worker.ended || i->committing ||
	    list_empty(&i->node))
		return;
	discard(i, &e);
	if (e.code)
		log_warn("image=%s %s, left for the next start", i->id, e.msg);
}

void imports_orphan(struct warden *w, const struct conn *owner)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, &w->imports) {
		struct import *i = container_of(pos, struct import, node);

		if (i->owner != owner)
			continue;
		i->owner = NULL;
		worker_stop(&i->worker);
		drop_orphan(i);
	}
}

bool import_uses_image(const struct warden *w, const char *id)
{
	struct list *pos;

	for (pos = w->imports.next; pos != &w->imports; pos = pos->next)
		if (strcmp(container_of(pos, struct import, node)->base, id) ==
		    0)
			return true;
	return false;
}

/* --- in the child --- */

/* The staged directory, with the worker's ids mapped to plain ones. */
static int open_stage(struct warden *w, const struct worker_spec *s,
		      const struct part *p, int fds[WORKER_FDS_MAX],
		      struct err *e)
{
	const struct import *i = s->owner;
	char path[64];

	snprintf(path, sizeof(path), "/pool/" STORE_STAGE_TREE, i->id);
	fds[0] = mount_clone(AT_FDCWD, path,
			     MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID, p->userns_fd,
			     e);
	if (fds[0] < 0)
		return fds[0];
	fds[1] = w->sudo_fd;
	return 2;
}

/* The copy waits for the disk, so it is made here and not by the warden. */
static int open_copy(struct warden *w, const struct worker_spec *s,
		     const struct part *p, int fds[WORKER_FDS_MAX],
		     struct err *e)
{
	const struct import *i = s->owner;
	struct view_side side = { 0 };
	int r;

	r = store_image_stage_from(&w->store, i->id, i->base, i->family, e);
	if (r < 0)
		return r;
	close(r);
	r = open_stage(w, s, p, fds, e);
	if (r < 0)
		return r;
	memcpy(side.image, i->base, ID_CAP);
	memcpy(side.snap, i->from, ID_CAP);
	fds[2] = view_open(&side, p->userns_fd, &fds[3], e);
	return fds[2] < 0 ? fds[2] : 4;
}

static void say_failed(int fd, const struct err *e)
{
	dprintf(fd, "error %s\n", e->msg);
}

/* --- in the warden --- */

static bool id_in(const char id[ID_CAP])
{
	return memchr(id, '\0', ID_CAP) && id_valid(id);
}

bool import_spec_ok(const struct import_spec *s)
{
	if (!id_in(s->id) || s->kind >= IMPORT_KINDS)
		return false;
	if (s->kind == IMPORT_SNAPSHOT)
		return id_in(s->base) && id_in(s->from) &&
		       strcmp(s->base, s->id) != 0;
	return s->base[0] == '\0' && s->from[0] == '\0';
}

static int start_tar(struct import *i, int fds[2], struct err *e)
{
	const struct worker_spec s = { .mode = "unpack",
				       .program_fd = i->w->worker_fd,
				       .open = open_stage,
				       .fail = say_failed,
				       .owner = i };
	struct err ignored = { 0 };
	int fd, r;

	fd = store_image_stage(&i->w->store, i->id, e);
	if (fd < 0)
		return fd;
	close(fd);
	r = worker_start(&i->worker, &s, fds, e);
	if (r < 0 && store_image_discard(&i->w->store, i->id, &ignored) == 0)
		sweep_soon(i->w);
	return r;
}

static void let_go(struct import *i)
{
	if (!i->from[0])
		return;
	snapshot_release(i->w, i->from);
	store_release(&i->w->store);
	i->from[0] = '\0';
	i->base[0] = '\0';
}

static int start_snapshot(struct import *i, int fds[2], struct err *e)
{
	const struct worker_spec s = { .mode = "apply",
				       .program_fd = i->w->worker_fd,
				       .open = open_copy,
				       .fail = say_failed,
				       .owner = i };
	int fd = store_image_open(&i->w->store, i->base, e), r;

	if (fd < 0)
		return fd;
	close(fd);
	r = snapshot_hold(i->w, i->from, e);
	if (r < 0)
		return r;
	i->family = store_reserve(&i->w->store, 1);
	r = worker_start(&i->worker, &s, fds, e);
	if (r < 0)
		let_go(i);
	return r;
}

static void worker_gone(struct worker *k)
{
	struct import *i = container_of(k, struct import, worker);

	let_go(i);
	import_go_on(i);
}

int import_start(struct warden *w, const struct import_spec *spec,
		 const struct conn *owner, int fds[2], struct err *e)
{
	struct err none = { 0 };
	struct import *i;
	int r;

	if (w->n_imports >= IMPORTS_MAX)
		return err_set(e, EAGAIN, "%d images are being imported",
			       IMPORTS_MAX);
	/* Whatever ends an import discards its id: it must be nobody else's. */
	r = store_image_open(&w->store, spec->id, &none);
	if (r >= 0)
		close(r);
	if (r >= 0 || import_find(w, spec->id))
		return err_set(e, EEXIST, "image %s exists", spec->id);
	i = xcalloc(1, sizeof(*i));
	i->w = i->worker.w = w;
	i->worker.gone = worker_gone;
	i->owner = owner;
	memcpy(i->id, spec->id, ID_CAP);
	memcpy(i->base, spec->base, ID_CAP);
	memcpy(i->from, spec->from, ID_CAP);
	list_init(&i->waiters);
	r = spec->kind == IMPORT_SNAPSHOT ? start_snapshot(i, fds, e)
					  : start_tar(i, fds, e);
	if (r < 0) {
		free(i);
		return r;
	}
	list_add(&w->imports, &i->node);
	w->n_imports++;
	return 0;
}
