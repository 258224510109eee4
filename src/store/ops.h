/*
 * What the two drivers of the pool differ in. A "tree" is the directory that
 * carries a limit: a subvolume, or a directory with a project id. Everything
 * else (names, trash, order of steps) is the same for both and in store.c.
 * Internal to src/store/.
 */
#pragma once

#include "store/store.h"

enum { REL_PATH = 64 };

/* Which limit a copy of a tree is under. */
struct clone_how {
	/* Joins the family of this tree; -1: a new one, of number `family`
	 * and with the limit `bytes`; `made`: by family() already. */
	int like_fd;
	uint64_t family, bytes;
	bool made;
	bool read_only;
	/* A note that is written before: whose disk it is; NULL: none. */
	const char *of;
};

struct store_ops {
	const char *name;
	bool instant; /* a copy costs the same whatever is in the tree */
	/* Turns limits on if it can: disk_limit, next_family and the like. */
	int (*start)(struct store *s, struct err *e);
	/* An empty tree `name`; `bytes` 0 sets no limit. */
	int (*make)(struct store *s, int dir_fd, const char *name,
		    uint64_t bytes, struct err *e);
	int (*family)(struct store *s, uint64_t family, struct err *e);
	/*
	 * A copy `name` of the tree `from_fd`, on disk when this returns; the
	 * name is there when the copy is complete.
	 */
	int (*clone)(struct store *s, int from_fd, int dir_fd, const char *name,
		     const struct clone_how *how, struct err *e);
	int (*limit)(struct store *s, int tree_fd, uint64_t bytes,
		     struct err *e);
	int (*usage)(struct store *s, int tree_fd, uint64_t *bytes,
		     struct err *e);
	/* Waits, for a while, until what was destroyed of the tree's family
	 * does not count any more. */
	void (*settle)(struct store *s, int tree_fd);
	/* Nobody shall write to it any more. */
	int (*seal)(int tree_fd, struct err *e);
	/* Takes seal() back, as far as possible: the tree is to be emptied. */
	void (*unseal)(int tree_fd);
	/* 1: destroyed; 0: not one to be destroyed whole; or -errno, which is
	 * ENOTEMPTY while other trees are nested in it. */
	int (*destroy)(int dir_fd, const char *name);
	/* Limits of trees that are gone: 0, 1 (some remain) or -errno. */
	int (*sweep)(struct store *s, struct err *e);
};

extern const struct store_ops store_btrfs, store_dir;

/* store.c, for the parts that have files of their own. */
void rel_path(char out[REL_PATH], const char *part, const char *id);
/* part/ID, made if `make`: to make a tree in. */
int tree_dir(struct store *s, const char *part, const char *id, bool make,
	     struct err *e) MUST_CHECK;
/* part/ID/tree, empty and under a limit: an O_PATH descriptor. Leaves what it
 * made to a discard. */
int tree_make(struct store *s, const char *part, const char *id, uint64_t bytes,
	      struct err *e) MUST_CHECK;
int tree_open(struct store *s, const char *part, const char *id, int flags,
	      struct err *e) MUST_CHECK;
/* A rename into trash/: 0 or -errno. */
int tree_discard(struct store *s, const char *part, const char *id);
/* Smallest valid id above `after`: 0, or -ENOENT when the whole directory was
 * read and has none. Any other -errno means that the list is not known. */
int tree_next(struct store *s, const char *part, const char *after,
	      char id[ID_CAP]) MUST_CHECK;
/*
 * Discards the entries of part/ for which `keep` returns 0. An unreadable list
 * and a -errno of `keep` are errors: an entry stays unless `keep` returned 0.
 */
int discard_unless(struct store *s, const char *part,
		   int (*keep)(struct store *s, const char *id),
		   struct err *e) MUST_CHECK;
/* Empties work/ of dir_fd/tree, a copy of the volume of a sandbox that ran. */
int tree_fresh_work(struct store *s, int dir_fd, struct err *e) MUST_CHECK;
/* ENOSPC when the pool is too full; else what may still be used. */
int pool_check_free(struct store *s, uint64_t *usable,
		    struct err *e) MUST_CHECK;
/* Can this pool limit, or may it do without? */
int pool_check_limit(struct store *s, bool allow_unlimited,
		     struct err *e) MUST_CHECK;

/*
 * A word about a tree, beside it in part/ID/: the target of a link, so that it
 * is there whole or not at all.
 */
int note_write(int dir_fd, const char *name, const char *text,
	       struct err *e) MUST_CHECK;
/* The length, or -errno. */
int note_read(int dir_fd, const char *name, char *text, size_t cap) MUST_CHECK;

/* Removes `name` in `dir_fd` and all that is in it: 0 or -errno. */
int sweep_dir(const struct store_ops *ops, int dir_fd,
	      const char *name) MUST_CHECK;
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
