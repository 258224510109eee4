/*
 * btrfs quota groups, by ioctl alone (the warden sees no /sys after start).
 *
 * Every tree of ours is a member of a level-1 group of its own, its family,
 * which carries the limit; snapshots of it join the same family, so that what
 * they hold on to counts. Families have numbers from FAMILY_FIRST on: groups
 * that the owner of an existing btrfs made are never touched.
 * Internal to src/store/. Functions return 0 or -errno.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define FAMILY_FIRST (1ULL << 40)
#define FAMILY_END (1ULL << 47)

/* Quotas on, if they are not: simple ones where the kernel has them. */
int qgroup_enable(int fd, bool *simple) MUST_CHECK;
/*
 * Classic quotas that the kernel calls inconsistent are not enforced: starts
 * counting anew. 1 when that is under way. Before Linux 6.8 every snapshot
 * that joins a family makes them so.
 */
int qgroup_repair(int fd) MUST_CHECK;
/* The number after the highest family there is. */
int qgroup_next_family(int fd, uint64_t *next) MUST_CHECK;
/* EEXIST when there is one of that number. */
int qgroup_family_make(int fd, uint64_t family) MUST_CHECK;
int qgroup_family_limit(int fd, uint64_t family, uint64_t bytes) MUST_CHECK;
/* Of the subvolume that `fd` is the root of; ENOENT when it has none. */
int qgroup_family_of(int fd, uint64_t *family) MUST_CHECK;
/* As of the last commit, up to 30 s ago. */
int qgroup_family_usage(int fd, uint64_t family, uint64_t *bytes) MUST_CHECK;
/* 1: a member is destroyed, and what was its own still counts. */
int qgroup_family_dying(int fd, uint64_t family) MUST_CHECK;
/* A subvolume in `dir_fd` that is a member of the family. */
int qgroup_subvol_make(int dir_fd, const char *name,
		       uint64_t family) MUST_CHECK;
/* A snapshot of the subvolume `from_fd` that is a member of the family. */
int qgroup_snapshot_make(int dir_fd, const char *name, int from_fd,
			 uint64_t family, bool read_only) MUST_CHECK;
/*
 * Removes families below `end` without members, after members whose
 * subvolume is gone. 1 when some wait for the kernel to finish.
 */
int qgroup_sweep(int fd, uint64_t end) MUST_CHECK;
