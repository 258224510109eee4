/*
 * The entries of a directory and, with a depth, of those in it: each directory
 * in front of what it contains, names in the order of their bytes. So a list
 * that was cut at its limit goes on behind the last path that it showed,
 * whatever came and went meanwhile, and however many entries there are, no
 * more names are kept than can be shown.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/file/file.h"
#include "base/auto.h"

struct list_job {
	uint64_t left; /* entries */
	bool more;     /* there were others */
	struct buf path;
};

/* The first `cap` names of a directory: a heap, the last of them on top. */
struct names {
	char **v;
	size_t n, cap;
};

static void names_done(struct names *s)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		free(s->v[i]);
	free(s->v);
}

static void swap(char **a, char **b)
{
	char *t = *a;

	*a = *b;
	*b = t;
}

static void sift_up(struct names *s, size_t i)
{
	for (; i > 0 && strcmp(s->v[i], s->v[(i - 1) / 2]) > 0; i = (i - 1) / 2)
		swap(&s->v[i], &s->v[(i - 1) / 2]);
}

static void sift_down(struct names *s)
{
	size_t i = 0, sub;

	while ((sub = 2 * i + 1) < s->n) {
		if (sub + 1 < s->n && strcmp(s->v[sub + 1], s->v[sub]) > 0)
			sub++;
		if (strcmp(s->v[i], s->v[sub]) >= 0)
			return;
		swap(&s->v[i], &s->v[sub]);
		i = sub;
	}
}

