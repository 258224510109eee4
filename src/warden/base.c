/*
 * Bases of images: what a microVM has as a disk instead of the tree that a
 * container gets mounted. A worker makes the file, because the tree in it is
 * foreign; the warden hands it the tree, read-only, and an empty file, and
 * gives the file its name when all of it is on disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "warden/warden.h"

/* Who has not made it by then never will: launches wait for it. */
enum { BASE_MS = 15 * 60 * 1000, WORD_MAX = 160, NUMBER_CAP = 24 };

struct base {
	struct list node;
	struct worker worker;
	char image[ID_CAP];
	int out_fd;   /* the file, until the worker has it */
	int words_fd; /* what it says */
	struct timer late;
	struct job job; /* the commit */
	struct list waits;
	struct deferred gone;
};

static struct base *base_find(const struct warden *w, const char *image)
{
	struct list *pos;

	for (pos = w->bases.next; pos != &w->bases; pos = pos->next) {
		struct base *b = container_of(pos, struct base, node);

		if (strcmp(b->image, image) == 0)
			return b;
	}
	return NULL;
}

bool vm_base_uses_image(const struct warden *w, const char *image)
{
	return base_find(w, image) != NULL;
}

int vm_base_open(struct warden *w, const char *image, struct err *e)
{
	return store_base_open(&w->store, image, e);
}

void vm_base_leave(struct base_wait *b)
{
	list_del(&b->node);
}

/* --- in the child --- */

static int open_base(struct warden *w, const struct worker_spec *s,
		     const struct part *p, int fds[WORKER_FDS_MAX],
		     struct err *e)
{
	const struct base *b = s->owner;
	struct view_side side = { 0 };
	int upper;

	(void)w;
	memcpy(side.image, b->image, ID_CAP);
	fds[0] = view_open(&side, p->userns_fd, &upper, e);
	fds[1] = b->out_fd;
	return fds[0] < 0 ? fds[0] : 2;
}

static void say_failed(int fd, const struct err *e)
{
	dprintf(fd, "error %s\n", e->msg);
}

/* --- in the warden --- */

static void base_free(struct deferred *d)
{
	free(container_of(d, struct base, gone));
}

/* Everybody who waits hears how it ended. */
static void finish(struct base *b, const struct err *e)
{
	struct warden *w = b->worker.w;

	if (e->code) {
		log_warn("image=%s no base: %s", b->image, e->msg);
		store_base_drop(&w->store, b->image);
	}
	list_del(&b->node);
	w->n_bases--;
	auto_close(&b->words_fd);
	while (!list_empty(&b->waits)) {
		struct base_wait *wait =
			container_of(b->waits.next, struct base_wait, node);

		list_del(&wait->node);
		wait->done(wait, e);
	}
	loop_defer(&w->loop, &b->gone, base_free);
}

static int commit_work(struct job *j, struct err *e)
{
	const struct base *b = container_of(j, struct base, job);

	return store_base_commit(&j->w->store, b->image, e);
}

static void commit_done(struct job *j, const struct err *e)
{
	struct base *b = container_of(j, struct base, job);

	if (e->code == 0)
		log_info("image=%s event=base_made", b->image);
	finish(b, e);
}

/* The worker has seen foreign bytes: its last word is text, and not long. */
static void why_not(const struct base *b, struct err *e)
{
	static const char error[] = "error ";
	char line[sizeof(error) + WORD_MAX];
	ssize_t n = read(b->words_fd, line, sizeof(line) - 1), i;

	line[n > 0 ? n : 0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	for (i = 0; line[i]; i++)
		if (line[i] < ' ' || line[i] > '~')
			line[i] = '?';
	err_set(e, EIO, "make the disk of image %s: %s", b->image,
		str_starts(line, error) ? line + sizeof(error) - 1
					: "the worker died");
}

static void worker_gone(struct worker *k)
{
	struct base *b = container_of(k, struct base, worker);
	struct err e = { 0 };

	timer_del(&k->w->loop, &b->late);
	b->job = (struct job){ .w = k->w,
			       .work = commit_work,
			       .done = commit_done,
			       .urgent = true };
	if (!k->ok)
		why_not(b, &e);
	else if (job_start(&b->job, &e) == 0)
		return;
	finish(b, &e);
}

static void too_late(struct timer *t)
{
	struct base *b = container_of(t, struct base, late);

	log_warn("image=%s its base takes too long, stopped", b->image);
	worker_stop(&b->worker);
}

static int start(struct base *b, uint64_t room, struct err *e)
{
	struct warden *w = b->worker.w;
	char arg[NUMBER_CAP];
	const struct worker_spec s = { .mode = "base",
				       .arg = arg,
				       .program_fd = w->worker_fd,
				       .open = open_base,
				       .fail = say_failed,
				       .owner = b };
	int out[2], r;

	snprintf(arg, sizeof(arg), "%" PRIu64, room);
	r = worker_start(&b->worker, &s, out, e);
	if (r < 0)
		return r;
	close(out[0]);
	b->words_fd = out[1];
	/* Whoever holds the other end cannot make us wait. */
	(void)fd_set_nonblock(b->words_fd, true);
	timer_set(&w->loop, &b->late, BASE_MS, too_late);
	return 0;
}

static struct base *base_new(struct warden *w, const char *image, struct err *e)
{
	struct base *b = xcalloc(1, sizeof(*b));
	uint64_t room;
	int r;

	b->worker.w = w;
	b->worker.gone = worker_gone;
	b->words_fd = -1;
	list_init(&b->waits);
	snprintf(b->image, sizeof(b->image), "%s", image);
	r = b->out_fd = store_base_new(&w->store, image, &room, e);
	if (r >= 0)
		r = start(b, room, e);
	auto_close(&b->out_fd);
	if (r < 0) {
		store_base_drop(&w->store, image);
		free(b);
		return NULL;
	}
	list_add(&w->bases, &b->node);
	w->n_bases++;
	return b;
}

int vm_base_wait(struct warden *w, const char *image, struct base_wait *wait,
		 struct err *e)
{
	struct base *b = base_find(w, image);

	list_init(&wait->node);
	if (!b && w->n_bases >= BASES_MAX)
		return err_set(e, EAGAIN,
			       "the disks of %d images are being made: try "
			       "again when one is done",
			       BASES_MAX);
	if (!b)
		b = base_new(w, image, e);
	if (!b)
		return -e->code;
	list_add(&b->waits, &wait->node);
	return 0;
}
