/*
 * The tar format: POSIX ustar with pax headers, as GNU tar, bsdtar, Go and
 * Python write it, and GNU's long names. Reading is pure functions on bytes,
 * each of which a stranger chose.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/file.h"

enum {
	TAR_BLOCK = 512,
	TAR_PAX_MAX = 1024 * 1024, /* of one extended header */
};

enum tar_type {
	TAR_FILE = '0',
	TAR_HARDLINK = '1',
	TAR_SYMLINK = '2',
	TAR_CHAR = '3',
	TAR_BLOCKDEV = '4',
	TAR_DIR = '5',
	TAR_FIFO = '6',
	TAR_CONTIGUOUS = '7',
	TAR_PAX = 'x',
	TAR_PAX_GLOBAL = 'g',
	TAR_LONG_NAME = 'L',
	TAR_LONG_LINK = 'K',
	TAR_SPARSE = 'S',
};

struct tar_entry {
	char type;
	mode_t mode; /* the lower 12 bits */
	uint32_t uid, gid;
	uint64_t size; /* bytes that follow */
	struct timespec mtime;
	char path[FILE_PATH_MAX + 1], link[FILE_PATH_MAX + 1];
	char user[32], group[32]; /* when writing only */
};

/*
 * A header block: 1 and the entry as the block has it (see tar_finish()), 0
 * when it is all zero (the end), or -EBADMSG.
 */
int tar_head_get(const uint8_t block[TAR_BLOCK], struct tar_entry *t,
		 struct err *e) MUST_CHECK;

/* What extended headers said about the next entry. */
struct tar_extra {
	bool has_path, has_link, has_size, has_mtime, sparse;
	char path[FILE_PATH_MAX + 1], link[FILE_PATH_MAX + 1];
	uint64_t size;
	struct timespec mtime;
};
/* Records of a pax header; keys that we do not know are skipped. */
int tar_pax_get(const char *p, size_t n, struct tar_extra *x,
		struct err *e) MUST_CHECK;
/*
 * The extended attributes in a pax header that tar_pax_get() took, each by its
 * name and value (any bytes), until `fn` returns something else than 0.
 */
int tar_pax_attrs(const char *p, size_t n,
		  int (*fn)(void *ctx, const char *name, const void *value,
			    size_t n),
		  void *ctx) MUST_CHECK;
/* The content of a GNU long name or link. */
int tar_long_get(char type, const char *p, size_t n, struct tar_extra *x,
		 struct err *e) MUST_CHECK;
/*
 * What the entry really is, when everything in front of it is known. (The name
 * in its own header may be only the start of a long one.) Old tars mark
 * directories by a slash at the end.
 */
void tar_finish(struct tar_entry *t, const struct tar_extra *x);

/* Appends the header, with a pax one in front where ustar cannot say it. */
void tar_head_put(struct buf *b, const struct tar_entry *t);
/* The same with further records of the pax header, made by tar_pax_put(). */
void tar_head_put_more(struct buf *b, const struct tar_entry *t,
		       const struct buf *more);
void tar_pax_put(struct buf *b, const char *key, const void *value, size_t n);
/* How many zeros follow `size` bytes of content. */
static inline size_t tar_padding(uint64_t size)
{
	return (size_t)(-size % TAR_BLOCK);
}
