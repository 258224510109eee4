/*
 * Goes through the trees of several sides at once, name by name in the order
 * of bytes, so that entries of the same path meet and no more is in memory
 * than the names of the directories on the way down. No recursion, a bounded
 * number of descriptors however deep a tree is; links are never followed.
 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "base/err.h"
#include "worker/look.h"

struct walk;

struct walk_entry {
	enum file_type type; /* FILE_NONE: there is none */
	struct statx sx;
};

/* A path, and what each side has there. */
struct visit {
	const char *path, *name; /* absolute; its last component */
	/* The directories that hold it; -1: not on this side. */
	int dir_fd[VIEW_SIDES];
	int upper_fd[VIEW_SIDES]; /* -1: not in what the sandbox wrote */
	struct walk_entry at[VIEW_SIDES];
	/* There is something of that name in what the sandbox wrote; and it is
	 * the entry itself, which is then looked at there, at less cost. */
	bool in_upper[VIEW_SIDES], is_upper[VIEW_SIDES];
	unsigned above; /* `below` of the directory that holds it */
	unsigned below; /* the visitor's own, for what is in it */
};

struct walk_ops {
	/* 1: visit what is in its directories, too; 0: not; or an error. */
	int (*enter)(struct walk *w, struct visit *v, struct err *e);
	/* After all that is in it, when `enter` has returned 1; may be NULL.
	 * `below` as the visits below left it. */
	int (*leave)(struct walk *w, struct visit *v, struct err *e);
};

struct walk_level;

struct walk {
	struct look *l;
	unsigned n; /* sides that are walked, from 0 */
	const struct walk_ops *ops;
	void *arg; /* of the ops */
	struct walk_level *top;
	unsigned depth;
	size_t held; /* bytes of names */
	char path[FILE_PATH_MAX + 1];
};

/* Below the paths that were asked for, or all. */
int walk_asked(struct walk *w, struct err *e) MUST_CHECK;
/* `below` of the directory that holds what is being visited. */
unsigned *walk_above(struct walk *w);

/* The entry as records have it; `target` takes FILE_PATH_MAX + 1 bytes. */
int walk_describe(const struct visit *v, unsigned side, char *target,
		  struct file_entry *out, struct err *e) MUST_CHECK;
/* The directory to find it in by its name. */
int walk_dir(const struct visit *v, unsigned side);
/* Opens the regular file or directory of a side: descriptor or -errno. */
int walk_open(const struct visit *v, unsigned side);
