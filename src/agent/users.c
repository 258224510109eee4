#include "agent/users.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "wire/agent_args.h"

struct slice {
	const char *p;
	size_t n;
};

/* Cuts the front of `s` up to `sep` off; false when nothing is left. */
static bool cut(struct slice *s, char sep, struct slice *front)
{
	const char *at;

	if (!s->p)
		return false;
	at = s->n ? memchr(s->p, sep, s->n) : NULL;
	front->p = s->p;
	front->n = at ? (size_t)(at - s->p) : s->n;
	if (at) {
		s->n -= front->n + 1;
		s->p = at + 1;
	} else {
		s->p = NULL;
		s->n = 0;
	}
	return true;
}

static bool slice_is(struct slice s, const char *text)
{
	return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

/* Ids beyond the sandbox's map do not exist inside. */
static bool slice_id(struct slice s, uint32_t *out)
{
	uint32_t v = 0;
	size_t i;

	if (s.n == 0)
		return false;
	for (i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		v = v * 10 + (uint32_t)(s.p[i] - '0');
		if (v >= SANDBOX_IDS)
			return false;
	}
	*out = v;
	return true;
}

static bool slice_copy(struct slice s, char *out, size_t cap)
{
	if (s.n >= cap || (s.n && memchr(s.p, '\0', s.n)))
		return false;
	memcpy(out, s.p, s.n);
	out[s.n] = '\0';
	return true;
}

enum { NAME, PASSWORD, UID, GID, GECOS, HOME, SHELL, FIELDS };

static bool passwd_line(struct slice line, struct user *u)
{
	struct slice f[FIELDS];
	size_t i;

	for (i = 0; i < FIELDS; i++)
		if (!cut(&line, ':', &f[i]))
			return false;
	if (line.p || f[NAME].n == 0)
		return false;
	if (!slice_id(f[UID], &u->uid) || !slice_id(f[GID], &u->gid))
		return false;
	if (!slice_copy(f[NAME], u->name, sizeof(u->name)) ||
	    !slice_copy(f[HOME], u->home, sizeof(u->home)) ||
	    !slice_copy(f[SHELL], u->shell, sizeof(u->shell)))
		return false;
	if (u->home[0] != '/')
		memcpy(u->home, "/", 2);
	if (u->shell[0] != '/')
		memcpy(u->shell, "/bin/sh", sizeof("/bin/sh"));
	return true;
}

int passwd_find(const char *text, size_t n, const char *name, uid_t uid,
		struct user *u)
{
	struct slice all = { text, n }, line;
	struct user one;

	while (cut(&all, '\n', &line)) {
		if (!passwd_line(line, &one))
			continue;
		if (name ? strcmp(one.name, name) != 0 : one.uid != uid)
			continue;
		one.n_groups = 0;
		*u = one;
		return 1;
	}
	return 0;
}

static void add_group(struct user *u, gid_t gid)
{
	size_t i;

	for (i = 0; i < u->n_groups; i++)
		if (u->groups[i] == gid)
			return;
	if (u->n_groups < USER_GROUPS_MAX)
		u->groups[u->n_groups++] = gid;
}

void group_collect(const char *text, size_t n, struct user *u)
{
	struct slice all = { text, n }, line, name, password, gid, member;
	uint32_t id;

	while (cut(&all, '\n', &line)) {
		if (!cut(&line, ':', &name) || !cut(&line, ':', &password) ||
		    !cut(&line, ':', &gid) || !slice_id(gid, &id))
			continue;
		while (cut(&line, ',', &member))
			if (slice_is(member, u->name))
				add_group(u, id);
	}
}

int group_find(const char *text, size_t n, gid_t gid, char *name, size_t cap)
{
	struct slice all = { text, n }, line, front, password, id;
	uint32_t v;

	while (cut(&all, '\n', &line))
		if (cut(&line, ':', &front) && cut(&line, ':', &password) &&
		    cut(&line, ':', &id) && slice_id(id, &v) && v == gid &&
		    front.n > 0 && slice_copy(front, name, cap))
			return 1;
	return 0;
}

/*
 * Only a regular file, without following /proc's magic links and without ever
 * waiting (a fifo). The size that stat tells is what is read: files of /proc
 * have none, so a link to them reads as empty.
 */
void user_file_read(const char *path, struct buf *b)
{
	struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
		.resolve = RESOLVE_NO_MAGICLINKS,
	};
	AUTO_CLOSE int fd = -1;
	struct stat st;
	ssize_t got;
	size_t n;

	fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	n = st.st_size < USER_FILE_MAX ? (size_t)st.st_size : USER_FILE_MAX;
	got = read_full(fd, buf_room(b, n + 1), n);
	if (got > 0)
		buf_fill(b, (size_t)got);
}

/* A number without a line in the file: docker's images often have none. */
static void user_bare(struct user *u, uid_t uid)
{
	*u = (struct user){ .uid = uid, .gid = uid, .home = "/" };
	memcpy(u->shell, "/bin/sh", sizeof("/bin/sh"));
	if (uid == 0)
		memcpy(u->name, "root", sizeof("root"));
	else if (uid == SANDBOX_UID)
		memcpy(u->name, "user", sizeof("user"));
	else
		snprintf(u->name, sizeof(u->name), "%u", uid);
}

static int find_in(const struct buf *file, const char *who, struct user *u,
		   struct err *e)
{
	const char *text = buf_data(file);
	uint64_t uid = SANDBOX_UID;

	if (*who && passwd_find(text, buf_len(file), who, 0, u))
		return 0;
	if (*who && parse_u64(who, SANDBOX_IDS - 1, &uid) < 0)
		return err_set(e, EINVAL,
			       "user '%.64s' is not in the sandbox's "
			       "/etc/passwd; use a name from there or a number "
			       "below %d",
			       who, SANDBOX_IDS);
	if (!passwd_find(text, buf_len(file), NULL, (uid_t)uid, u))
		user_bare(u, (uid_t)uid);
	return 0;
}

int user_find(const char *who, struct user *u, struct err *e)
{
	struct buf file = { 0 };
	int r;

	user_file_read("/etc/passwd", &file);
	r = find_in(&file, who, u, e);
	buf_clear(&file);
	if (r == 0) {
		add_group(u, u->gid);
		user_file_read("/etc/group", &file);
		group_collect(buf_data(&file), buf_len(&file), u);
	}
	buf_done(&file);
	return r;
}
