#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/file/file.h"
#include "base/auto.h"

enum { TRIES = 64 }; /* while others rename what we go through */

static int within_fd = -1;
static const char *within_dir;

int within_choose(const char *dir, struct err *e)
{
	within_dir = dir;
	within_fd = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return within_fd < 0 ? err_sys(e, "%.160s", dir) : 0;
}

/* `path` as seen from there; NULL: it does not start there. */
static const char *rest_within(const char *path)
{
	size_t n = strlen(within_dir);

	if (strncmp(path, within_dir, n) != 0 || (path[n] && path[n] != '/'))
		return NULL;
	path += n + strspn(path + n, "/");
	return *path ? path : ".";
}

int path_open(const char *path, int flags)
{
	struct open_how how = {
		.flags = (uint64_t)flags | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	const char *rest;
	long fd = -1;
	int i;

	if (within_fd < 0)
		return open(path, flags | O_CLOEXEC);
	rest = rest_within(path);
	errno = rest ? EAGAIN : EXDEV;
	for (i = 0; i < TRIES && fd < 0 && errno == EAGAIN; i++)
		fd = syscall(SYS_openat2, within_fd, rest, &how, sizeof(how));
	return (int)fd;
}

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

static int open_step(int dir_fd, const char *name, const char *path, int flags)
{
	return within_fd < 0 ? openat(dir_fd, name, flags)
			     : path_open(path, flags);
}

/* The directory `name` of `*dir_fd`, made if it is missing, in its place. The
 * whole path to it is `path`. */
static int step_into(int *dir_fd, const char *name, const char *path)
{
	int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
	int fd = open_step(*dir_fd, name, path, flags);

	if (fd < 0 && errno == ENOENT) {
		bool made = mkdirat(*dir_fd, name, 0755) == 0;
		int r = 0;

		if (!made && errno != EEXIST)
			return -errno;
		fd = made ? openat(*dir_fd, name, flags | O_NOFOLLOW)
			  : open_step(*dir_fd, name, path, flags);
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
	bool within = within_fd >= 0 && rest_within(path);
	AUTO_CLOSE int fd = open(within         ? within_dir
				 : *path == '/' ? "/"
						: ".",
				 O_PATH | O_DIRECTORY | O_CLOEXEC);
	const char *at = within ? path + strlen(within_dir) : path;
	char name[NAME_MAX + 1], sofar[PATH_MAX];
	bool bad;

	if (fd < 0)
		return err_sys(e, "open the current directory");
	while (next_name(&at, name, &bad)) {
		int r = -ENAMETOOLONG;

		if ((size_t)(at - path) < sizeof(sofar)) {
			memcpy(sofar, path, (size_t)(at - path));
			sofar[at - path] = '\0';
			r = step_into(&fd, name, sofar);
		}

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
	p->dir_fd = path_open(dir, O_PATH | O_DIRECTORY);
	return p->dir_fd < 0 ? err_sys(e, "%.160s", path) : 0;
}

int place_look(struct place *p, const char *path, struct err *e)
{
	const char *rest = within_fd < 0 ? NULL : rest_within(path);

	if (!rest || strcmp(rest, ".") != 0)
		return place_open(p, path, false, e);
	memcpy(p->name, ".", 2);
	p->dir_fd = path_open(path, O_PATH | O_DIRECTORY);
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
