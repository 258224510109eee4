/*
 * The pool: where images and the sandboxes' volumes live. One public face,
 * two drivers behind it (`struct store_ops`): btrfs, and a plain directory for
 * hosts without it.
 *
 * Layout, everything relative to one directory descriptor:
 *
 *	images/ID/	an image (btrfs: a subvolume, read-only once committed)
 *	box/ID/vol/	a sandbox's volume: upper/ and work/ of its overlay
 *	stage/ID/	an image that is being filled
 *	trash/...	what waits for store_sweep()
 *
 * Used by the warden only, as root. Ids were checked by the caller with
 * id_valid(). Functions return 0 or a descriptor, or -errno with a message.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/str.h"

struct store_ops;

struct store {
	const struct store_ops *ops;
	int root_fd;
	bool disk_limit;      /* limits are enforced */
	bool simple_quota;    /* by simple quotas (else classic qgroups) */
	uint64_t next_family; /* driver's own: next level-1 group or project */
};

struct store_status {
	char driver[16];
	bool disk_limit, simple_quota;
	uint64_t bytes, free_bytes;
};

/*
 * Opens the pool that the configuration names, making and mounting it when it
 * is not there: state_dir/pool.img on a loop device (direct I/O), mounted
 * nosuid,nodev at state_dir/pool, below a 0700 directory. `pool` may instead
 * name an existing directory. Called once at start-up, before the warden locks
 * itself in; may run mkfs.btrfs. Safe to call again after a crash: finds the
 * loop device and the mount that are there.
 */
int store_open(struct store *s, const struct conf *c, struct err *e) MUST_CHECK;
/* Unmounts what store_open() mounted, detaches the loop device. For tests and
 * uninstall; the daemon leaves the pool mounted. */
int store_close(const struct conf *c, struct err *e) MUST_CHECK;

/*
 * A new volume with upper/ (0755, 0:0) and work/ (0700), at most `bytes` large.
 * ENOSPC below 10 % free; ENOTSUP when limits cannot be enforced, unless
 * `allow_unlimited`. Returns an O_PATH descriptor of vol/.
 */
int store_volume_new(struct store *s, const char *id, uint64_t bytes,
		     bool allow_unlimited, struct err *e) MUST_CHECK;
int store_volume_open(struct store *s, const char *id,
		      struct err *e) MUST_CHECK;
/* Out of the way at once (a rename); store_sweep() does the rest. */
int store_volume_discard(struct store *s, const char *id,
			 struct err *e) MUST_CHECK;
int store_volume_usage(struct store *s, const char *id, uint64_t *bytes,
		       struct err *e) MUST_CHECK;
/* The volume with the smallest id above `after`: 0, or -ENOENT at the end. */
int store_volume_next(struct store *s, const char *after,
		      char id[ID_CAP]) MUST_CHECK;

/* An empty directory under stage/; returns an O_PATH descriptor of it. */
int store_image_stage(struct store *s, const char *id,
		      struct err *e) MUST_CHECK;
/* stage/ID becomes images/ID, read-only, on disk before this returns. */
int store_image_commit(struct store *s, const char *id,
		       struct err *e) MUST_CHECK;
/* O_PATH descriptor of a committed image. */
int store_image_open(struct store *s, const char *id, struct err *e) MUST_CHECK;
/* Staged or committed. */
int store_image_discard(struct store *s, const char *id,
			struct err *e) MUST_CHECK;
int store_image_next(struct store *s, const char *after,
		     char id[ID_CAP]) MUST_CHECK;
/* Empties stage/ of what a crash left. */
int store_stage_clear(struct store *s, struct err *e) MUST_CHECK;

int store_status(struct store *s, struct store_status *out,
		 struct err *e) MUST_CHECK;

/*
 * Destroys what is in trash/ and stale quota groups. Takes as long as it
 * takes: run in a child process. Never crosses into another mount, follows no
 * link, is not deep in recursion for deep trees.
 */
int store_sweep(struct store *s, struct err *e) MUST_CHECK;
