/*
 * inotify over a tree. Each watched directory knows its parent and its name,
 * so that a path is put together when it is told, and a directory that moves
 * takes its tree along by a change of one entry.
 *
 * A directory that appears is watched and then looked into: what got into it
 * before the watch is told as created, and as written when it has content. What
 * happens in that moment may be told twice, never not at all. When the kernel's
 * queue overflows, or a directory is one too many to be watched, that is an
 * event, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/file/file.h"
#include "base/auto.h"

enum {
	WATCHES_MAX = 8192,
	EVENT_BYTES = 64 * 1024,
	PAIR_MS = 10, /* the other half of a rename comes at once or never */
	MASK = IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |
	       IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF,
};

/* Slot 0 is what was asked for. */
struct watched {
	int wd;     /* -1: the slot is free */
	int parent; /* slot */
	char *name;
};

struct watcher {
	int fd;
	bool recursive, detail;
	struct watched *v; /* WATCHES_MAX of them */
	int n;             /* that were used */
	const char *path;  /* what was asked for */
	const char *top;   /* as it is told */
	dev_t dev;
	ino_t ino;
	/* A rename's first half, whose second has not come. */
	bool moved;
	uint32_t cookie;
	int moved_slot, moved_wd;
	bool moved_dir;
	char moved_name[NAME_MAX + 1];
	/* What was told last: the same once more says nothing. */
	enum file_event last;
	struct buf last_path;
};

static int by_wd(const struct watcher *w, int wd)
{
	int i;

	for (i = 0; i < w->n; i++)
		if (w->v[i].wd == wd)
			return i;
	return -1;
}

static int child_of(const struct watcher *w, int parent, const char *name)
{
	int i;

	for (i = 1; i < w->n; i++)
		if (w->v[i].wd >= 0 && w->v[i].parent == parent &&
		    strcmp(w->v[i].name, name) == 0)
			return i;
	return -1;
}

/* "a/b" below the top; "." for the top itself. */
static void path_below(const struct watcher *w, int slot, struct buf *b)
{
	if (slot == 0) {
		buf_puts(b, ".");
		return;
	}
	path_below(w, w->v[slot].parent, b);
	path_push(b, w->v[slot].name);
}

/* The path as it is told; false when it is too long to be. */
static bool path_told(const struct watcher *w, int slot, const char *name,
		      struct buf *b)
{
	struct buf below = { 0 };

	path_below(w, slot, &below);
	buf_puts(b, w->top);
	if (buf_len(&below) > 1)
		path_push(b, buf_str(&below) + 2);
	if (*name)
		path_push(b, name);
	buf_str(b);
	buf_done(&below);
	return buf_len(b) <= FILE_PATH_MAX;
}

/* What it is about; one that is not there any more is left out. */
static void tell_entry(enum file_event what, const char *path)
{
	struct err own = { 0 };

	if (what != EVENT_REMOVE && what != EVENT_OVERFLOW &&
	    out_entry(AT_FDCWD, path, path, false, &own) < 0)
		return;
}

static int tell_path(struct watcher *w, enum file_event what, bool dir,
		     const char *path, const char *to, struct err *e)
{
	struct file_record r = {
		.kind = FILE_EVENT,
		.event = { what, dir ? FILE_DIRECTORY : FILE_NONE, path, to },
	};

	if (what == w->last && what == EVENT_WRITE && buf_len(&w->last_path) &&
	    strcmp(buf_str(&w->last_path), path) == 0)
		return 0;
	w->last = what;
	buf_clear(&w->last_path);
	buf_puts(&w->last_path, path);
	if (w->detail)
		tell_entry(what, *to ? to : path);
	return out_record(&r, e);
}

static int tell(struct watcher *w, enum file_event what, bool dir, int slot,
		const char *name, struct err *e)
{
	struct buf path = { 0 };
	int r = 0;

	if (path_told(w, slot, name, &path))
		r = tell_path(w, what, dir, buf_data(&path), "", e);
	buf_done(&path);
	return r;
}

