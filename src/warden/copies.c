/*
 * Disks for forks, made together with the snapshot that they start as. Each
 * copy of a disk waits for a commit of the pool, but those that are asked for
 * at the same moment share one: so there is a process for each, which is ready
 * before the sandbox stands still, and all of them ask at once. What failed is
 * made by its launch, as if it had never been here.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "warden/warden.h"

enum { WORD_MS = 10000, UNUSED_MS = 10000 };

/* A word of a child: its number, and whether its disk is copied or only has a
 * place. */
enum { COPIED = 0x80 };
_Static_assert((int)SNAPSHOT_COPIES_MAX <= (int)COPIED,
	       "a number is less than a word");

/* --- in the child that makes the snapshot --- */

static void __attribute__((noreturn))
copy_child(struct store *s, const struct copies *c, unsigned i)
{
	const uint8_t placed = (uint8_t)i, copied = (uint8_t)(i | COPIED);
	struct err e = { 0 };
	int place_fd;
	char go;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(c->gate[1]);
	place_fd = store_copy_place(s, c->snap, i, c->family + i, &e);
	if (write_full(c->words[1], &placed, 1) < 0 || place_fd < 0)
		_exit(1);
	/* An end of file: now. */
	if (read(c->gate[0], &go, 1) != 0 ||
	    store_copy_fill(s, place_fd, c->tree_fd, c->family + i, &e) < 0)
		_exit(1);
	if (write_full(c->words[1], &copied, 1) < 0 ||
	    store_copy_finish(s, place_fd, &e) < 0)
		_exit(1);
	_exit(0);
}

/* One such word of each; of those that end without one, it is not waited for.
 * One that was late with the word before says that first. */
static void await_words(struct copies *c, uint8_t kind)
{
	struct pollfd p = { .fd = c->words[0], .events = POLLIN };
	unsigned n = c->n;
	uint8_t word;

	while (n > 0 && poll(&p, 1, WORD_MS) > 0 &&
	       read(c->words[0], &word, 1) == 1) {
		if ((word & COPIED) != kind)
			continue;
		n--;
		if (kind == COPIED && (word & ~COPIED) < SNAPSHOT_COPIES_MAX)
			c->made[word & ~COPIED] = true;
	}
}

void copies_prepare(struct store *s, struct copies *c)
{
	unsigned i;

	c->gate[0] = c->gate[1] = c->words[0] = c->words[1] = -1;
	memset(c->pid, 0, sizeof(c->pid));
	memset(c->made, 0, sizeof(c->made));
	if (c->n == 0 || pipe2(c->gate, O_CLOEXEC) < 0 ||
	    pipe2(c->words, O_CLOEXEC) < 0) {
		c->n = 0;
		return;
	}
	for (i = 0; i < c->n; i++) {
		c->pid[i] = fork();
		if (c->pid[i] == 0)
			copy_child(s, c, i);
	}
	close(c->words[1]);
	c->words[1] = -1;
	await_words(c, 0);
}

void copies_go(struct copies *c)
{
	auto_close(&c->gate[1]);
}

void copies_made(struct copies *c)
{
	await_words(c, COPIED);
}

void copies_end(struct copies *c, bool wanted, uint8_t *ok)
{
	unsigned i;
	int status;

	for (i = 0; i < c->n; i++) {
		if (c->pid[i] <= 0)
			continue;
		/* A late one may have copied what came after the snapshot. */
		if (!wanted || !c->made[i])
			kill(c->pid[i], SIGKILL);
		ok[i] = waitpid(c->pid[i], &status, 0) == c->pid[i] &&
			WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
			c->made[i];
	}
	auto_close(&c->gate[0]);
	auto_close(&c->gate[1]);
	auto_close(&c->words[0]);
}

/* --- those that wait for their launch --- */

struct ready {
	struct list node;
	struct warden *w;
	char snap[ID_CAP], of[ID_CAP];
	unsigned n;
	uint8_t ok[SNAPSHOT_COPIES_MAX];
	struct timer late;
	struct deferred gone;
};

static void ready_free(struct deferred *d)
{
	free(container_of(d, struct ready, gone));
}

static void ready_drop(struct ready *r)
{
	unsigned i;

	for (i = 0; i < r->n; i++)
		if (r->ok[i])
			store_copy_discard(&r->w->store, r->snap, i);
	sweep_soon(r->w);
	timer_del(&r->w->loop, &r->late);
	list_del(&r->node);
	loop_defer(&r->w->loop, &r->gone, ready_free);
}

static void unused(struct timer *t)
{
	ready_drop(container_of(t, struct ready, late));
}

void copies_ready(struct warden *w, const struct snapshot_spec *s,
		  const uint8_t *ok)
{
	struct ready *r = xcalloc(1, sizeof(*r));
	unsigned i;

	r->w = w;
	memcpy(r->snap, s->snap, ID_CAP);
	memcpy(r->of, s->id, ID_CAP);
	r->n = s->copies;
	memcpy(r->ok, ok, r->n);
	for (i = 0; i < r->n; i++)
		if (!ok[i])
			store_copy_discard(&w->store, r->snap, i);
	list_add(&w->ready, &r->node);
	timer_set(&w->loop, &r->late, UNUSED_MS, unused);
}

static struct ready *ready_find(struct warden *w, const char *snap)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, &w->ready) {
		struct ready *r = container_of(pos, struct ready, node);

		if (strcmp(r->snap, snap) == 0)
			return r;
	}
	return NULL;
}

void copies_drop(struct warden *w, const char *snap)
{
	struct ready *r = ready_find(w, snap);

	if (r)
		ready_drop(r);
}

bool copy_take(struct warden *w, const struct launch_spec *s)
{
	struct ready *r = ready_find(w, s->from);
	const struct disk_spec disk = disk_of(s);
	struct err e = { 0 };
	unsigned i;

	/* The sandbox itself, rolled back, stays in its own family. */
	if (!r || strcmp(r->of, s->id) == 0)
		return false;
	for (i = 0; i < r->n && !r->ok[i]; i++)
		continue;
	if (i == r->n)
		return false;
	if (store_copy_take(&w->store, r->snap, i, &disk, &e) < 0)
		return false;
	r->ok[i] = 0;
	return true;
}
