/*
 * The pool: where images and the sandboxes' volumes live. One public face,
 * two drivers behind it (`struct store_ops`): btrfs, and a plain directory for
 * hosts without it.
 *
 * Layout, everything relative to one directory descriptor:
 *
 *	images/ID/tree/	an image (btrfs: a subvolume, read-only)
 *	images/ID/base	the same as a file system in one file, once needed
 *	box/ID/tree/	a sandbox's volume: upper/ and work/ of its overlay
 *	stage/ID/tree/	an image that is being filled
 *	snap/ID/tree/	a snapshot of a sandbox's volume, read-only
 *	copy/ID.N/tree/	copies of a volume for forks that come at once
 *	vol/ID/tree/	a volume that sandboxes are launched with
 *	vm/KEY/tree/	a machine that others start as
 *	trash/...	what waits for store_sweep()
 *
 * Each tree has a directory of its own because destroying a subvolume holds
 * its parent's lock for as long as it takes.
 *
 * Used by the warden only, as root. Ids were checked by the caller with
 * id_valid(). Functions return 0 or a descriptor, or -errno with a message.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/str.h"

struct store_ops;

/* Where the trees are below the pool's root, for who mounts them. */
#define STORE_IMAGE_TREE "images/%s/tree"
#define STORE_VOLUME_TREE "box/%s/tree"
#define STORE_STAGE_TREE "stage/%s/tree"
#define STORE_SNAPSHOT_TREE "snap/%s/tree"
#define STORE_ATTACHED_TREE "vol/%s/tree"

struct store {
	const struct store_ops *ops;
	int root_fd;       /* the pool's root, to read and to ioctl */
	int usage_fd;      /* driver's own: live usage figures, or -1 */
	bool disk_limit;   /* limits are enforced */
	bool simple_quota; /* by simple quotas (else classic qgroups) */
	/* Driver's own: next level-1 group or project. */
	uint64_t next_family;
	/* Numbers that were promised to children, see store_reserve(). */
	unsigned n_reserved;
	uint64_t first_reserved;
};

struct store_status {
	char driver[16];
	bool disk_limit, simple_quota, read_only;
	uint64_t bytes, free_bytes;
};

/*
 * Opens the pool that the configuration names, making and mounting it when it
 * is not there: state_dir/pool.img on a loop device (direct I/O), or the
 * directory that `pool` names. Mounted nosuid,nodev,noexec at
 * state_dir/pool.d/mnt, where pool.d is 0700; noexec does not reach through an
 * overlay: programs of an image run. Called once at start-up, before the
 * warden locks itself in; may run mkfs.btrfs. Safe to call again after a
 * crash: finds the loop device and the mount that are there.
 *
 * A mount can be cloned only in its own mount namespace, and root_fd lies on
 * one of the caller's. Who moves to a new namespace takes a clone along and
 * opens root_fd anew on it; nothing else in `s` depends on the namespace.
 */
int store_open(struct store *s, const struct conf *c, struct err *e) MUST_CHECK;
/* Closes the descriptors; the pool stays mounted. */
void store_done(struct store *s);
/* Unmounts what store_open() mounted; the loop device goes with the last
 * user of the pool. For tests and uninstall. */
int store_close(const struct conf *c, struct err *e) MUST_CHECK;
/* store_close(), then removes the pool with all that is in it. An existing
 * directory that `pool` names is emptied of our four directories only. */
int store_destroy(const struct conf *c, struct err *e) MUST_CHECK;

/*
 * A new volume with upper/ (0755, 0:0) and work/ (0700), at most `bytes` large.
 * ENOSPC below 10 % free; ENOTSUP when limits cannot be enforced, unless
 * `allow_unlimited`. Returns an O_PATH descriptor of the tree.
 */
int store_volume_new(struct store *s, const char *id, uint64_t bytes,
		     bool allow_unlimited, struct err *e) MUST_CHECK;
int store_volume_open(struct store *s, const char *id,
		      struct err *e) MUST_CHECK;
/* Out of the way at once (a rename); store_sweep() does the rest. ENOENT when
 * there is none. */
int store_volume_discard(struct store *s, const char *id,
			 struct err *e) MUST_CHECK;
int store_volume_usage(struct store *s, const char *id, uint64_t *bytes,
		       struct err *e) MUST_CHECK;
/* Changes the limit (a volume made ahead learns what it is for). */
int store_volume_limit(struct store *s, const char *id, uint64_t bytes,
		       struct err *e) MUST_CHECK;
/*
 * The volume with the smallest id above `after`: 0, or -ENOENT at the end. Any
 * other -errno, of this and of all functions of this kind, means that the list
 * could not be read: nothing may be taken for gone.
 */
int store_volume_next(struct store *s, const char *after,
		      char id[ID_CAP]) MUST_CHECK;