static bool is_within(const struct watcher *w, int slot, int top)
{
	while (slot != top && slot != 0)
		slot = w->v[slot].parent;
	return slot == top;
}

/* A slot with this directory, never through a link; -errno. */
static int add_slot(struct watcher *w, int parent, const char *name, int fd)
{
	char self[32];
	int i, wd;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	wd = inotify_add_watch(w->fd, self, MASK | IN_EXCL_UNLINK);
	if (wd < 0)
		return -errno;
	i = by_wd(w, wd);
	/* It has moved since, and events that we have not read yet say how. */
	if (i >= 0 && is_within(w, parent, i))
		return i;
	if (i < 0)
		i = by_wd(w, -1);
	if (i < 0) {
		if (w->n == WATCHES_MAX) {
			inotify_rm_watch(w->fd, wd);
			return -ENOSPC;
		}
		i = w->n++;
	}
	free(w->v[i].name);
	w->v[i] = (struct watched){ wd, parent, xstrdup(name) };
	return i;
}

static void drop_slot(struct watcher *w, int slot)
{
	w->v[slot].wd = -1;
	free(w->v[slot].name);
	w->v[slot].name = NULL;
}

/* A directory left the tree, and with it what is in it. */
static void drop_tree(struct watcher *w, int slot)
{
	int i;

	for (i = w->n - 1; i > 0; i--)
		if (i != slot && w->v[i].wd >= 0 && is_within(w, i, slot)) {
			inotify_rm_watch(w->fd, w->v[i].wd);
			w->v[i].wd = -2; /* free, when all are found */
		}
	for (i = 1; i < w->n; i++)
		if (w->v[i].wd == -2)
			drop_slot(w, i);
	inotify_rm_watch(w->fd, w->v[slot].wd);
	drop_slot(w, slot);
}

/*
 * The top is opened each time: as long as it is open, the kernel does not tell
 * that it was removed.
 */
static int open_top(const struct watcher *w)
{
	AUTO_CLOSE int fd = open(w->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_dev != w->dev || st.st_ino != w->ino)
		return -ENOENT;
	return take_fd(&fd);
}

static int open_below(const struct watcher *w, int slot, const char *name,
		      int flags)
{
	struct open_how how = {
		.flags = (uint64_t)flags | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
			   RESOLVE_NO_MAGICLINKS,
	};
	AUTO_CLOSE int top = open_top(w);
	AUTO(buf_done) struct buf path = { 0 };
	long fd;

	if (top < 0)
		return top;
	path_below(w, slot, &path);
	path_push(&path, name);
	fd = syscall(SYS_openat2, top, buf_data(&path), &how, sizeof(how));
	return fd < 0 ? -errno : (int)fd;
}

static int watch_dir(struct watcher *w, int parent, const char *name, bool told,
		     unsigned depth, struct err *e);