static void names_offer(struct names *s, const char *name)
{
	if (s->n < s->cap) {
		if ((s->n & (s->n - 1)) == 0) /* 0, 1, 2, 4...: it is full */
			s->v = xrealloc(s->v,
					(s->n ? 2 * s->n : 1) * sizeof(*s->v));
		s->v[s->n++] = xstrdup(name);
		sift_up(s, s->n - 1);
		return;
	}
	if (s->n == 0 || strcmp(name, s->v[0]) >= 0)
		return;
	free(s->v[0]);
	s->v[0] = xstrdup(name);
	sift_down(s);
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names from `from` on, it included; takes the descriptor over. */
static int names_read(struct names *s, int fd, const char *from)
{
	AUTO_DIR DIR *d = dir_stream(fd);
	const char *name;

	if (!d)
		return -ENOMEM;
	while ((name = dir_next(d)))
		if (strcmp(name, from) >= 0)
			names_offer(s, name);
	if (errno)
		return -errno;
	if (s->n > 0)
		qsort(s->v, s->n, sizeof(*s->v), by_bytes);
	return 0;
}

static int list_dir(struct list_job *l, int fd, uint64_t depth,
		    const char *after, struct err *e);

/* A directory's descriptor, or -1 when there is nothing to go into. */
static int enter(struct list_job *l, int at, const char *name, bool *is_dir)
{
	struct stat st;

	*is_dir = fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		  S_ISDIR(st.st_mode);
	if (!*is_dir || buf_len(&l->path) + NAME_MAX + 1 > FILE_PATH_MAX)
		return -1;
	return dir_open(at, name, false);
}

/* As told by any file system, or by /proc about a process. */
static bool is_gone(int r)
{
	return r == -ENOENT || r == -ESRCH;
}

/* One that is gone since its name was read was never there. */
static int show(struct list_job *l, int at, const char *name, bool unreadable,
		struct err *e)
{
	struct err own = { 0 };
	int r = unreadable
			? out_entry_unreadable(at, name, buf_data(&l->path),
					       &own)
			: out_entry(at, name, buf_data(&l->path), false, &own);

	if (is_gone(r))
		return 0;
	l->left--;
	if (r < 0)
		*e = own;
	return r;
}

/*
 * `after` is NULL, or what is left of the path to go on behind: "" when this
 * is the very entry that was shown last.
 */
static int list_one(struct list_job *l, int at, const char *name,
		    uint64_t depth, const char *after, struct err *e)
{
	struct err own = { 0 };
	bool is_dir = false;
	int fd = -1, r = 0;

	if (depth > 1)
		fd = enter(l, at, name, &is_dir);
	if (!after)
		r = show(l, at, name, is_dir && fd < 0, e);
	if (fd < 0)
		return r;
	if (r < 0) {
		close(fd);
		return r;
	}
	/* It may go while it is read; then it had nothing in it. */
	r = list_dir(l, fd, depth - 1, after ? after : "", &own);
	if (r == 0 || is_gone(r))
		return 0;
	*e = own;
	return r;
}

static int list_names(struct list_job *l, int fd, const struct names *s,
		      uint64_t depth, const char *after, struct err *e)
{
	size_t n = strcspn(after, "/"), i;
	int r = 0;

	for (i = 0; i < s->n && r == 0 && !l->more; i++) {
		const char *name = s->v[i], *rest = NULL;
		size_t was;

		if (n > 0 && strlen(name) == n && memcmp(name, after, n) == 0)
			rest = after + n + strspn(after + n, "/");
		/* It counts when it would be shown. */
		if (l->left == 0 && !rest) {
			l->more = true;
			break;
		}
		was = path_push(&l->path, name);
		if (buf_len(&l->path) <= FILE_PATH_MAX)
			r = list_one(l, fd, name, depth, rest, e);
		path_pop(&l->path, was);
	}
	return r;
}

/* Takes the descriptor over. */
static int list_dir(struct list_job *l, int fd, uint64_t depth,
		    const char *after, struct err *e)
{
	AUTO_CLOSE int dir_fd = fd;
	/* One more than can be shown tells that there is more, and one may be
	 * the one that was shown already. */
	AUTO(names_done) struct names s = { .cap = (size_t)l->left + 2 };
	char from[NAME_MAX + 1];
	size_t n = strcspn(after, "/");
	int r;

	if (n > NAME_MAX)
		return err_set(e, EINVAL,
			       "there cannot be a path to go on "
			       "behind that is so long");
	memcpy(from, after, n);
	from[n] = '\0';
	fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
	r = fd < 0 ? -errno : names_read(&s, fd, from);
	if (r < 0) {
		errno = -r;
		return err_sys(e, "%.160s", buf_data(&l->path));
	}
	return list_names(l, dir_fd, &s, depth, after, e);
}

/* The part of `after` that is below the directory; NULL when it is not. */
static const char *below(const char *dir, const char *after)
{
	size_t n = strlen(dir);

	if (strcmp(dir, "/") == 0)
		n = 0;
	if (strncmp(after, dir, n) != 0 || after[n] != '/')
		return NULL;
	return after + n + 1;
}

int job_list(const struct file_job *j, struct err *e)
{
	struct list_job l = { .left = j->limit };
	struct file_record end = { .kind = FILE_END };
	const char *after = "";
	int fd, r;

	if (j->depth < 1 || j->depth > FILE_DEPTH_MAX || j->limit < 1 ||
	    j->limit > FILE_LIST_MAX)
		return err_set(e, EINVAL,
			       "a depth is from 1 to %d, a limit from 1 to %d",
			       FILE_DEPTH_MAX, FILE_LIST_MAX);
	r = path_show(j->path, &l.path, e);
	if (r == 0 && j->after) {
		after = below(buf_data(&l.path), j->after);
		if (!after)
			r = err_set(e, EINVAL, "%.100s is not below %.100s",
				    j->after, buf_data(&l.path));
	}
	if (r == 0) {
		fd = path_open(j->path, O_RDONLY | O_DIRECTORY);
		r = fd < 0 ? err_sys(e, "%.160s", j->path)
			   : list_dir(&l, fd, j->depth, after, e);
	}
	buf_done(&l.path);
	end.more = l.more;
	return r < 0 ? r : out_record(&end, e);
}
