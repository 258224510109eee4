/*
 * Bases of images: beside its tree an image has, once a microVM was made of
 * it, the file `base` with the same tree in it. It is written as `base.new`
 * and gets its name when it is on disk; it goes with the image.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "store/ops.h"

static const char part[] = "images", name[] = "base", fresh[] = "base.new";

int store_base_new(struct store *s, const char *id, uint64_t *room,
		   struct err *e)
{
	AUTO_CLOSE int dir_fd = -1;
	int r = pool_check_free(s, room, e), fd;

	if (r < 0)
		return r;
	dir_fd = tree_dir(s, part, id, false, e);
	if (dir_fd < 0)
		return dir_fd;
	/* A new inode: a worker that is about to end may have the old one. */
	if (unlinkat(dir_fd, fresh, 0) < 0 && errno != ENOENT)
		return err_sys(e, "remove the old base of image %s", id);
	fd = openat(dir_fd, fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		    0600);
	return fd < 0 ? err_sys(e, "make the base of image %s", id) : fd;
}

/* First the content on disk, then the name, then the name on disk. */
int store_base_commit(struct store *s, const char *id, struct err *e)
{
	AUTO_CLOSE int dir_fd = tree_dir(s, part, id, false, e), fd = -1;

	if (dir_fd < 0)
		return dir_fd;
	fd = openat(dir_fd, fresh, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fsync(fd) < 0 ||
	    renameat(dir_fd, fresh, dir_fd, name) < 0 || fsync(dir_fd) < 0)
		return err_sys(e, "keep the base of image %s", id);
	return 0;
}

int store_base_open(struct store *s, const char *id, struct err *e)
{
	AUTO_CLOSE int dir_fd = tree_dir(s, part, id, false, e);
	int fd;

	if (dir_fd < 0)
		return dir_fd;
	fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open the base of image %s", id) : fd;
}

void store_base_drop(struct store *s, const char *id)
{
	struct err none = { 0 };
	AUTO_CLOSE int dir_fd = tree_dir(s, part, id, false, &none);

	if (dir_fd >= 0)
		(void)unlinkat(dir_fd, fresh, 0);
}

int store_base_clear(struct store *s, struct err *e)
{
	char id[ID_CAP] = "";
	int r;

	while ((r = store_image_next(s, id, id)) == 0)
		store_base_drop(s, id);
	return r == -ENOENT ? 0
			    : err_set(e, -r, "read images/: %s", strerror(-r));
}
