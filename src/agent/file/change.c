/* mkdir, move, remove, chmod. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/file/file.h"
#include "base/auto.h"

/* Past the umask; and whose it is to be. */
static int dress_dir(const struct place *p, mode_t mode, const char *shown,
		     struct err *e)
{
	AUTO_CLOSE int fd =
		openat(p->dir_fd, p->name,
		       O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = fd < 0 ? -errno : owner_give(fd);

	if (r < 0) {
		errno = -r;
		return err_sys(e, "set the owner of %.160s", shown);
	}
	if (fchmodat(p->dir_fd, p->name, mode, 0) < 0)
		return err_sys(e, "set the mode of %.160s", shown);
	return 0;
}

int job_mkdir(const struct file_job *j, struct err *e)
{
	AUTO(place_done) struct place p = { .dir_fd = -1 };
	AUTO(buf_done) struct buf shown = { 0 };
	mode_t mode = j->has_mode ? j->mode : 0755;
	bool made;
	int r = path_show(j->path, &shown, e);

	if (r == 0)
		r = place_open(&p, j->path, j->parents, e);
	if (r < 0)
		return r;
	made = mkdirat(p.dir_fd, p.name, mode) == 0;
	if (!made && (errno != EEXIST || !j->parents))
		return err_sys(e, "%.160s", j->path);
	/* Never of one that was there. */
	if (made && dress_dir(&p, mode, j->path, e) < 0)
		return -e->code;
	if (!made) {
		struct stat st;

		if (fstatat(p.dir_fd, p.name, &st, 0) < 0 ||
		    !S_ISDIR(st.st_mode))
			return err_set(e, EEXIST, "%.160s: File exists",
				       j->path);
	}
	return out_entry(p.dir_fd, p.name, buf_data(&shown), false, e);
}

static int remove_at(struct place *p, bool recursive, const char *shown,
		     struct err *e)
{
	if (unlinkat(p->dir_fd, p->name, 0) == 0)
		return 0;
	if (errno != EISDIR)
		return err_sys(e, "%.160s", shown);
	if (recursive)
		return tree_unlink(p->dir_fd, p->name, shown, e);
	if (unlinkat(p->dir_fd, p->name, AT_REMOVEDIR) < 0)
		return err_sys(e, "%.160s", shown);
	return 0;
}

int job_remove(const struct file_job *j, struct err *e)
{
	AUTO(place_done) struct place p = { .dir_fd = -1 };
	int r = place_open(&p, j->path, false, e);

	return r < 0 ? r : remove_at(&p, j->recursive, j->path, e);
}

/* To another file system: a copy, and only then the end of the original. */
static int move_far(const struct file_job *j, struct place *from,
		    struct place *to, const char *shown, struct err *e)
{
	struct copy c = { .overwrite = j->overwrite, .exact = true };
	struct stat st;
	int r;

