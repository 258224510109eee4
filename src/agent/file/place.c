#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "agent/file/file.h"
#include "base/auto.h"

/* Cuts the next component off: false at the end, -ENAMETOOLONG in `*bad`. */
static bool next_name(const char **path, char name[NAME_MAX + 1], bool *bad)
{
	const char *s = *path + strspn(*path, "/");
	size_t n = strcspn(s, "/");

	*path = s + n;
	*bad = n > NAME_MAX;
	if (n == 0 || *bad)
		return false;
	memcpy(name, s, n);
	name[n] = '\0';
	return true;
}

static int too_long(const char *path, struct err *e)
{
	return err_set(e, ENAMETOOLONG, "%.160s...: File name too long", path);
}

static void add_clean(struct buf *shown, const char *path)
{
	while (*path) {
		const char *s = path + strspn(path, "/");
		size_t n = strcspn(s, "/");

		path = s + n;
		if (n == 0 || (n == 1 && *s == '.'))
			continue;
		buf_puts(shown, "/");
		buf_add(shown, s, n);
	}
}

int path_show(const char *path, struct buf *shown, struct err *e)
{
	char cwd[PATH_MAX];

	if (*path != '/') {
		if (!getcwd(cwd, sizeof(cwd)))
			return err_sys(e, "find the current directory");
		add_clean(shown, cwd);
	}
	add_clean(shown, path);
	if (buf_len(shown) == 0)
		buf_puts(shown, "/");
	if (buf_len(shown) > FILE_PATH_MAX)
		return too_long(path, e);
	buf_str(shown);
	return 0;
}

/* The directory `name` of `*dir_fd`, made if it is missing, in its place. */
static int step_into(int *dir_fd, const char *name)
{
	int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
	int fd = openat(*dir_fd, name, flags);

	if (fd < 0 && errno == ENOENT) {
		bool made = mkdirat(*dir_fd, name, 0755) == 0;
		int r = 0;

		if (!made && errno != EEXIST)
			return -errno;
		fd = openat(*dir_fd, name, flags | (made ? O_NOFOLLOW : 0));
		if (fd >= 0 && made)
			r = owner_give(fd);
		if (r < 0) {
			close(fd);
			return r;
		}
	}
	if (fd < 0)
		return -errno;
	close(*dir_fd);
	*dir_fd = fd;
	return 0;
}

int make_parents(const char *path, struct err *e)
{
	AUTO_CLOSE int fd = open(*path == '/' ? "/" : ".",
				 O_PATH | O_DIRECTORY | O_CLOEXEC);
	const char *at = path;
	char name[NAME_MAX + 1];
	bool bad;

	if (fd < 0)
		return err_sys(e, "open the current directory");
	while (next_name(&at, name, &bad)) {
		int r = step_into(&fd, name);

		if (r == 0)
			continue;
		errno = -r;
		return err_sys(e, "make directory %.*s",
			       (int)(at - path > 160 ? 160 : at - path), path);
	}
	return bad ? too_long(path, e) : 0;
}

int place_open(struct place *p, const char *path, bool parents, struct err *e)
{
	char dir[PATH_MAX];
	size_t n = strlen(path), at;

	p->dir_fd = -1;
	if (n >= sizeof(dir))
		return too_long(path, e);
	while (n > 0 && path[n - 1] == '/')
		n--;
	for (at = n; at > 0 && path[at - 1] != '/';)
		at--;
	if (n - at > NAME_MAX)
		return too_long(path, e);
	memcpy(p->name, path + at, n - at);
	p->name[n - at] = '\0';
	if (n == at || strcmp(p->name, ".") == 0 || strcmp(p->name, "..") == 0)
		return err_set(e, EINVAL, "%.160s: a path must end in a name",
			       path);
	memcpy(dir, at ? path : ".", at ? at : 1);
	dir[at ? at : 1] = '\0';
	if (parents && make_parents(dir, e) < 0)
		return -e->code;
	p->dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return p->dir_fd < 0 ? err_sys(e, "%.160s", path) : 0;
}

int place_find(struct place *p, const char *path, struct stat *st,
	       struct err *e)
{
	int r = place_open(p, path, false, e);

	if (r == 0 && fstatat(p->dir_fd, p->name, st, AT_SYMLINK_NOFOLLOW) < 0)
		r = err_sys(e, "%.160s", path);
	return r;
}

void place_done(struct place *p)
{
	auto_close(&p->dir_fd);
}
