/*
 * Snapshots, and what starts as a copy of one. snap/ID/ has, beside the tree,
 * the note `of`: whose disk it is a copy of. It is written before the tree is,
 * so a snapshot without it is none.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "store/ops.h"

/* For what a launch itself writes to a disk. */
#define LAUNCH_ROOM (2ULL << 20)

enum { SWEEP_TRIES = 500, SWEEP_STEP_US = 10000 };

static const char part[] = "snap", note_of[] = "of", note_about[] = "about";

int note_write(int dir_fd, const char *name, const char *text, struct err *e)
{
	if (symlinkat(text, dir_fd, name) < 0)
		return err_sys(e, "write the note %s", name);
	return 0;
}

int note_read(int dir_fd, const char *name, char *text, size_t cap)
{
	ssize_t n = readlinkat(dir_fd, name, text, cap - 1);

	if (n < 0)
		return -errno;
	text[n] = '\0';
	return (int)n;
}

/* The tree as the copy of another, in a directory that is made for it. */
static int tree_clone(struct store *s, const char *into, const char *id,
		      int from_fd, const struct clone_how *how, struct err *e)
{
	AUTO_CLOSE int dir_fd = tree_dir(s, into, id, true, e);
	int r;

	if (dir_fd < 0)
		return dir_fd;
	r = how->of ? note_write(dir_fd, note_of, how->of, e) : 0;
	if (r == 0)
		r = s->ops->clone(s, from_fd, dir_fd, "tree", how, e);
	if (r < 0) {
		/* What this cannot take away, a start-up sweep finds. */
		(void)tree_discard(s, into, id);
		return err_wrap(e, "%s/%s", into, id);
	}
	return 0;
}

int store_snapshot_new(struct store *s, const char *id, const char *of,
		       int tree_fd, struct err *e)
{
	const struct clone_how how = { .like_fd = tree_fd,
				       .read_only = true,
				       .of = of };

	return tree_clone(s, part, id, tree_fd, &how, e);
}

int store_snapshot_open(struct store *s, const char *id, struct err *e)
{
	return tree_open(s, part, id, O_PATH, e);
}

int store_snapshot_discard(struct store *s, const char *id, struct err *e)
{
	int r = tree_discard(s, part, id);

	if (r < 0)
		return err_set(e, -r, "discard snapshot %s: %s", id,
			       strerror(-r));
	return 0;
}

/* 1 or 0, or -errno: whether it has a tree is not known. */
static int has_tree(struct store *s, const char *id)
{
	struct err none = { 0 };
	int fd = store_snapshot_open(s, id, &none);

	if (fd >= 0)
		close(fd);
	return fd >= 0 ? 1 : fd == -ENOENT ? 0 : fd;
}

int store_snapshot_next(struct store *s, const char *after, char id[ID_CAP])
{
	int r, whole = 0;

	do {
		r = tree_next(s, part, after, id);
		after = id;
	} while (r == 0 && (whole = has_tree(s, id)) == 0);
	return r < 0 ? r : whole < 0 ? whole : 0;
}

int store_snapshot_clear(struct store *s, struct err *e)
{
	return discard_unless(s, part, has_tree, e);
}

int store_volume_mark(struct store *s, const char *id, struct err *e)
{
	AUTO_CLOSE int dir_fd = tree_dir(s, "box", id, false, e);

	return dir_fd < 0 ? dir_fd : note_write(dir_fd, note_of, id, e);
}

int store_volume_marked(struct store *s, const char *id, struct err *e)
{
	AUTO_CLOSE int dir_fd = tree_dir(s, "box", id, false, e);
	char of[ID_CAP];
	int r;

	if (dir_fd < 0)
		return dir_fd;
	r = note_read(dir_fd, note_of, of, sizeof(of));
	if (r < 0 && r != -ENOENT)
		return err_set(e, -r, "read the mark of volume %s: %s", id,
			       strerror(-r));
	return r >= 0;
}

static int describe(struct store *s, const char *in, const char *id,
		    const char *about, struct err *e)
{
	AUTO_CLOSE int dir_fd = tree_dir(s, in, id, false, e);

	return dir_fd < 0 ? dir_fd : note_write(dir_fd, note_about, about, e);
}

int store_snapshot_describe(struct store *s, const char *id, const char *about,
			    struct err *e)
{
	return describe(s, part, id, about, e);
}

int store_volume_describe(struct store *s, const char *id, const char *about,
			  struct err *e)
{
	return describe(s, "box", id, about, e);
}

int store_snapshot_about(struct store *s, const char *id, char of[ID_CAP],
			 char about[STORE_ABOUT_CAP])
{
	struct err none = { 0 };
	AUTO_CLOSE int dir_fd = tree_dir(s, part, id, false, &none);
	int r = dir_fd < 0 ? dir_fd : note_read(dir_fd, note_of, of, ID_CAP);

	if (r >= 0)
		r = note_read(dir_fd, note_about, about, STORE_ABOUT_CAP);
	return r < 0 ? r : 0;
}

