/*
 * Copies of a volume that are made ahead, copy/SNAPSHOT.N: a fork of many
 * launches from one snapshot, and copies that are made at the same moment
 * share one commit of the file system.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "store/ops.h"

static const char part[] = "copy";

enum { NAME = 48 };

static void copy_name(char out[NAME], const char *snap, unsigned n)
{
	snprintf(out, NAME, "%.*s.%u", ID_LEN, snap, n);
}

bool store_copies_pay(const struct store *s)
{
	return s->ops->instant;
}

int store_copy_place(struct store *s, const char *snap, unsigned n,
		     uint64_t family, struct err *e)
{
	char name[NAME];
	int r = s->ops->family(s, family, e);

	copy_name(name, snap, n);
	return r < 0 ? r : tree_dir(s, part, name, true, e);
}

int store_copy_fill(struct store *s, int place_fd, int tree_fd, uint64_t family,
		    struct err *e)
{
	const struct clone_how how = { .like_fd = -1,
				       .family = family,
				       .made = true };

	return s->ops->clone(s, tree_fd, place_fd, "tree", &how, e);
}

int store_copy_finish(struct store *s, int place_fd, struct err *e)
{
	return tree_fresh_work(s, place_fd, e);
}

int store_copy_take(struct store *s, const char *snap, unsigned n,
		    const struct disk_spec *d, struct err *e)
{
	AUTO_CLOSE int fd = -1;
	char name[NAME], from[REL_PATH], to[REL_PATH];
	uint64_t usable;
	int r = pool_check_limit(s, d->allow_unlimited, e);

	if (r == 0)
		r = pool_check_free(s, &usable, e);
	if (r < 0)
		return r;
	copy_name(name, snap, n);
	fd = tree_open(s, part, name, O_RDONLY, e);
	if (fd < 0)
		return fd;
	r = s->ops->limit(s, fd, d->bytes, e);
	if (r < 0)
		return err_wrap(e, "volume %s", d->id);
	rel_path(from, part, name);
	rel_path(to, "box", d->id);
	if (renameat2(s->root_fd, from, s->root_fd, to, RENAME_NOREPLACE) < 0)
		return err_sys(e, "make volume %s", d->id);
	return 0;
}

void store_copy_discard(struct store *s, const char *snap, unsigned n)
{
	char name[NAME];

	copy_name(name, snap, n);
	(void)tree_discard(s, part, name);
}

int store_copy_clear(struct store *s, struct err *e)
{
	AUTO_CLOSE int fd =
		openat(s->root_fd, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_DIR DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *d;
	int r = 0;

	if (!dir)
		return err_sys(e, "open copy/");
	take_fd(&fd);
	while (r == 0 && (errno = 0, d = readdir(dir)) != NULL)
		if (d->d_name[0] != '.' && strlen(d->d_name) < NAME)
			r = tree_discard(s, part, d->d_name);
	if (r == 0 && errno)
		r = -errno;
	return r < 0 ? err_set(e, -r, "clear copy/: %s", strerror(-r)) : 0;
}
