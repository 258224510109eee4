/*
 * What the two drivers of the pool differ in. A "tree" is the directory that
 * carries a limit: a subvolume, or a directory with a project id. Everything
 * else (names, trash, order of steps) is the same for both and in store.c.
 * Internal to src/store/.
 */
#pragma once

#include "store/store.h"

struct store_ops {
	const char *name;
	/* Turns limits on if it can: disk_limit, next_family and the like. */
	int (*start)(struct store *s, struct err *e);
	/* An empty tree `name`; `bytes` 0 sets no limit. */
	int (*make)(struct store *s, int dir_fd, const char *name,
		    uint64_t bytes, struct err *e);
	int (*limit)(struct store *s, int tree_fd, uint64_t bytes,
		     struct err *e);
	int (*usage)(struct store *s, int tree_fd, uint64_t *bytes,
		     struct err *e);
	/* Nobody shall write to it any more. */
	int (*seal)(int tree_fd, struct err *e);
	/* 1: destroyed; 0: not one to be destroyed whole; or -errno. */
	int (*destroy)(int dir_fd, const char *name);
	/* Limits of trees that are gone: 0, 1 (some remain) or -errno. */
	int (*sweep)(struct store *s, struct err *e);
};

extern const struct store_ops store_btrfs, store_dir;

/* Empties trash/: 0, 1 when another sweep is at it, or -errno. */
int sweep_trash(struct store *s, struct err *e) MUST_CHECK;

/* pool.c: mounts the pool; its root, and which driver serves it. */
int pool_open(const struct conf *c, const struct store_ops **ops,
	      struct err *e) MUST_CHECK;
int pool_close(const struct conf *c, struct err *e) MUST_CHECK;
/* After pool_close(): removes the file or directory that pool_open() made. */
int pool_remove(const struct conf *c, struct err *e) MUST_CHECK;
/* Not a directory of the user's own. */
bool pool_is_ours(const struct conf *c);
/* Ours, and its file is there: goes with the file. */
bool pool_has_file(const struct conf *c);
