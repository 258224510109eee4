/*
 * Volumes that sandboxes are launched with: trees of their own, each with a
 * limit, that belong to no sandbox. vol/ID/ has, beside the tree, the note
 * `bytes`: its limit.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "store/ops.h"

static const char part[] = "vol", note_bytes[] = "bytes";

/* The tree belongs to the sandbox's user, and the note is there. */
static int finish(struct store *s, const char *id, uint64_t bytes, uid_t owner,
		  struct err *e)
{
	AUTO_CLOSE int dir_fd = tree_dir(s, part, id, false, e);
	char text[24];

	if (dir_fd < 0)
		return dir_fd;
	if (fchownat(dir_fd, "tree", owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "set the owner of volume %s", id);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
	return note_write(dir_fd, note_bytes, text, e);
}

int store_attached_new(struct store *s, const char *id, uint64_t bytes,
		       bool allow_unlimited, uid_t owner, struct err *e)
{
	uint64_t usable;
	int r = pool_check_limit(s, allow_unlimited, e), fd;

	if (r == 0)
		r = pool_check_free(s, &usable, e);
	if (r < 0)
		return r;
	fd = tree_make(s, part, id, bytes, e);
	if (fd == -EEXIST)
		return fd;
	if (fd >= 0)
		close(fd);
	r = fd < 0 ? fd : finish(s, id, bytes, owner, e);
	if (r < 0)
		(void)tree_discard(s, part, id);
	return r;
}

int store_attached_open(struct store *s, const char *id, struct err *e)
{
	return tree_open(s, part, id, O_PATH, e);
}

int store_attached_discard(struct store *s, const char *id, struct err *e)
{
	int r = tree_discard(s, part, id);

	if (r < 0)
		return err_set(e, -r, "discard volume %s: %s", id,
			       strerror(-r));
	return 0;
}

static int read_bytes(struct store *s, const char *id, uint64_t *bytes)
{
	struct err none = { 0 };
	AUTO_CLOSE int dir_fd = tree_dir(s, part, id, false, &none);
	char text[24];
	int r = dir_fd < 0 ? dir_fd
			   : note_read(dir_fd, note_bytes, text, sizeof(text));

	return r < 0 ? r : parse_u64(text, UINT64_MAX, bytes);
}

/* A volume without the note: its creation was cut short. */
int store_attached_next(struct store *s, const char *after, char id[ID_CAP],
			uint64_t *bytes)
{
	int r, noted = 0;

	do {
		r = tree_next(s, part, after, id);
		after = id;
	} while (r == 0 && (noted = read_bytes(s, id, bytes)) == -ENOENT);
	return r < 0 ? r : noted;
}

/* 1 or 0, or -errno: whether it has its note is not known. */
static int has_note(struct store *s, const char *id)
{
	uint64_t bytes;
	int r = read_bytes(s, id, &bytes);

	return r == 0 ? 1 : r == -ENOENT ? 0 : r;
}

int store_attached_clear(struct store *s, struct err *e)
{
	return discard_unless(s, part, has_note, e);
}
