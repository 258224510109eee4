/*
 * What a worker that looks at states of disks is asked, and says. The worker
 * walks trees that a sandbox made: whoever reads its records believes none of
 * them.
 *
 * Asked (one message, then the pipe is closed):
 *
 *	u32 VIEW_MAGIC | u32 flags | u32 n | n strings (pack_str): paths
 *
 * Paths are absolute, without ".", "..", or a slash too many; none means all.
 * VIEW_READ has one.
 *
 * Records are little-endian: u32 length of what follows | u8 kind | fields.
 * VIEW_DONE or VIEW_ERROR comes once, last.
 *
 * Entries of a record have their path once, in front of both:
 *
 *	str path, then for each of the two: u8 enum file_type, and if it is
 *	not FILE_NONE: u32 mode, u32 uid, u32 gid, u64 size, u64 mtime (ms),
 *	str target of a link
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/file.h"

enum {
	VIEW_MAGIC = 0x31574956,
	VIEW_PATHS_MAX = 256,
	VIEW_ASK_MAX = 256 * 1024,
	VIEW_DATA_MAX = 64 * 1024, /* bytes of one VIEW_DATA */
	VIEW_RECORD_MAX = 80 * 1024,
	VIEW_SUM_LEN = 32,
};

/*
 * VIEW_PACK packs its one side, whole or some paths with all below them. With
 * two sides (VIEW_LAYER) it packs how side 1 differs from side 0. With the
 * three sides of a VIEW_MERGE it packs what that says is to be put, each entry
 * by itself: names as bytes, relative to the root.
 */
enum view_flags {
	VIEW_LAYER = 1,  /* an OCI layer, with whiteouts */
	VIEW_THEIRS = 2, /* of a merge: theirs of conflicts, too */
	VIEW_GZIP = 4,   /* of one or two sides: packed; VIEW_SUM comes last */
	/* Of a layer: all that the sandbox wrote, to the nanosecond. */
	VIEW_EXACT = 8,
	VIEW_FLAGS_ALL = 15,
};

enum view_kind {
	VIEW_CHANGE = 1, /* of VIEW_DIFF: u8 what, entries before and after */
	VIEW_STEP, /* of VIEW_MERGE: u8 enum merge_step, entries theirs, ours */
	VIEW_DATA, /* bytes of a tar or file */
	VIEW_PROGRESS, /* u64 entries, u64 bytes */
	VIEW_SPACED,   /* u64 bytes, u64 shared bytes, u64 entries */
	VIEW_DONE,
	VIEW_ERROR, /* u32 errno, str message */
	VIEW_SUM,   /* 32 bytes: the SHA-256 of the tar before it was packed */
	VIEW_KINDS
};

/* Bits: what is different. An entry that one side lacks has FILE_NONE there
 * (and is WHAT_TYPE). */
enum view_what {
	WHAT_TYPE = 1,
	WHAT_CONTENT = 2, /* also a link's target */
	WHAT_MODE = 4,
	WHAT_OWNER = 8,
	WHAT_ATTRS = 16, /* extended attributes */
	WHAT_ALL = 31
};

/*
 * What taking over theirs means for one path of ours. Steps of a directory
 * that goes come behind those of what is in it, all others in front: removals
 * are done in the order of the steps, one by one. Sockets and devices take no
 * part.
 */
enum merge_step {
	MERGE_PUT,      /* take theirs: ours is as the ancestor was */
	MERGE_REMOVE,   /* they removed it, we did not touch it */
	MERGE_SAME,     /* both did the same */
	MERGE_CONFLICT, /* both changed it, differently */
	MERGE_STEPS
};

struct view_record {
	enum view_kind kind;
	union {
		struct {
			unsigned what;
			struct file_entry before, after; /* same path */
		} change;
		struct {
			enum merge_step step;
			struct file_entry theirs, ours; /* same path */
		} step;
		struct {
			const void *p;
			size_t n;
		} data;
		struct {
			uint64_t entries, bytes;
		} progress;
		struct {
			uint64_t bytes, shared, entries;
		} space;
		const uint8_t *sum; /* points into what was read */
		struct err err;
	};
};

void view_record_put(struct buf *b, const struct view_record *r);
/* As file_record_get(): its size, 0 when more is needed, -EBADMSG. */
int view_record_get(const struct buf *b, struct view_record *r) MUST_CHECK;

struct view_ask {
	unsigned flags;
	size_t n;
	const char *paths[VIEW_PATHS_MAX]; /* point into what was read */
};

/* Of the form that a path in a request or a record has; "/" is the root. */
bool view_path_ok(const char *path);
/* The request; `paths` has `n` strings. */
void view_ask_put(struct buf *b, unsigned flags, const char *const *paths,
		  size_t n);
/* 0, or -EBADMSG. */
int view_ask_get(const void *p, size_t n, struct view_ask *a) MUST_CHECK;