/* What is in a directory that is now watched; takes the descriptor over. */
static int look_into(struct watcher *w, int slot, int fd, bool told,
		     unsigned depth, struct err *e)
{
	AUTO_DIR DIR *d = dir_stream(fd);
	const char *name;
	int r = 0;

	while (r == 0 && d && (name = dir_next(d))) {
		struct stat st;
		bool dir;

		if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		dir = S_ISDIR(st.st_mode);
		if (told)
			r = tell(w, EVENT_CREATE, dir, slot, name, e);
		if (told && r == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
			r = tell(w, EVENT_WRITE, false, slot, name, e);
		if (r == 0 && dir)
			r = watch_dir(w, slot, name, told, depth + 1, e);
	}
	return r;
}

/* `told`: what is in it is new. One that is gone already does not matter. */
static int watch_dir(struct watcher *w, int parent, const char *name, bool told,
		     unsigned depth, struct err *e)
{
	int fd = open_below(w, parent, name, O_RDONLY | O_DIRECTORY), slot;

	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
		return 0;
	slot = fd < 0                    ? fd
	       : depth >= TREE_DEPTH_MAX ? -ENOSPC
					 : add_slot(w, parent, name, fd);
	if (slot >= 0)
		return look_into(w, slot, fd, told, depth, e);
	auto_close(&fd);
	return tell(w, EVENT_UNWATCHED, true, parent, name, e);
}

/* The other half did not come: it left the tree. */
static int settle_move(struct watcher *w, struct err *e)
{
	int sub;

	if (!w->moved)
		return 0;
	w->moved = false;
	if (w->v[w->moved_slot].wd != w->moved_wd)
		return 0;
	sub = child_of(w, w->moved_slot, w->moved_name);
	if (sub >= 0)
		drop_tree(w, sub);
	return tell(w, EVENT_REMOVE, w->moved_dir, w->moved_slot, w->moved_name,
		    e);
}

static int on_moved_from(struct watcher *w, int slot,
			 const struct inotify_event *ev, struct err *e)
{
	int r = settle_move(w, e);

	w->moved = true;
	w->cookie = ev->cookie;
	w->moved_slot = slot;
	w->moved_wd = ev->wd;
	w->moved_dir = ev->mask & IN_ISDIR;
	snprintf(w->moved_name, sizeof(w->moved_name), "%s", ev->name);
	return r;
}

static int on_created(struct watcher *w, int slot,
		      const struct inotify_event *ev, struct err *e)
{
	bool dir = ev->mask & IN_ISDIR;
	int r = tell(w, EVENT_CREATE, dir, slot, ev->name, e);

	if (r == 0 && dir && w->recursive)
		r = watch_dir(w, slot, ev->name, true, 0, e);
	return r;
}

static int on_moved_to(struct watcher *w, int slot,
		       const struct inotify_event *ev, struct err *e)
{
	struct buf from = { 0 }, to = { 0 };
	int sub, r = 0;

	if (!w->moved || w->cookie != ev->cookie ||
	    w->v[w->moved_slot].wd != w->moved_wd) {
		r = settle_move(w, e);
		return r < 0 ? r : on_created(w, slot, ev, e);
	}
	w->moved = false;
	if (path_told(w, w->moved_slot, w->moved_name, &from) &&
	    path_told(w, slot, ev->name, &to))
		r = tell_path(w, EVENT_RENAME, ev->mask & IN_ISDIR,
			      buf_data(&from), buf_data(&to), e);
	sub = child_of(w, w->moved_slot, w->moved_name);
	if (sub >= 0 && !is_within(w, slot, sub)) {
		/* An empty directory of that name gave way to it. */
		int old = child_of(w, slot, ev->name);

		if (old >= 0 && old != sub)
			drop_tree(w, old);
		free(w->v[sub].name);
		w->v[sub].name = xstrdup(ev->name);
		w->v[sub].parent = slot;
	}
	buf_done(&from);
	buf_done(&to);
	return r;
}

/* 1: what was asked for is gone, and so is the reason to go on. */
static int on_self(struct watcher *w, int slot, const struct inotify_event *ev,
		   struct err *e)
{
	int r;

	/* A directory below is told by its parent. */
	if (slot != 0)
		return 0;
	if (ev->mask & (IN_DELETE_SELF | IN_MOVE_SELF)) {
		r = tell(w, EVENT_REMOVE, false, 0, "", e);
		return r < 0 ? r : 1;
	}
	if (ev->mask & IN_MODIFY)
		return tell(w, EVENT_WRITE, false, 0, "", e);
	if (ev->mask & IN_ATTRIB)
		return tell(w, EVENT_CHMOD, ev->mask & IN_ISDIR, 0, "", e);
	return 0;
}

/*
 * A file without a name (O_TMPFILE) has one for the kernel, "#" and its
 * number, under which changes of its mode are told.
 */
static bool is_nameless(const struct watcher *w, int slot, const char *name)
{
	AUTO_CLOSE int fd = -1;

	if (name[0] != '#' || name[1 + strspn(name + 1, "0123456789")] != '\0')
		return false;
	fd = open_below(w, slot, name, O_PATH);
	return fd < 0;
}

static int on_event(struct watcher *w, const struct inotify_event *ev,
		    struct err *e)
{
	int slot = by_wd(w, ev->wd);
	bool dir = ev->mask & IN_ISDIR;

	if (ev->mask & IN_Q_OVERFLOW)
		return tell(w, EVENT_OVERFLOW, false, 0, "", e);
	if (ev->wd < 0 || slot < 0)
		return 0;
	if (ev->mask & IN_IGNORED) {
		if (slot == 0)
			return 1;
		drop_tree(w, slot);
		return 0;
	}
	if (ev->len == 0)
		return on_self(w, slot, ev, e);
	/* One that becomes another's is told as made, when it does. */
	if (fresh_is_temp(ev->name))
		return 0;
	if (ev->mask & IN_MOVED_FROM)
		return on_moved_from(w, slot, ev, e);
	if (ev->mask & IN_MOVED_TO)
		return on_moved_to(w, slot, ev, e);
	if (ev->mask & IN_CREATE)
		return on_created(w, slot, ev, e);
	if (ev->mask & IN_DELETE)
		return tell(w, EVENT_REMOVE, dir, slot, ev->name, e);
	if (ev->mask & IN_ATTRIB && is_nameless(w, slot, ev->name))
		return 0;
	/* The attributes of a directory below are told by its parent. */
	return tell(w, ev->mask & IN_MODIFY ? EVENT_WRITE : EVENT_CHMOD, dir,
		    slot, ev->name, e);
}

static int take_events(struct watcher *w, struct err *e)
{
	static char bytes[EVENT_BYTES]
		__attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t n = read(w->fd, bytes, sizeof(bytes)), at = 0;
	int r = 0;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0)
		return err_sys(e, "read events of %.160s", w->top);
	while (at < n && r == 0) {
		const struct inotify_event *ev = (const void *)(bytes + at);

		r = on_event(w, ev, e);
		at += (ssize_t)(sizeof(*ev) + ev->len);
	}
	return r;
}

