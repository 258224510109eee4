/*
 * host.merge: takes over changes that were made elsewhere, while everything
 * that belongs to users stands still. It runs as root of the sandbox, apart
 * from its processes (builtin.h), and touches only what it is told to.
 *
 *	the list	"+PATH" put, "-PATH" remove; or, where something else
 *			gives way, "*PATH" put, also through what is no
 *			directory, "!PATH" remove with all that is in it; each
 *			with its NUL, a lone NUL ends it
 *	a tar		what is to be put, and perhaps more; none without a put
 *	the end		MERGE_END: without it nothing happens
 *
 * Everything is brought to a directory of our own first, with owner, mode,
 * attributes and time: what may fail for want of space, fails there. Then the
 * names change, one after the other. A client that goes before that leaves
 * nothing behind; one that goes later is not waited for, and all is done.
 *
 * Names lead nowhere else: no link and no mount is followed, also by root.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <search.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "agent/file/file.h"
#include "agent/file/tar_in.h"
#include "base/auto.h"
#include "base/fd.h"

#define STAGE ".merge~under~way"

/* One line of the list. */
struct item {
	char what; /* '+', '*', '-', '!' */
	const char *path;
};

/* One entry of the tar. */
struct node {
	const char *path; /* first: compared by it */
	unsigned number;  /* its name in the stage; 0: a directory */
	mode_t mode;
	uid_t uid;
	gid_t gid;
	struct timespec mtime;
	struct buf pax;
};

struct merge {
	struct tar_in in;
	int root_fd, stage_fd;
	struct buf list; /* its bytes */
	struct item *items;
	size_t n_items, n_puts;
	void *nodes; /* tsearch(3), by path */
	unsigned n_nodes, n_staged;
	uint64_t entries, bytes;
};

/* --- the list --- */

static bool is_put(const struct item *it)
{
	return it->what == '+' || it->what == '*';
}

static int bad_list(struct err *e)
{
	return err_set(e, EBADMSG, "the list of changes is malformed");
}

/* A path in the form "a/b/c". */
static bool is_clean(const char *path)
{
	const char *p = path;

	for (;;) {
		size_t n = strcspn(p, "/");

		if (n == 0 || n > NAME_MAX || (n == 1 && p[0] == '.') ||
		    (n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		if (p[n] == '\0')
			return p - path + n <= FILE_PATH_MAX;
		p += n + 1;
	}
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct item *)a)->path,
		      ((const struct item *)b)->path);
}

static int parse_list(struct merge *m, struct err *e)
{
	char *p = buf_data(&m->list), *end = p + buf_len(&m->list);
	size_t i;

	m->items = xcalloc(MERGE_PATHS_MAX, sizeof(*m->items));
	for (; p < end; p += strlen(p) + 1) {
		struct item it = { *p, p + 2 };

		if (*p == '\0' || !strchr("+*-!", *p) || p[1] != '/' ||
		    !is_clean(it.path) || m->n_items == MERGE_PATHS_MAX)
			return bad_list(e);
		m->items[m->n_items++] = it;
		m->n_puts += is_put(&it);
	}
	qsort(m->items, m->n_items, sizeof(*m->items), by_path);
	for (i = 1; i < m->n_items; i++)
		if (strcmp(m->items[i - 1].path, m->items[i].path) == 0)
			return bad_list(e);
	return 0;
}

static int read_list(struct merge *m, struct err *e)
{
	bool start = true;
	char c;

	for (;;) {
		ssize_t n = tar_in_take(&m->in, &c, 1, e);

		if (n < 0)
			return (int)n;
		if (n == 0 || buf_len(&m->list) == MERGE_LIST_MAX)
			return bad_list(e);
		if (c == '\0' && start)
			return parse_list(m, e);
		start = c == '\0';
		buf_add(&m->list, &c, 1);
	}
}

/* --- the stage --- */

static int compare_nodes(const void *a, const void *b)
{
	return strcmp(((const struct node *)a)->path,
		      ((const struct node *)b)->path);
}

static struct node *find_node(const struct merge *m, const char *path)
{
	const struct node key = { .path = path };
	void *found = tfind(&key, &m->nodes, compare_nodes);

	return found ? *(struct node **)found : NULL;
}

static void free_node(void *p)
{
	struct node *n = p;

	free((char *)n->path);
	buf_done(&n->pax);
	free(n);
}

