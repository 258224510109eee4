#include "worker/users.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "wire/agent_args.h"
#include "worker/limits.h"
#include "worker/tree.h"

/* The first that the image does not use for somebody else. */
static const char *const names[] = { "user", "sandbox", "user1000" };

/* The next line of [*at, end), without its newline, or NULL. */
static const char *next_line(const char **at, const char *end, size_t *len)
{
	const char *line = *at, *nl;

	if (line >= end)
		return NULL;
	nl = memchr(line, '\n', (size_t)(end - line));
	*len = (size_t)((nl ? nl : end) - line);
	*at = nl ? nl + 1 : end;
	return line;
}

/* Field `i` of a line, or NULL. */
static const char *field(const char *line, size_t len, int i, size_t *n)
{
	const char *end = line + len, *colon;

	for (; line <= end; line = colon + 1) {
		colon = memchr(line, ':', (size_t)(end - line));
		if (!colon)
			colon = end;
		if (i-- == 0) {
			*n = (size_t)(colon - line);
			return line;
		}
	}
	return NULL;
}

static bool lines_have(const char *text, size_t n, int i, const char *want)
{
	const char *at = text, *line, *f;
	size_t len, f_len;

	while ((line = next_line(&at, text + n, &len))) {
		f = field(line, len, i, &f_len);
		if (f && f_len == strlen(want) && memcmp(f, want, f_len) == 0)
			return true;
	}
	return false;
}

bool lines_have_id(const char *text, size_t n, unsigned id)
{
	char want[16];

	snprintf(want, sizeof(want), "%u", id);
	return lines_have(text, n, 2, want);
}

bool lines_have_name(const char *text, size_t n, const char *name)
{
	return lines_have(text, n, 0, name);
}

/*
 * /etc/passwd or /etc/group, opened to read and append, made when missing,
 * and its text. A link is followed inside of the image.
 */
static int open_lines(int root_fd, const char *path, struct buf *text,
		      struct err *e)
{
	AUTO_CLOSE int fd = tree_open_inside(
		root_fd, path, O_RDWR | O_APPEND | O_CREAT | O_NONBLOCK, 0644);
	struct stat st;
	ssize_t n;

	if (fd < 0) {
		errno = -fd;
		return err_sys(e, "open /%s of this image", path);
	}
	if (fstat(fd, &st) < 0)
		return err_sys(e, "look at /%s", path);
	if (!S_ISREG(st.st_mode) || st.st_size > IMAGE_TEXT_MAX)
		return err_set(e, EBADMSG,
			       "/%s of this image is not a file of at most "
			       "1 MiB",
			       path);
	n = read_full(fd, buf_room(text, (size_t)st.st_size + 1),
		      (size_t)st.st_size);
	if (n < 0) {
		errno = (int)-n;
		return err_sys(e, "read /%s", path);
	}
	buf_fill(text, (size_t)n);
	return take_fd(&fd);
}

static int append_line(int fd, const struct buf *text, const char *line,
		       struct err *e)
{
	size_t n = buf_len(text);
	int r = 0;

	if (n > 0 && buf_data(text)[n - 1] != '\n')
		r = write_full(fd, "\n", 1);
	if (r == 0)
		r = write_full(fd, line, strlen(line));
	if (r < 0) {
		errno = -r;
		return err_sys(e, "add a line to the image's users");
	}
	return 0;
}

static const char *free_name(const struct buf *passwd, const struct buf *group)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(names); i++)
		if (!lines_have_name(buf_data(passwd), buf_len(passwd),
				     names[i]) &&
		    !lines_have_name(buf_data(group), buf_len(group), names[i]))
			return names[i];
	return NULL;
}

/* Without a real directory /home (prepare.c made sure) this cannot leave. */
static int make_home(int root_fd, const char *name, struct err *e)
{
	AUTO_CLOSE int home_fd =
		tree_open(root_fd, "home", O_PATH | O_DIRECTORY, 0);

	if (home_fd < 0) {
		errno = -home_fd;
		return err_sys(e, "open /home");
	}
	if (mkdirat(home_fd, name, 0755) < 0)
		return errno == EEXIST ? 0 : err_sys(e, "make /home/%s", name);
	if (fchownat(home_fd, name, SANDBOX_UID, SANDBOX_UID,
		     AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "give /home/%s to its user", name);
	return 0;
}

static const char *shell_of(int root_fd)
{
	AUTO_CLOSE int fd = tree_open_inside(root_fd, "bin/bash", O_PATH, 0);

	return fd >= 0 ? "/bin/bash" : "/bin/sh";
}

static int add_user(int root_fd, int passwd_fd, const struct buf *passwd,
		    const char *name, struct err *e)
{
	char line[256];
	int r = 0;

	/* A root without a name confuses whoami, git and ssh. */
	if (buf_len(passwd) == 0)
		r = append_line(passwd_fd, passwd,
				"root:x:0:0:root:/root:/bin/sh\n", e);
	if (r < 0)
		return r;
	snprintf(line, sizeof(line), "%s:x:%d:%d::/home/%s:%s\n", name,
		 SANDBOX_UID, SANDBOX_UID, name, shell_of(root_fd));
	r = append_line(passwd_fd, passwd, line, e);
	return r < 0 ? r : make_home(root_fd, name, e);
}

static int add_group(int group_fd, const struct buf *group, const char *name,
		     struct err *e)
{
	char line[64];
	int r = 0;

	if (buf_len(group) == 0)
		r = append_line(group_fd, group, "root:x:0:\n", e);
	if (r < 0)
		return r;
	snprintf(line, sizeof(line), "%s:x:%d:\n", name, SANDBOX_UID);
	return append_line(group_fd, group, line, e);
}

int users_prepare(int root_fd, struct err *e)
{
	AUTO(buf_done) struct buf passwd = { 0 }, group = { 0 };
	AUTO_CLOSE int passwd_fd = -1, group_fd = -1;
	const char *name;
	bool has_user, has_group;
	int r = 0;

	passwd_fd = open_lines(root_fd, "etc/passwd", &passwd, e);
	if (passwd_fd < 0)
		return passwd_fd;
	group_fd = open_lines(root_fd, "etc/group", &group, e);
	if (group_fd < 0)
		return group_fd;
	has_user =
		lines_have_id(buf_data(&passwd), buf_len(&passwd), SANDBOX_UID);
	has_group =
		lines_have_id(buf_data(&group), buf_len(&group), SANDBOX_UID);
	if (has_user && has_group)
		return 0;
	name = free_name(&passwd, &group);
	if (!name)
		return err_set(e, EBADMSG,
			       "no name is free in /etc/passwd for uid %d: "
			       "give the image a user of that id",
			       SANDBOX_UID);
	if (!has_user)
		r = add_user(root_fd, passwd_fd, &passwd, name, e);
	if (r == 0 && !has_group)
		r = add_group(group_fd, &group, name, e);
	return r;
}
