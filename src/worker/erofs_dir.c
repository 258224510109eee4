/*
 * Directories are blocks of entries with their names behind them, sorted. A
 * small one lies behind its inode. A large one is written block by block while
 * its entries come; it has as many blocks as it can need at worst, because
 * they lie one after the other and others take theirs meanwhile.
 */
#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "worker/erofs.h"

struct entry {
	uint64_t nid;
	uint16_t name_at;
	uint8_t type, zero;
} __attribute__((packed));
_Static_assert(sizeof(struct entry) == 12, "as on disk");

enum {
	ENTRY = sizeof(struct entry),
	ENTRIES_MAX = EROFS_BLOCK / (ENTRY + 1),
	DOTS = 2,
	/* What every block but the last is filled with at least. */
	FILLED = EROFS_BLOCK - ENTRY - EROFS_NAME_MAX,
};

static const char *const dots[DOTS] = { ".", ".." };

/* As the kernel has them: FT_REG_FILE and so on. */
static const uint8_t types[] = {
	[S_IFREG >> 12] = 1, [S_IFDIR >> 12] = 2, [S_IFCHR >> 12] = 3,
	[S_IFBLK >> 12] = 4, [S_IFIFO >> 12] = 5, [S_IFSOCK >> 12] = 6,
	[S_IFLNK >> 12] = 7,
};

struct erofs_dir {
	struct erofs_dir *up;
	uint64_t nid, parent;
	bool small;
	uint64_t size;            /* of all that was counted, without gaps */
	uint32_t block;           /* its first */
	uint64_t n_blocks, done;  /* that it has, that are full */
	unsigned dots, subdirs;   /* dots that were added */
	size_t n, used, name_len; /* in this block */
	struct entry entry[ENTRIES_MAX];
	char names[EROFS_BLOCK];
	struct erofs_attrs attrs;
};

int erofs_dir_new(struct erofs *f, struct erofs_dir **at,
		  const struct erofs_names *names,
		  const struct erofs_attrs *attrs, struct err *e)
{
	uint64_t size = (names->n + DOTS) * ENTRY + names->bytes +
			strlen(dots[0]) + strlen(dots[1]);
	struct erofs_dir *d = xcalloc(1, sizeof(*d)), *up = *at;
	size_t behind;

	*at = d;
	d->up = up;
	d->size = size;
	d->attrs = *attrs;
	d->small = erofs_fits(attrs->len + size);
	behind = attrs->len + (d->small ? (size_t)size : 0);
	d->nid = erofs_place(f, behind);
	erofs_take(f, behind);
	d->parent = up ? up->nid : d->nid;
	d->n_blocks = d->small ? 1 : size / FILLED + 1;
	return d->small ? 0 : erofs_blocks(f, d->n_blocks, &d->block, e);
}

uint64_t erofs_dir_nid(const struct erofs_dir *d)
{
	return d->nid;
}

/* The entries, then their names. */
static void pack(struct erofs_dir *d, char block[EROFS_BLOCK])
{
	size_t heads = d->n * ENTRY, i;

	for (i = 0; i < d->n; i++)
		d->entry[i].name_at =
			htole16((uint16_t)(heads + d->entry[i].name_at));
	memset(block, 0, EROFS_BLOCK);
	memcpy(block, d->entry, heads);
	memcpy(block + heads, d->names, d->name_len);
}

static int changed(struct err *e)
{
	return err_set(e, EIO, "a directory changed while it was read");
}

static int flush(struct erofs *f, struct erofs_dir *d, struct err *e)
{
	char block[EROFS_BLOCK];

	if (d->small || d->done == d->n_blocks)
		return changed(e);
	pack(d, block);
	d->n = d->used = d->name_len = 0;
	return erofs_write(f, (d->block + d->done++) * EROFS_BLOCK, block,
			   sizeof(block), e);
}

static int add(struct erofs *f, struct erofs_dir *d, const char *name,
	       const struct entry *what, struct err *e)
{
	size_t len = strlen(name);
	int r;

	if (len == 0 || len > EROFS_NAME_MAX)
		return err_set(e, ENAMETOOLONG, "a name of %zu bytes", len);
	if (d->used + ENTRY + len > EROFS_BLOCK) {
		r = flush(f, d, e);
		if (r < 0)
			return r;
	}
	d->entry[d->n] = *what;
	d->entry[d->n++].name_at = (uint16_t)d->name_len;
	memcpy(d->names + d->name_len, name, len);
	d->name_len += len;
	d->used += ENTRY + len;
	return 0;
}

/* Those that come before the name; NULL: all. */
static int add_dots(struct erofs *f, struct erofs_dir *d, const char *before,
		    struct err *e)
{
	int r = 0;

	while (r == 0 && d->dots < DOTS &&
	       (!before || strcmp(dots[d->dots], before) < 0)) {
		const struct entry self = {
			.nid = htole64(d->dots == 0 ? d->nid : d->parent),
			.type = types[S_IFDIR >> 12],
		};

		r = add(f, d, dots[d->dots++], &self, e);
	}
	return r;
}

int erofs_dir_add(struct erofs *f, struct erofs_dir *d, const char *name,
		  uint64_t nid, unsigned mode, struct err *e)
{
	unsigned type = (mode & S_IFMT) >> 12;
	const struct entry what = {
		.nid = htole64(nid),
		.type = type < ARRAY_LEN(types) ? types[type] : 0,
	};
	int r = add_dots(f, d, name, e);

	if (r < 0)
		return r;
	d->subdirs += S_ISDIR(mode);
	return add(f, d, name, &what, e);
}

static int end(struct erofs *f, struct erofs_dir *d, const struct statx *sx,
	       struct err *e)
{
	char block[EROFS_BLOCK];
	struct erofs_inode n = { .nlink = 2 + d->subdirs,
				 .sx = sx,
				 .attrs = &d->attrs };
	int r = add_dots(f, d, NULL, e);

	if (r < 0)
		return r;
	n.size = d->done * EROFS_BLOCK + d->used;
	if (d->small) {
		pack(d, block);
		n.tail = block;
		n.tail_len = d->used;
		return d->used == d->size ? erofs_put(f, d->nid, &n, e)
					  : changed(e);
	}
	n.block = d->block;
	r = flush(f, d, e);
	return r < 0 ? r : erofs_put(f, d->nid, &n, e);
}

int erofs_dir_end(struct erofs *f, struct erofs_dir **d, const struct statx *sx,
		  struct err *e)
{
	struct erofs_dir *up = (*d)->up;
	int r = end(f, *d, sx, e);

	free(*d);
	*d = up;
	return r;
}

void erofs_dirs_free(struct erofs_dir *d)
{
	while (d) {
		struct erofs_dir *up = d->up;

		free(d);
		d = up;
	}
}
