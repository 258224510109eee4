/*
 * Writes an EROFS file system: uncompressed, blocks of 4096 bytes, extended
 * inodes. In order and once through: whoever calls gives an inode its place,
 * then what it refers to, then the inode itself.
 *
 * Inodes lie in windows of their own between the data, each with the end of
 * its content behind it if both fit into a block. What is not written is a
 * hole. The same calls make the same bytes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

enum { EROFS_BLOCK = 4096, EROFS_INODE = 64, EROFS_NAME_MAX = 255 };

struct erofs {
	int fd;
	uint64_t end;            /* of what is given away, in bytes */
	uint64_t at, window_end; /* of inodes */
	uint64_t inodes;
	uint64_t written, max; /* bytes of disk */
};

/* All extended attributes of an inode, as they lie behind it. */
enum { EROFS_ATTRS_MAX = 2048, EROFS_ATTR_UNIT = 4 };
struct erofs_attrs {
	size_t len; /* 0: none */
	char bytes[EROFS_ATTRS_MAX];
};
int erofs_attrs_read(struct erofs_attrs *a, int fd, struct err *e) MUST_CHECK;
/* As inodes count them. */
unsigned erofs_attrs_count(const struct erofs_attrs *a);

struct erofs_inode {
	uint64_t size;
	uint32_t block; /* of its content; or the device */
	uint32_t nlink;
	const struct statx *sx; /* the rest */
	const struct erofs_attrs *attrs;
	const void *tail; /* behind both, or NULL */
	size_t tail_len;
};

/* At most `max` bytes are written. */
void erofs_open(struct erofs *f, int fd, uint64_t max);
/* Can an inode have that much behind it? */
static inline int erofs_fits(uint64_t len)
{
	return len <= EROFS_BLOCK - EROFS_INODE;
}
/* Where the next inode goes that has `len` bytes behind it: its number. */
uint64_t erofs_place(struct erofs *f, size_t len);
void erofs_take(struct erofs *f, size_t len);
int erofs_put(struct erofs *f, uint64_t nid, const struct erofs_inode *n,
	      struct err *e) MUST_CHECK;
/* The first of so many blocks for content. */
int erofs_blocks(struct erofs *f, uint64_t n, uint32_t *first,
		 struct err *e) MUST_CHECK;
int erofs_write(struct erofs *f, uint64_t at, const void *p, size_t n,
		struct err *e) MUST_CHECK;
/* The device as inodes have it. */
uint32_t erofs_device(const struct statx *sx);
/* The superblock; everything is on disk. */
int erofs_close(struct erofs *f, uint64_t root_nid, struct err *e) MUST_CHECK;

/*
 * A directory: its entries come in the order of bytes. `nid` is taken by
 * erofs_dir_new(), from what was counted of its names.
 */
struct erofs_dir;

struct erofs_names {
	uint64_t n, bytes; /* "." and ".." are not counted */
};

/* The new one is *d, which was the one above. */
int erofs_dir_new(struct erofs *f, struct erofs_dir **d,
		  const struct erofs_names *names,
		  const struct erofs_attrs *attrs, struct err *e) MUST_CHECK;
uint64_t erofs_dir_nid(const struct erofs_dir *d);
int erofs_dir_add(struct erofs *f, struct erofs_dir *d, const char *name,
		  uint64_t nid, unsigned mode, struct err *e) MUST_CHECK;
/* Writes it; *d becomes the one above. */
int erofs_dir_end(struct erofs *f, struct erofs_dir **d, const struct statx *sx,
		  struct err *e) MUST_CHECK;
void erofs_dirs_free(struct erofs_dir *d);