/* With the note in it already, a rename makes it a snapshot. */
int store_volume_keep(struct store *s, const char *id, struct err *e)
{
	AUTO_CLOSE int fd = -1;
	char from[REL_PATH], to[REL_PATH];
	int r = store_volume_marked(s, id, e);

	if (r <= 0)
		return r < 0 ? r
			     : err_set(e, ENOENT, "volume %s is not marked",
				       id);
	fd = tree_open(s, "box", id, O_RDONLY, e);
	if (fd < 0)
		return fd;
	r = s->ops->seal(fd, e);
	if (r < 0)
		return err_wrap(e, "volume %s", id);
	/* The one that it was launched from; it has all of that, and more. */
	r = tree_discard(s, part, id);
	if (r < 0 && r != -ENOENT)
		return err_set(e, -r, "discard snapshot %s: %s", id,
			       strerror(-r));
	rel_path(from, "box", id);
	rel_path(to, part, id);
	if (renameat2(s->root_fd, from, s->root_fd, to, RENAME_NOREPLACE) < 0)
		return err_sys(e, "keep volume %s", id);
	return 0;
}

static bool is_of(struct store *s, const char *snap, const char *id)
{
	struct err none = { 0 };
	AUTO_CLOSE int dir_fd = tree_dir(s, part, snap, false, &none);
	char of[ID_CAP];

	return dir_fd >= 0 &&
	       note_read(dir_fd, note_of, of, sizeof(of)) == ID_LEN &&
	       strcmp(of, id) == 0;
}

/*
 * A snapshot whose family the sandbox's volume belongs to: so its limit holds
 * for all it has, whatever it is rolled back to. -1: there is none.
 */
static int open_relative(struct store *s, const char *id, const char *snap)
{
	struct err none = { 0 };
	char other[ID_CAP] = "";

	if (is_of(s, snap, id))
		return tree_open(s, part, snap, O_RDONLY, &none);
	while (store_snapshot_next(s, other, other) == 0)
		if (is_of(s, other, id))
			return tree_open(s, part, other, O_RDONLY, &none);
	return -1;
}

/* The overlay of a running sandbox leaves marks in work/ that no other may
 * find. */
int tree_fresh_work(struct store *s, int dir_fd, struct err *e)
{
	AUTO_CLOSE int fd =
		openat(dir_fd, "tree",
		       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (fd < 0)
		return err_sys(e, "open a new volume");
	r = sweep_dir(s->ops, fd, "work");
	if (r < 0)
		return err_set(e, -r, "clear work/ of a volume: %s",
			       strerror(-r));
	if (mkdirat(fd, "work", 0700) < 0)
		return err_sys(e, "make work/ of a volume");
	return 0;
}

static int fresh_work(struct store *s, const char *id, struct err *e)
{
	AUTO_CLOSE int dir_fd = tree_dir(s, "box", id, false, e);

	return dir_fd < 0 ? dir_fd : tree_fresh_work(s, dir_fd, e);
}

/*
 * A sandbox that has used up its limit can be rolled back all the same. What
 * it had counts until it is destroyed: where that leaves little, it is waited
 * for. And however much its snapshots keep, a launch can begin.
 */
static int make_room(struct store *s, int like_fd, uint64_t *bytes,
		     struct err *e)
{
	struct err none = { 0 };
	int r, tries = SWEEP_TRIES;
	uint64_t used = 0;

	if (!s->disk_limit)
		return 0;
	r = s->ops->usage(s, like_fd, &used, e);
	if (r == 0 && used + *bytes / 4 > *bytes) {
		/* Another sweep may be at it: it takes a moment. */
		while (sweep_trash(s, &none) == 1 && tries-- > 0)
			usleep(SWEEP_STEP_US);
		s->ops->settle(s, like_fd);
		r = s->ops->usage(s, like_fd, &used, e);
	}
	if (r == 0 && used + LAUNCH_ROOM > *bytes)
		*bytes = used + LAUNCH_ROOM;
	return r;
}

int store_volume_from(struct store *s, const struct disk_spec *d,
		      const char *snap, uint64_t family, struct err *e)
{
	AUTO_CLOSE int from_fd = -1, like_fd = -1;
	struct clone_how how = { .family = family, .bytes = d->bytes };
	uint64_t usable;
	int r = pool_check_limit(s, d->allow_unlimited, e);

	if (r == 0)
		r = pool_check_free(s, &usable, e);
	if (r < 0)
		return r;
	from_fd = tree_open(s, part, snap, O_RDONLY, e);
	if (from_fd < 0)
		return from_fd;
	like_fd = open_relative(s, d->id, snap);
	how.like_fd = like_fd < 0 ? -1 : like_fd;
	r = like_fd < 0 ? 0 : make_room(s, like_fd, &how.bytes, e);
	if (r < 0)
		return r;
	r = tree_clone(s, "box", d->id, from_fd, &how, e);
	if (r == 0)
		r = fresh_work(s, d->id, e);
	if (r < 0 && r != -EEXIST)
		(void)tree_discard(s, "box", d->id);
	return r;
}

int store_image_stage_from(struct store *s, const char *id, const char *base,
			   uint64_t family, struct err *e)
{
	AUTO_CLOSE int from_fd = tree_open(s, "images", base, O_RDONLY, e);
	struct clone_how how = { .like_fd = -1, .family = family };
	int r;

	if (from_fd < 0)
		return from_fd;
	r = pool_check_free(s, &how.bytes, e);
	if (r == 0)
		r = tree_clone(s, "stage", id, from_fd, &how, e);
	return r < 0 ? r : tree_open(s, "stage", id, O_PATH, e);
}
