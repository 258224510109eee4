/*
 * Templates: machines that were booted once, and that others start as.
 * vm/KEY/tree/ has their disk, memory and devices; the note `of` beside it,
 * which is written last, says what the template is of. Without it, it is none.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "store/ops.h"

static const char part[] = "vm", note_of[] = "of";

int store_template_new(struct store *s, const char *key, struct err *e)
{
	uint64_t usable;
	int r = pool_check_free(s, &usable, e), fd;

	if (r < 0)
		return r;
	r = tree_discard(s, part, key);
	if (r < 0 && r != -ENOENT)
		return err_set(e, -r, "discard template %s: %s", key,
			       strerror(-r));
	fd = tree_make(s, part, key, usable, e);
	if (fd < 0)
		(void)tree_discard(s, part, key);
	return fd;
}

/* First the content on disk, then the note. */
int store_template_commit(struct store *s, const char *key, const char *of,
			  struct err *e)
{
	AUTO_CLOSE int dir_fd = tree_dir(s, part, key, false, e);

	if (dir_fd < 0)
		return dir_fd;
	if (syncfs(s->root_fd) < 0)
		return err_sys(e, "keep template %s", key);
	if (note_write(dir_fd, note_of, of, e) < 0)
		return -e->code;
	return fsync(dir_fd) < 0 ? err_sys(e, "keep template %s", key) : 0;
}

int store_template_open(struct store *s, const char *key, struct err *e)
{
	return tree_open(s, part, key, O_PATH, e);
}

void store_template_use(struct store *s, const char *key)
{
	char path[REL_PATH];

	rel_path(path, part, key);
	/* What cannot be noted makes it seem older, and no more. */
	(void)utimensat(s->root_fd, path, NULL, AT_SYMLINK_NOFOLLOW);
}

int store_template_discard(struct store *s, const char *key, struct err *e)
{
	int r = tree_discard(s, part, key);

	return r < 0 ? err_set(e, -r, "discard template %s: %s", key,
			       strerror(-r))
		     : 0;
}

static int read_note(struct store *s, const char *key,
		     struct store_template *out)
{
	struct err none = { 0 };
	AUTO_CLOSE int dir_fd = tree_dir(s, part, key, false, &none);
	struct stat st;
	int r;

	if (dir_fd < 0)
		return dir_fd;
	r = note_read(dir_fd, note_of, out->of, sizeof(out->of));
	if (r < 0)
		return r;
	if (fstat(dir_fd, &st) < 0)
		return -errno;
	out->used_s = (uint64_t)st.st_mtim.tv_sec;
	return 0;
}

int store_template_next(struct store *s, const char *after,
			struct store_template *out)
{
	int r, noted = 0;

	do {
		r = tree_next(s, part, after, out->key);
		after = out->key;
	} while (r == 0 && (noted = read_note(s, out->key, out)) == -ENOENT);
	return r < 0 ? r : noted;
}

/* 1 or 0, or -errno: whether it has its note is not known. */
static int has_note(struct store *s, const char *key)
{
	struct store_template t;
	int r = read_note(s, key, &t);

	return r == 0 ? 1 : r == -ENOENT ? 0 : r;
}

int store_template_clear(struct store *s, struct err *e)
{
	return discard_unless(s, part, has_note, e);
}
