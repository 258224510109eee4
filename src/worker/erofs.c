#include "worker/erofs.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum {
	MAGIC = 0xe0f5e1e2,
	SUPER_AT = 1024,
	SUPER_LEN = 128,
	BLOCK_BITS = 12,
	SLOT = 32, /* inodes are counted in slots */
	COMPAT_MTIME = 2,
	EXTENDED = 1,
	FLAT_PLAIN = 0 << 1,
	FLAT_INLINE = 2 << 1,
	WINDOW = 64 * EROFS_BLOCK,
};

struct super {
	uint32_t magic, checksum, compat;
	uint8_t block_bits, ext_slots;
	uint16_t root_nid;
	uint64_t inodes, time;
	uint32_t time_ns, blocks, meta_block, attr_block;
	uint8_t uuid[16], name[16];
	uint32_t incompat;
	uint8_t rest[44];
};
_Static_assert(sizeof(struct super) == SUPER_LEN, "as on disk");

struct inode {
	uint16_t format, attrs, mode, zero;
	uint64_t size;
	uint32_t block, ino, uid, gid;
	uint64_t mtime;
	uint32_t mtime_ns, nlink;
	uint8_t rest[16];
};
_Static_assert(sizeof(struct inode) == EROFS_INODE, "as on disk");

void erofs_open(struct erofs *f, int fd, uint64_t max)
{
	*f = (struct erofs){ .fd = fd,
			     .end = WINDOW,
			     .at = SUPER_AT + SUPER_LEN,
			     .window_end = WINDOW,
			     .max = max };
}

static size_t slots(size_t len)
{
	return (EROFS_INODE + len + SLOT - 1) / SLOT * SLOT;
}

uint64_t erofs_place(struct erofs *f, size_t len)
{
	uint64_t room = EROFS_BLOCK - f->at % EROFS_BLOCK;

	if (slots(len) > room)
		f->at += room;
	if (f->at == f->window_end) {
		f->at = f->end;
		f->end += WINDOW;
		f->window_end = f->end;
	}
	return f->at / SLOT;
}

void erofs_take(struct erofs *f, size_t len)
{
	f->at += slots(len);
	f->inodes++;
}

int erofs_blocks(struct erofs *f, uint64_t n, uint32_t *first, struct err *e)
{
	if (n > UINT32_MAX || f->end / EROFS_BLOCK + n > UINT32_MAX)
		return err_set(e, EFBIG, "over 16 TiB of content");
	*first = (uint32_t)(f->end / EROFS_BLOCK);
	f->end += n * EROFS_BLOCK;
	return 0;
}

int erofs_write(struct erofs *f, uint64_t at, const void *p, size_t n,
		struct err *e)
{
	const char *from = p;

	if (n > f->max - f->written)
		return err_set(e, ENOSPC,
			       "the pool has no room for it: remove sandboxes "
			       "or images, or enlarge the pool");
	f->written += n;
	while (n > 0) {
		ssize_t w = pwrite(f->fd, from, n, (off_t)at);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return err_sys(e, "write");
		from += w;
		at += (size_t)w;
		n -= (size_t)w;
	}
	return 0;
}

uint32_t erofs_device(const struct statx *sx)
{
	uint32_t minor = sx->stx_rdev_minor;

	return (minor & 0xff) | sx->stx_rdev_major << 8 |
	       (minor & ~0xffU) << 12;
}

int erofs_put(struct erofs *f, uint64_t nid, const struct erofs_inode *n,
	      struct err *e)
{
	const struct statx *sx = n->sx;
	char block[EROFS_BLOCK];
	size_t len = sizeof(struct inode);
	struct inode i = {
		.format = htole16(EXTENDED |
				  (n->tail_len > 0 ? FLAT_INLINE : FLAT_PLAIN)),
		.attrs = htole16((uint16_t)erofs_attrs_count(n->attrs)),
		.mode = htole16(sx->stx_mode),
		.size = htole64(n->size),
		.block = htole32(n->block),
		.ino = htole32((uint32_t)nid),
		.uid = htole32(sx->stx_uid),
		.gid = htole32(sx->stx_gid),
		.mtime = htole64((uint64_t)sx->stx_mtime.tv_sec),
		.mtime_ns = htole32(sx->stx_mtime.tv_nsec),
		.nlink = htole32(n->nlink),
	};

	if (!erofs_fits(n->attrs->len + n->tail_len))
		return err_set(e, EINVAL, "no room behind an inode");
	memcpy(block, &i, sizeof(i));
	memcpy(block + len, n->attrs->bytes, n->attrs->len);
	len += n->attrs->len;
	if (n->tail_len > 0)
		memcpy(block + len, n->tail, n->tail_len);
	return erofs_write(f, nid * SLOT, block, len + n->tail_len, e);
}

int erofs_close(struct erofs *f, uint64_t root_nid, struct err *e)
{
	const struct super s = {
		.magic = htole32(MAGIC),
		.compat = htole32(COMPAT_MTIME),
		.block_bits = BLOCK_BITS,
		.root_nid = htole16((uint16_t)root_nid),
		.inodes = htole64(f->inodes),
		.blocks = htole32((uint32_t)(f->end / EROFS_BLOCK)),
	};
	int r;

	if (root_nid > UINT16_MAX || f->end / EROFS_BLOCK > UINT32_MAX)
		return err_set(e, EFBIG, "too large for its superblock");
	r = erofs_write(f, SUPER_AT, &s, sizeof(s), e);
	if (r < 0)
		return r;
	if (ftruncate(f->fd, (off_t)f->end) < 0 || fsync(f->fd) < 0)
		return err_sys(e, "write it to disk");
	return 0;
}
