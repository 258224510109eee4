/*
 * Views: workers that look at states of disks, and change nothing.
 *
 * A view of a snapshot is an overlay of two lower layers, what the sandbox
 * wrote over its image, and no upper one: what the sandbox saw, read-only. It
 * is mounted here, by root, because only root's overlays understand the marks
 * that are in the layers (trusted.overlay.*). Beside it the worker gets the
 * sandbox's layer itself: what is not in there is the image's.
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
#include "base/fd.h"
#include "sandbox/mount.h"
#include "store/origin.h"
#include "warden/warden.h"
#include "wire/view.h"

/* How many states each work looks at. */
static const struct {
	unsigned least, most;
} sides[VIEW_WORKS] = {
	[VIEW_DIFF] = { 2, 2 }, [VIEW_MERGE] = { 3, 3 }, [VIEW_PACK] = { 1, 3 },
	[VIEW_READ] = { 1, 1 }, [VIEW_SPACE] = { 1, 1 },
};

struct view {
	struct list node;
	struct worker worker;
	struct view_spec spec;
	unsigned n, held; /* sides */
	const struct conn *owner;
	struct deferred gone;
	char arg[VIEW_SIDES * 40];
};

static bool side_ok(const struct view_side *s)
{
	return memchr(s->image, '\0', sizeof(s->image)) &&
	       memchr(s->snap, '\0', sizeof(s->snap)) && id_valid(s->image) &&
	       (s->snap[0] == '\0' || id_valid(s->snap));
}

static unsigned count_sides(const struct view_spec *s)
{
	unsigned n = 0;

	while (n < VIEW_SIDES && s->side[n].image[0])
		n++;
	return n;
}

bool view_spec_ok(const struct view_spec *s)
{
	unsigned n = count_sides(s), i;

	if (s->work == 0 || s->work >= VIEW_WORKS || s->zero != 0 ||
	    n < sides[s->work].least || n > sides[s->work].most)
		return false;
	for (i = 0; i < VIEW_SIDES; i++)
		if (i < n ? !side_ok(&s->side[i])
			  : s->side[i].image[0] || s->side[i].snap[0])
			return false;
	return s->work != VIEW_SPACE || s->side[0].snap[0];
}

/* --- in the child --- */