static void free_nodes(struct merge *m)
{
	while (m->nodes) {
		struct node *n = *(struct node **)m->nodes;

		tdelete(n, &m->nodes, compare_nodes);
		free_node(n);
	}
}

static int add_node(struct merge *m, unsigned number, struct err *e)
{
	const struct tar_entry *t = &m->in.entry;
	struct node *n;

	if (find_node(m, t->path))
		return err_set(e, EBADMSG, "%.160s comes twice", t->path);
	if (m->n_nodes++ == 2 * MERGE_PATHS_MAX)
		return err_set(e, E2BIG, "there are too many changes");
	n = xcalloc(1, sizeof(*n));
	*n = (struct node){ .path = xstrdup(t->path),
			    .number = number,
			    .mode = t->mode,
			    .uid = t->uid,
			    .gid = t->gid,
			    .mtime = t->mtime };
	if (number == 0)
		buf_add(&n->pax, buf_data(&m->in.pax), buf_len(&m->in.pax));
	if (!tsearch(n, &m->nodes, compare_nodes)) {
		free_node(n);
		return err_set(e, ENOMEM, "no memory");
	}
	return 0;
}

static void stage_name(unsigned number, char name[16])
{
	snprintf(name, 16, "%u", number);
}

static int fail(const char *path, struct err *e)
{
	return err_sys(e, "/%.160s", path);
}

static int set_attr(void *ctx, const char *name, const void *value, size_t n)
{
	/* Others are not ours to set, and none were there. */
	if (strncmp(name, "user.", 5) != 0)
		return 0;
	return fsetxattr(*(int *)ctx, name, value, n, 0) < 0 ? -errno : 0;
}

static int set_attrs(int fd, const struct buf *pax)
{
	return tar_pax_attrs(buf_data(pax), buf_len(pax), set_attr, &fd);
}

static int stage_file(struct merge *m, const char *name, struct err *e)
{
	const struct tar_entry *t = &m->in.entry;
	const struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, t->mtime };
	AUTO_CLOSE int fd = openat(
		m->stage_fd, name,
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	uint64_t at = 0;
	const char *p;
	ssize_t n;
	int r;

	if (fd < 0)
		return fail(t->path, e);
	while ((n = tar_in_piece(&m->in, &p, e)) > 0) {
		r = sparse_write(fd, p, (size_t)n, at);
		if (r < 0) {
			errno = -r;
			return fail(t->path, e);
		}
		at += (uint64_t)n;
	}
	if (n < 0)
		return (int)n;
	m->bytes += at;
	if (ftruncate(fd, (off_t)at) < 0)
		return fail(t->path, e);
	r = set_attrs(fd, &m->in.pax);
	if (r < 0) {
		errno = -r;
		return fail(t->path, e);
	}
	/* In this order: a new owner takes set-id bits away. */
	if (fchown(fd, t->uid, t->gid) < 0 || fchmod(fd, t->mode) < 0 ||
	    futimens(fd, times) < 0)
		return fail(t->path, e);
	return 0;
}