	if (!j->overwrite &&
	    fstatat(to->dir_fd, to->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(e, EEXIST, "%.160s: File exists", j->to);
	buf_puts(&c.path, j->path);
	r = copy_any(&c, from->dir_fd, from->name, to->dir_fd, to->name, e);
	buf_done(&c.path);
	if (r == 0)
		r = remove_at(from, true, j->path, e);
	return r < 0 ? r : out_entry(to->dir_fd, to->name, shown, false, e);
}

int job_move(const struct file_job *j, struct err *e)
{
	AUTO(place_done) struct place from = { .dir_fd = -1 };
	AUTO(place_done) struct place to = { .dir_fd = -1 };
	AUTO(buf_done) struct buf shown = { 0 };
	struct stat st;
	int r = path_show(j->to, &shown, e);

	/* No directories are made for something that is not there. */
	if (r == 0)
		r = place_find(&from, j->path, &st, e);
	if (r == 0)
		r = place_open(&to, j->to, j->parents, e);
	if (r < 0)
		return r;
	r = rename_at(from.dir_fd, from.name, to.dir_fd, to.name, j->overwrite);
	if (r == -EXDEV)
		return move_far(j, &from, &to, buf_data(&shown), e);
	if (r < 0) {
		errno = -r;
		return err_sys(e, "move %.100s to %.100s", j->path, j->to);
	}
	return out_entry(to.dir_fd, to.name, buf_data(&shown), false, e);
}

/*
 * Links have no mode and are not followed; a chmod that does not follow is
 * one through a descriptor of the thing itself.
 */
static int chmod_one(int at, const char *name, mode_t mode)
{
	AUTO_CLOSE int fd = openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	char self[32];

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return 0;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	return chmod(self, mode) < 0 ? -errno : 0;
}

static int chmod_tree(int fd, mode_t mode, struct buf *path, unsigned depth,
		      struct err *e);

/*
 * What is in a directory before the directory itself, because its new mode
 * may lock us out; but after it when the old one does.
 */
static int chmod_any(int at, const char *name, mode_t mode, struct buf *path,
		     unsigned depth, struct err *e)
{
	int fd = dir_open(at, name, true), r;

	if (fd == -EACCES && chmod_one(at, name, mode) == 0)
		fd = dir_open(at, name, true);
	if (fd == -EXDEV)
		return 0;
	if (fd >= 0) {
		r = chmod_tree(fd, mode, path, depth, e);
		if (r < 0)
			return r;
	} else if (fd != -ENOTDIR && fd != -ELOOP) {
		errno = -fd;
		return err_sys(e, "%.160s", buf_data(path));
	}
	r = chmod_one(at, name, mode);
	errno = -r;
	return r < 0 ? err_sys(e, "%.160s", buf_data(path)) : 0;
}

/* Takes the descriptor over. */
static int chmod_tree(int fd, mode_t mode, struct buf *path, unsigned depth,
		      struct err *e)
{
	AUTO_DIR DIR *d = dir_stream(fd);
	const char *name;
	int r = 0;

	if (!d)
		return err_set(e, ENOMEM, "no memory");
	if (depth == TREE_DEPTH_MAX)
		return err_set(e, ELOOP,
			       "%.160s...: more than %d directories deep",
			       buf_data(path), TREE_DEPTH_MAX);
	while (r == 0 && (name = dir_next(d))) {
		size_t was = path_push(path, name);

		r = chmod_any(fd, name, mode, path, depth + 1, e);
		path_pop(path, was);
	}
	if (r == 0 && errno)
		return err_sys(e, "read %.160s", buf_data(path));
	return r;
}

/* The owner first, because a new one takes the set-id bits away. */
static int change_one(const struct file_job *j, int fd)
{
	uid_t uid = j->has_uid ? (uid_t)j->uid : (uid_t)-1;
	gid_t gid = j->has_gid ? (gid_t)j->gid : (gid_t)-1;
	char self[32];

	if ((j->has_uid || j->has_gid) &&
	    fchownat(fd, "", uid, gid, AT_EMPTY_PATH) < 0)
		return -errno;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	return j->has_mode && chmod(self, j->mode) < 0 ? -errno : 0;
}

int job_chmod(const struct file_job *j, struct err *e)
{
	AUTO(buf_done) struct buf shown = { 0 };
	AUTO_CLOSE int one = -1;
	int r = path_show(j->path, &shown, e);

	if (r == 0 && !j->has_mode && !j->has_uid && !j->has_gid)
		r = err_set(e, EINVAL, "a mode is missing");
	if (r == 0 && j->recursive && !j->has_mode)
		r = err_set(e, EINVAL, "only a mode is set recursively");
	if (r == 0 && j->recursive) {
		AUTO(buf_done) struct buf path = { 0 };
		int fd = path_open(j->path, O_RDONLY | O_DIRECTORY);

		buf_puts(&path, j->path);
		if (fd >= 0)
			r = chmod_tree(fd, j->mode, &path, 0, e);
		else if (errno != ENOTDIR)
			r = err_sys(e, "%.160s", j->path);
	}
	if (r < 0)
		return r;
	one = path_open(j->path, O_PATH);
	r = one < 0 ? -errno : change_one(j, one);
	errno = -r;
	if (r < 0)
		return err_sys(e, "%.160s", j->path);
	return out_entry_of(one, buf_data(&shown), e);
}