/*
 * Copies take as long as the disk takes to write what is dirty (a commit):
 * they are made in a child, which gets the number of the quota group that it
 * may make from the process that makes the volumes. The sweep leaves alone
 * what is reserved. All reservations are of this process; each is released
 * once, when the child has ended.
 */
uint64_t store_reserve(struct store *s, unsigned n);
void store_release(struct store *s);

/*
 * Snapshots: read-only copies of a sandbox's volume, on disk when this
 * returns. They count in the limit of the volume. `tree_fd` is the volume
 * of the sandbox `of`, opened to read: it may be discarded meanwhile.
 */
int store_snapshot_new(struct store *s, const char *id, const char *of,
		       int tree_fd, struct err *e) MUST_CHECK;
/* O_PATH descriptor of its tree. */
int store_snapshot_open(struct store *s, const char *id,
			struct err *e) MUST_CHECK;
int store_snapshot_discard(struct store *s, const char *id,
			   struct err *e) MUST_CHECK;
int store_snapshot_next(struct store *s, const char *after,
			char id[ID_CAP]) MUST_CHECK;
/* Discards what a crash left of snapshots that were not finished. */
int store_snapshot_clear(struct store *s, struct err *e) MUST_CHECK;
/*
 * A volume that starts as the snapshot `snap`, at most `bytes` large. Where
 * snapshots of the sandbox `id` exist, it counts together with them; else it
 * is a family of its own, of the number `family` (reserved).
 */
struct disk_spec {
	const char *id;
	uint64_t bytes;
	bool allow_unlimited; /* where limits cannot be enforced */
};
int store_volume_from(struct store *s, const struct disk_spec *d,
		      const char *snap, uint64_t family,
		      struct err *e) MUST_CHECK;
/*
 * Copies that are made ahead, for launches from the snapshot `snap` that come
 * at once: all of them together with the snapshot, in one wait for the disk.
 * First the place (and the family, a reserved number), then, as soon as the
 * disk stands still, the copy, then what it needs to become a volume.
 */
bool store_copies_pay(const struct store *s);
int store_copy_place(struct store *s, const char *snap, unsigned n,
		     uint64_t family, struct err *e) MUST_CHECK;
int store_copy_fill(struct store *s, int place_fd, int tree_fd, uint64_t family,
		    struct err *e) MUST_CHECK;
int store_copy_finish(struct store *s, int place_fd, struct err *e) MUST_CHECK;
/* The copy becomes a volume. */
int store_copy_take(struct store *s, const char *snap, unsigned n,
		    const struct disk_spec *d, struct err *e) MUST_CHECK;
void store_copy_discard(struct store *s, const char *snap, unsigned n);
/* Discards all. */
int store_copy_clear(struct store *s, struct err *e) MUST_CHECK;

/*
 * A volume that shall outlive its sandbox: marked once it is there, and kept
 * (as the snapshot of the sandbox's id, in place of one that is there) when it
 * is found that the sandbox has ended. ENOENT: it was not marked.
 */
int store_volume_mark(struct store *s, const char *id,
		      struct err *e) MUST_CHECK;
/* 1 or 0, or -errno: not known. */
int store_volume_marked(struct store *s, const char *id,
			struct err *e) MUST_CHECK;
int store_volume_keep(struct store *s, const char *id,
		      struct err *e) MUST_CHECK;
/*
 * Description of the sandbox of a snapshot or of a marked volume: a line of
 * text, so that a snapshot can be used without its row in the database.
 */
enum { STORE_ABOUT_CAP = 256 };
int store_snapshot_describe(struct store *s, const char *id, const char *about,
			    struct err *e) MUST_CHECK;
int store_volume_describe(struct store *s, const char *id, const char *about,
			  struct err *e) MUST_CHECK;
/* Reads the sandbox's id and the description of a snapshot. ENOENT: the
 * snapshot has no description. */
int store_snapshot_about(struct store *s, const char *id, char of[ID_CAP],
			 char about[STORE_ABOUT_CAP]) MUST_CHECK;
/* For who copies it, or keeps it while it is discarded: opened to read. */
int store_volume_read(struct store *s, const char *id,
		      struct err *e) MUST_CHECK;

/*
 * Volumes that sandboxes are launched with: empty at first, the tree is
 * `owner`'s, at most `bytes` large.
 */
int store_attached_new(struct store *s, const char *id, uint64_t bytes,
		       bool allow_unlimited, uid_t owner,
		       struct err *e) MUST_CHECK;
int store_attached_open(struct store *s, const char *id,
			struct err *e) MUST_CHECK;
int store_attached_discard(struct store *s, const char *id,
			   struct err *e) MUST_CHECK;