static int stage_other(struct merge *m, const char *name, struct err *e)
{
	const struct tar_entry *t = &m->in.entry;
	const struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, t->mtime };
	bool link = t->type == TAR_SYMLINK;

	if (link ? symlinkat(t->link, m->stage_fd, name) < 0
		 : mkfifoat(m->stage_fd, name, 0600) < 0)
		return fail(t->path, e);
	if (fchownat(m->stage_fd, name, t->uid, t->gid, AT_SYMLINK_NOFOLLOW) <
		    0 ||
	    (!link && fchmodat(m->stage_fd, name, t->mode, 0) < 0) ||
	    utimensat(m->stage_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(t->path, e);
	return 0;
}

static int stage_hardlink(struct merge *m, const char *name, struct err *e)
{
	const struct node *other;
	char from[16];

	if (tar_name_clean(m->in.entry.link, "link target", e) < 0)
		return -e->code;
	other = find_node(m, m->in.entry.link);
	if (!other || other->number == 0)
		return err_set(e, EBADMSG,
			       "%.100s is a link to %.100s, which is not there",
			       m->in.entry.path, m->in.entry.link);
	stage_name(other->number, from);
	if (linkat(m->stage_fd, from, m->stage_fd, name, 0) < 0)
		return fail(m->in.entry.path, e);
	return 0;
}

/* Also what is not in the list: something in it may be a link to that. */
static int stage_entry(struct merge *m, struct err *e)
{
	const struct tar_entry *t = &m->in.entry;
	char name[16];
	int r;

	if (tar_name_clean(m->in.entry.path, "entry", e) < 0)
		return -e->code;
	if (t->path[0] == '\0') /* the root is always there */
		return 0;
	if (m->in.sparse)
		return err_set(e, ENOTSUP, "%.160s is stored as a sparse file",
			       t->path);
	if (t->type == TAR_DIR)
		return add_node(m, 0, e);
	stage_name(m->n_staged + 1, name);
	if (t->type == TAR_FILE)
		r = stage_file(m, name, e);
	else if (t->type == TAR_SYMLINK || t->type == TAR_FIFO)
		r = stage_other(m, name, e);
	else if (t->type == TAR_HARDLINK)
		r = stage_hardlink(m, name, e);
	else
		return 0; /* not for the likes of us; missed if it is wanted */
	return r < 0 ? r : add_node(m, ++m->n_staged, e);
}

static int stage_open(struct merge *m, struct err *e)
{
	struct stat st;

	/* What one that was killed has left. */
	if (fstatat(m->root_fd, STAGE, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		if (S_ISDIR(st.st_mode)) {
			if (tree_unlink(m->root_fd, STAGE, "/" STAGE, e) < 0)
				return -e->code;
		} else if (unlinkat(m->root_fd, STAGE, 0) < 0) {
			return fail(STAGE, e);
		}
	}
	if (mkdirat(m->root_fd, STAGE, 0700) < 0)
		return fail(STAGE, e);
	m->stage_fd = dir_open(m->root_fd, STAGE, true);
	if (m->stage_fd >= 0)
		return 0;
	errno = -m->stage_fd;
	return fail(STAGE, e);
}

/* Is everything there that is to be put? */
static int check_staged(const struct merge *m, struct err *e)
{
	size_t i;

	for (i = 0; i < m->n_items; i++)
		if (is_put(&m->items[i]) && !find_node(m, m->items[i].path))
			return err_set(e, EBADMSG,
				       "/%.160s cannot be taken over: it is "
				       "no file, directory, link or pipe",
				       m->items[i].path);
	return 0;
}

/*
 * Reads the end record, which proves that the list and the tar are complete.
 * EOF on stdin cannot serve as the mark: a process that is forked meanwhile
 * inherits the pipe and may be frozen before it closes its copy.
 */
static int await_end(struct merge *m, struct err *e)
{
	ssize_t n;
	char c;

	/* Zeros are the rest of the tar's end. */
	do
		n = tar_in_take(&m->in, &c, 1, e);
	while (n == 1 && c == '\0');
	if (n < 0)
		return (int)n;
	return n == 1 && c == MERGE_END ? 0 : bad_list(e);
}

static int stage_all(struct merge *m, struct err *e)
{
	int r = stage_open(m, e);

	m->in.followed = true;
	if (r < 0)
		return r;
	while (m->n_puts > 0 && (r = tar_in_next(&m->in, e)) > 0) {
		r = stage_entry(m, e);
		if (r < 0)
			break;
	}
	if (r == 0)
		r = await_end(m, e);
	return r < 0 ? r : check_staged(m, e);
}

/* --- places --- */

static const struct item *find_item(const struct merge *m, const char *path)
{
	const struct item key = { 0, path };

	return bsearch(&key, m->items, m->n_items, sizeof(key), by_path);
}

/* Does the list itself make room: is something above it put, or gone? */
static bool makes_room(const struct merge *m, char *dir)
{
	char *slash;

	for (;;) {
		if (find_item(m, dir))
			return true;
		slash = strrchr(dir, '/');
		if (!slash)
			return false;
		*slash = '\0';
	}
}

/* Before the first change: is the way free? */
static int check_place(const struct merge *m, const struct item *it,
		       struct err *e)
{
	char dir[FILE_PATH_MAX + 1];
	int fd = open_within(m->root_fd, it->path, O_PATH | O_NOFOLLOW);

	if (fd >= 0)
		close(fd);
	if (fd == -EXDEV)
		return err_set(e, EXDEV,
			       "/%.160s is on a volume, or covered by one",
			       it->path);
	if (it->what != '+' || (fd != -ENOTDIR && fd != -ELOOP))
		return 0;
	path_split(it->path, dir);
	if (makes_room(m, dir))
		return 0;
	return err_set(e, EEXIST,
		       "/%.160s: what it is to be in is no directory any more",
		       it->path);
}

static int check_places(const struct merge *m, struct err *e)
{
	size_t i;
	int r = 0;

	for (i = 0; i < m->n_items && r == 0; i++)
		r = check_place(m, &m->items[i], e);
	return r;
}

/* --- the changes --- */

static int drop_attrs(int fd)
{
	char names[XATTR_LIST_MAX];
	ssize_t n = flistxattr(fd, names, sizeof(names)), at;

	if (n < 0)
		return errno == ENOTSUP ? 0 : -errno;
	for (at = 0; at < n; at += (ssize_t)strlen(names + at) + 1)
		if (strncmp(names + at, "user.", 5) == 0 &&
		    fremovexattr(fd, names + at) < 0 && errno != ENODATA)
			return -errno;
	return 0;
}

static int dress_dir(int fd, const struct node *n)
{
	int r = drop_attrs(fd);

	if (r == 0)
		r = set_attrs(fd, &n->pax);
	if (r < 0)
		return r;
	if (fchown(fd, n->uid, n->gid) < 0 || fchmod(fd, n->mode) < 0)
		return -errno;
	return 0;
}

/* As the directory that it is in: nothing else is known of it. */
static int dress_alike(int fd, int at)
{
	struct stat st;

	if (fstat(at, &st) < 0 || fchown(fd, st.st_uid, st.st_gid) < 0 ||
	    fchmod(fd, st.st_mode & 0777) < 0)
		return -errno;
	return 0;
}

/* A directory that is missing, as the other side has it if it was sent. */
static int make_dir(const struct merge *m, int at, const char *name,
		    const char *path)
{
	const struct node *n = find_node(m, path);
	int fd, r;

	if (mkdirat(at, name, 0700) < 0)
		return -errno;
	fd = dir_open(at, name, true);
	if (fd < 0)
		return fd;
	r = n && n->number == 0 ? dress_dir(fd, n) : dress_alike(fd, at);
	if (r < 0)
		close(fd);
	return r < 0 ? r : fd;
}

/*
 * The directory `dir`, made with those above it if it is missing; `force`:
 * also in place of something else.
 */
static int enter(const struct merge *m, char *dir, bool force)
{
	AUTO_CLOSE int up = -1;
	int r = open_within(m->root_fd, dir, O_RDONLY | O_DIRECTORY);
	bool in_way = force && (r == -ENOTDIR || r == -ELOOP);
	const char *name;
	char *slash;

	if (r != -ENOENT && !in_way)
		return r;
	slash = strrchr(dir, '/');
	name = slash ? slash + 1 : dir;
	if (slash)
		*slash = '\0';
	up = enter(m, slash ? dir : dir + strlen(dir), force);
	if (slash)
		*slash = '/';
	if (up < 0)
		return take_fd(&up);
	/* Or what was in the way was above it, and is gone. */
	if (in_way && unlinkat(up, name, 0) < 0 && errno != ENOENT)
		return -errno;
	return make_dir(m, up, name, dir);
}

static int remove_item(const struct merge *m, const struct item *it,
		       struct err *e)
{
	char dir[FILE_PATH_MAX + 1];
	const char *name = path_split(it->path, dir);
	AUTO_CLOSE int fd =
		open_within(m->root_fd, dir, O_RDONLY | O_DIRECTORY);

	/* It went with what is above it. */
	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
		return 0;
	errno = -fd;
	if (fd < 0)
		return fail(it->path, e);
	if (unlinkat(fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return fail(it->path, e);
	if (unlinkat(fd, name, AT_REMOVEDIR) == 0)
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return fail(it->path, e);
	if (it->what == '!')
		return tree_unlink(fd, name, it->path, e);
	return out_note(e, "/%.400s: kept, it is not empty", it->path);
}

static int put_dir(const struct merge *m, int at, const char *name,
		   const struct node *n)
{
	int fd = dir_open(at, name, true), r;

	if (fd == -ENOTDIR || fd == -ELOOP) {
		if (unlinkat(at, name, 0) < 0)
			return -errno;
		fd = -ENOENT;
	}
	if (fd == -ENOENT)
		fd = make_dir(m, at, name, n->path);
	if (fd < 0)
		return fd;
	r = dress_dir(fd, n);
	close(fd);
	return r;
}

static int put_item(const struct merge *m, const struct item *it, struct err *e)
{
	const struct node *n = find_node(m, it->path);
	char dir[FILE_PATH_MAX + 1], from[16];
	const char *name = path_split(it->path, dir);
	AUTO_CLOSE int fd = enter(m, dir, it->what == '*');
	int r = fd < 0 ? fd : 0;

	if (r == 0 && n->number == 0)
		r = put_dir(m, fd, name, n);
	if (r == 0 && n->number) {
		stage_name(n->number, from);
		r = rename_at(m->stage_fd, from, fd, name, true);
		if (r == -EISDIR) {
			if (tree_unlink(fd, name, it->path, e) < 0)
				return -e->code;
			r = rename_at(m->stage_fd, from, fd, name, true);
		}
	}
	errno = -r;
	return r < 0 ? fail(it->path, e) : 0;
}

/* Last of all: what was put into them has changed it. */
static int set_dir_times(const struct merge *m, struct err *e)
{
	size_t i;

	for (i = 0; i < m->n_items; i++) {
		const struct node *n = find_node(m, m->items[i].path);
		AUTO_CLOSE int fd = -1;

		if (!is_put(&m->items[i]) || n->number)
			continue;
		fd = open_within(m->root_fd, n->path, O_RDONLY | O_DIRECTORY);
		if (fd < 0 ||
		    futimens(fd, (struct timespec[]){ { .tv_nsec = UTIME_NOW },
						      n->mtime }) < 0)
			return fail(n->path, e);
	}
	return 0;
}

static int change_all(struct merge *m, struct err *e)
{
	size_t i;
	int r = 0;

	for (i = m->n_items; i > 0 && r == 0; i--)
		if (!is_put(&m->items[i - 1])) {
			r = remove_item(m, &m->items[i - 1], e);
			m->entries++;
		}
	for (i = 0; i < m->n_items && r == 0; i++)
		if (is_put(&m->items[i])) {
			r = put_item(m, &m->items[i], e);
			m->entries++;
		}
	return r < 0 ? r : set_dir_times(m, e);
}

/* --- a client that goes --- */

static volatile sig_atomic_t client_gone;
static int nothing_fd = -1;

/* Whoever waits for input finds its end, and cleans up. */
static void on_hangup(int sig)
{
	(void)sig;
	client_gone = 1;
	dup2(nothing_fd, STDIN_FILENO);
}

static int catch_hangup(struct err *e)
{
	const struct sigaction act = { .sa_handler = on_hangup };

	nothing_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (nothing_fd < 0 || sigaction(SIGHUP, &act, NULL) < 0)
		return err_sys(e, "prepare for a client that goes");
	return 0;
}

/* What was cut off looks complete when it was cut at the right place. */
static int check_client(struct err *e)
{
	return client_gone ? err_set(e, ECANCELED, "the client is gone") : 0;
}

static void merge_done(struct merge *m)
{
	struct err ignored = { 0 };
	int r = 0;

	if (m->stage_fd >= 0)
		r = tree_unlink(m->root_fd, STAGE, "/" STAGE, &ignored);
	(void)r; /* the next one tries again */
	auto_close(&m->stage_fd);
	auto_close(&m->root_fd);
	signal(SIGHUP, SIG_IGN);
	auto_close(&nothing_fd);
	free_nodes(m);
	free(m->items);
	buf_done(&m->list);
	tar_in_done(&m->in);
	free(m);
}

int job_merge(const struct file_job *j, struct err *e)
{
	struct merge *m = xcalloc(1, sizeof(*m));
	struct file_record done = { .kind = FILE_UNPACKED };
	int r = catch_hangup(e);

	m->stage_fd = -1;
	m->root_fd = open(j->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r == 0 && m->root_fd < 0)
		r = err_sys(e, "%.160s", j->path);
	grow_pipe_of(STDIN_FILENO);
	if (r == 0)
		r = read_list(m, e);
	if (r == 0)
		r = stage_all(m, e);
	if (r == 0)
		r = check_places(m, e);
	if (r == 0)
		r = check_client(e);
	if (r == 0) {
		r = change_all(m, e);
		if (r < 0)
			err_wrap(e, MERGE_HALF);
	}
	done.unpacked.entries = m->entries;
	done.unpacked.bytes = m->bytes;
	merge_done(m);
	return r < 0 ? r : out_record(&done, e);
}