static int attach(int mnt_fd, const char *at, struct err *e)
{
	AUTO_CLOSE int at_fd = open(at, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return at_fd < 0 ? err_sys(e, "open %s", at)
			 : mount_at(mnt_fd, at_fd, e);
}

static int clone_read_only(const char *path, int userns_fd, struct err *e)
{
	return mount_clone(AT_FDCWD, path, MOUNT_ATTR_RDONLY | VIEW_FLAGS,
			   userns_fd, e);
}

/* Over what an earlier one has attached; all of it goes with the child. */
static int mount_view(int image_fd, int upper_fd, struct err *e)
{
	static const struct mount_opt opts[] = {
		{ "source", "view" },         { "lowerdir", "/t/u:/t/l" },
		{ "index", "off" },           { "metacopy", "off" },
		{ "redirect_dir", "follow" }, { 0 },
	};

	if (attach(image_fd, "/t/l", e) < 0 || attach(upper_fd, "/t/u", e) < 0)
		return -e->code;
	return mount_new("overlay", opts, MOUNT_ATTR_RDONLY | VIEW_FLAGS, e);
}

int view_open(const struct view_side *side, int userns_fd, int *upper_out,
	      struct err *e)
{
	AUTO_CLOSE int image_fd = -1, upper_fd = -1, layer_fd = -1;
	char path[80];
	int fd;

	snprintf(path, sizeof(path), "/pool/" STORE_IMAGE_TREE, side->image);
	image_fd = clone_read_only(path, userns_fd, e);
	if (image_fd < 0)
		return err_wrap(e, "image %s", side->image);
	if (!side->snap[0]) {
		*upper_out = image_fd;
		return take_fd(&image_fd);
	}
	snprintf(path, sizeof(path), "/pool/" STORE_SNAPSHOT_TREE "/upper",
		 side->snap);
	upper_fd = clone_read_only(path, userns_fd, e);
	if (upper_fd >= 0)
		layer_fd = clone_read_only(path, userns_fd, e);
	if (layer_fd < 0)
		return err_wrap(e, "snapshot %s", side->snap);
	fd = mount_view(image_fd, layer_fd, e);
	if (fd < 0)
		return err_wrap(e, "view of snapshot %s", side->snap);
	*upper_out = take_fd(&upper_fd);
	return fd;
}

static int open_views(struct warden *w, const struct worker_spec *s,
		      const struct part *p, int fds[WORKER_FDS_MAX],
		      struct err *e)
{
	const struct view *v = s->owner;
	unsigned i;

	(void)w;
	for (i = 0; i < v->n; i++) {
		fds[i] = view_open(&v->spec.side[i], p->userns_fd,
				   &fds[v->n + i], e);
		if (fds[i] < 0)
			return fds[i];
	}
	return 2 * (int)v->n;
}

static void say_failed(int fd, const struct err *e)
{
	struct view_record r = { .kind = VIEW_ERROR, .err = *e };
	struct buf b = { 0 };

	view_record_put(&b, &r);
	if (write_full(fd, buf_data(&b), buf_len(&b)) < 0)
		_exit(126);
}

/* --- in the warden --- */

static int snapshot_origin(struct warden *w, const char *id,
			   struct store_origin *o, struct err *e)
{
	AUTO_CLOSE int fd = store_snapshot_open(&w->store, id, e);

	if (fd < 0)
		return fd;
	if (store_origin(fd, o) < 0)
		*o = (struct store_origin){ 0 };
	return 0;
}

static int image_there(struct warden *w, const char *id, struct err *e)
{
	int fd = store_image_open(&w->store, id, e);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

/* The number of the first side with that image: the same for the same. */
static unsigned image_number(const struct view *v, unsigned side)
{
	unsigned i = 0;

	while (strcmp(v->spec.side[i].image, v->spec.side[side].image) != 0)
		i++;
	return i;
}

/*
 * What the worker cannot know: which sides have the same image, and which are
 * snapshots of the same tree, made when (see wire/worker.h).
 */
static int describe(struct warden *w, struct view *v, struct err *e)
{
	struct store_origin from[VIEW_SIDES] = { 0 };
	unsigned i, k;
	size_t at;
	int r;

	at = (size_t)snprintf(v->arg, sizeof(v->arg), "%u", v->spec.work);
	for (i = 0; i < v->n; i++) {
		const struct view_side *s = &v->spec.side[i];

		r = image_there(w, s->image, e);
		if (r == 0 && s->snap[0])
			r = snapshot_origin(w, s->snap, &from[i], e);
		if (r < 0)
			return r;
		for (k = 0; memcmp(from[k].tree, from[i].tree,
				   sizeof(from[k].tree)) != 0;)
			k++;
		at += (size_t)snprintf(v->arg + at, sizeof(v->arg) - at,
				       " %c:%u:%u:%llu", s->snap[0] ? 's' : 'i',
				       image_number(v, i), k,
				       (unsigned long long)from[i].made_ns);
	}
	return 0;
}

static void view_free(struct deferred *d)
{
	free(container_of(d, struct view, gone));
}

/* Each snapshot stays while we look; all of them, or none. */
static int hold(struct warden *w, struct view *v, struct err *e)
{
	int r;

	for (v->held = 0; v->held < v->n; v->held++) {
		const char *snap = v->spec.side[v->held].snap;

		r = snap[0] ? snapshot_hold(w, snap, e) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

static void let_go(struct warden *w, struct view *v)
{
	while (v->held > 0)
		if (v->spec.side[--v->held].snap[0])
			snapshot_release(w, v->spec.side[v->held].snap);
}

static void view_gone(struct worker *k)
{
	struct view *v = container_of(k, struct view, worker);

	let_go(k->w, v);
	list_del(&v->node);
	k->w->n_views--;
	loop_defer(&k->w->loop, &v->gone, view_free);
}

int view_start(struct warden *w, const struct view_spec *spec,
	       const struct conn *owner, int fds[2], struct err *e)
{
	struct worker_spec s = { .mode = "view",
				 .program_fd = w->worker_fd,
				 .open = open_views,
				 .fail = say_failed };
	struct view *v;
	int r;

	if (w->n_views >= VIEWS_MAX)
		return err_set(e, EAGAIN,
			       "%d workers look at disks already: try again "
			       "when one has ended",
			       VIEWS_MAX);
	v = xcalloc(1, sizeof(*v));
	v->spec = *spec;
	v->n = count_sides(spec);
	v->owner = owner;
	v->worker.w = w;
	v->worker.gone = view_gone;
	s.arg = v->arg;
	s.owner = v;
	r = hold(w, v, e);
	if (r == 0)
		r = describe(w, v, e);
	if (r == 0)
		r = worker_start(&v->worker, &s, fds, e);
	if (r < 0) {
		let_go(w, v);
		free(v);
		return r;
	}
	list_add(&w->views, &v->node);
	w->n_views++;
	return 0;
}

void views_orphan(struct warden *w, const struct conn *owner)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, &w->views) {
		struct view *v = container_of(pos, struct view, node);

		if (v->owner == owner)
			worker_stop(&v->worker);
	}
}

bool view_uses_image(const struct warden *w, const char *id)
{
	struct list *pos;
	unsigned i;

	for (pos = w->views.next; pos != &w->views; pos = pos->next) {
		const struct view *v = container_of(pos, struct view, node);

		for (i = 0; i < v->n; i++)
			if (strcmp(v->spec.side[i].image, id) == 0)
				return true;
	}
	return false;
}