int store_attached_next(struct store *s, const char *after, char id[ID_CAP],
			uint64_t *bytes) MUST_CHECK;
/* Discards what a crash left of volumes that were not finished. */
int store_attached_clear(struct store *s, struct err *e) MUST_CHECK;

/*
 * An empty directory (0755, 0:0) under stage/; returns an O_PATH descriptor.
 * Where limits are enforced it can never take the pool below 10 % free.
 */
int store_image_stage(struct store *s, const char *id,
		      struct err *e) MUST_CHECK;
/* The same, as a writable copy of the image `base`; `family` is reserved. */
int store_image_stage_from(struct store *s, const char *id, const char *base,
			   uint64_t family, struct err *e) MUST_CHECK;
/* stage/ID becomes images/ID, read-only, on disk before this returns: it
 * writes out what is dirty, which takes seconds for a large image, so it may
 * be called in a child. */
int store_image_commit(struct store *s, const char *id,
		       struct err *e) MUST_CHECK;
/* O_PATH descriptor of a committed image. */
int store_image_open(struct store *s, const char *id, struct err *e) MUST_CHECK;
/* Staged or committed; ENOENT when neither. The caller knows that no sandbox
 * uses it. */
int store_image_discard(struct store *s, const char *id,
			struct err *e) MUST_CHECK;
int store_image_next(struct store *s, const char *after,
		     char id[ID_CAP]) MUST_CHECK;
/*
 * The base of an image, a file beside its tree: an empty one to write to, and
 * how large it may get; it is kept under its name, on disk before this returns
 * (may be called in a child); or what was written is removed. It goes with the
 * image.
 */
int store_base_new(struct store *s, const char *id, uint64_t *room,
		   struct err *e) MUST_CHECK;
int store_base_commit(struct store *s, const char *id,
		      struct err *e) MUST_CHECK;
void store_base_drop(struct store *s, const char *id);
/* To read; ENOENT when there is none. */
int store_base_open(struct store *s, const char *id, struct err *e) MUST_CHECK;
/* Removes what a crash left of bases that were not finished. */
int store_base_clear(struct store *s, struct err *e) MUST_CHECK;
/*
 * Templates of machines. An empty tree to put them into (an O_PATH
 * descriptor), in place of one that is there; it is one from the commit on,
 * which says what it is of. May be called in a child.
 */
enum { STORE_OF_CAP = 64 };
int store_template_new(struct store *s, const char *key,
		       struct err *e) MUST_CHECK;
int store_template_commit(struct store *s, const char *key, const char *of,
			  struct err *e) MUST_CHECK;
/* O_PATH descriptor of its tree. */
int store_template_open(struct store *s, const char *key,
			struct err *e) MUST_CHECK;
/* It was used just now. */
void store_template_use(struct store *s, const char *key);
int store_template_discard(struct store *s, const char *key,
			   struct err *e) MUST_CHECK;
struct store_template {
	char key[ID_CAP];
	char of[STORE_OF_CAP];
	uint64_t used_s; /* since 1970 */
};
/* The one with the smallest key above `after`: 0, or -ENOENT at the end. */
int store_template_next(struct store *s, const char *after,
			struct store_template *out) MUST_CHECK;
/* Discards what a crash left of templates that were not finished. */
int store_template_clear(struct store *s, struct err *e) MUST_CHECK;
/* Empties stage/ of what a crash left. */
int store_stage_clear(struct store *s, struct err *e) MUST_CHECK;

/*
 * Identity of the pool: a note in its root that pairs the pool with the
 * database of the api. `id` "": the pool has none. `contents`: there is at
 * least one image, snapshot or volume.
 */
enum { STORE_ID_CAP = 33 };
int store_identity_read(struct store *s, char id[STORE_ID_CAP],
			uint64_t *generation, struct err *e) MUST_CHECK;
int store_identity_write(struct store *s, const char *id, uint64_t generation,
			 bool sync, struct err *e) MUST_CHECK;
bool store_has_contents(struct store *s);

int store_status(struct store *s, struct store_status *out,
		 struct err *e) MUST_CHECK;

/*
 * Destroys what is in trash/ and stale quota groups. Takes as long as it
 * takes: run in a child, forked by the process that makes the volumes while no
 * store call of its own is under way (the child goes by s->next_family to
 * leave alone what is made meanwhile). May be killed at any time, may run
 * while volumes are made and discarded; a second one at the same time does
 * nothing. Never crosses into another mount, follows no link, needs no more
 * descriptors or stack for deep trees.
 *
 * Returns 0, or 1 when something is left for a later sweep: another sweep is
 * at work, or quota groups wait for the kernel to finish freeing (btrfs: its
 * next commit, within 30 s). Call again then, a minute later.
 */
int store_sweep(struct store *s, struct err *e) MUST_CHECK;