static int run(struct watcher *w, struct err *e)
{
	struct pollfd in = { .fd = w->fd, .events = POLLIN };
	int r = 0, n;

	while (r == 0) {
		n = poll(&in, 1, w->moved ? PAIR_MS : -1);
		if (n < 0 && errno != EINTR)
			return err_sys(e, "wait for events");
		r = n > 0 ? take_events(w, e) : settle_move(w, e);
		if (r >= 0 && out_flush(e) < 0)
			return -e->code;
		/* Told by now; the same may happen again. */
		buf_clear(&w->last_path);
	}
	return r < 0 ? r : 0;
}

static int start(struct watcher *w, struct err *e)
{
	AUTO_CLOSE int top = open(w->path, O_PATH | O_CLOEXEC);
	struct stat st;
	int r;

	if (top < 0 || fstat(top, &st) < 0)
		return err_sys(e, "%.160s", w->path);
	w->dev = st.st_dev;
	w->ino = st.st_ino;
	w->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (w->fd < 0)
		return err_sys(e, "watch files");
	r = add_slot(w, 0, "", top);
	if (r < 0) {
		errno = -r;
		return err_sys(e, "watch %.160s", w->path);
	}
	r = 0;
	if (w->recursive && S_ISDIR(st.st_mode)) {
		int fd = open(w->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0)
			return err_sys(e, "%.160s", w->path);
		r = look_into(w, 0, fd, false, 0, e);
	}
	if (r == 0)
		r = tell(w, EVENT_READY, S_ISDIR(st.st_mode), 0, "", e);
	return r < 0 ? r : out_flush(e);
}

int job_watch(const struct file_job *j, struct err *e)
{
	AUTO(buf_done) struct buf shown = { 0 };
	struct watcher w = { .fd = -1,
			     .path = j->path,
			     .recursive = j->recursive,
			     .detail = j->detail };
	int r = path_show(j->path, &shown, e), i;

	if (r < 0)
		return r;
	w.top = buf_data(&shown);
	w.v = xcalloc(WATCHES_MAX, sizeof(*w.v));
	r = start(&w, e);
	if (r == 0)
		r = run(&w, e);
	for (i = 0; i < w.n; i++)
		free(w.v[i].name);
	free(w.v);
	buf_done(&w.last_path);
	auto_close(&w.fd);
	return r;
}
