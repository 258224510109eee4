/*
 * A tar of a directory, its entries named relative to it, or of one file. It
 * stays on the file system it starts on. Two names of one file become a hard
 * link; sockets and devices are left out. A file that cannot be read ends it:
 * an archive that lacks something must not look whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/file/file.h"
#include "base/auto.h"
#include "wire/tar.h"

enum {
	SMALL = 16 * 1024, /* content that is joined with its header */
	LINK_BUCKETS = 4096,
	LINKS_MAX = 65536, /* remembered; more become files of their own */
};

/* A file with several names, and the first of them. */
struct seen {
	struct seen *next;
	dev_t dev;
	ino_t ino;
	char path[];
};

struct packer {
	struct buf path; /* in the archive */
	unsigned depth, n_seen;
	struct seen *seen[LINK_BUCKETS];
	struct tar_entry entry;
};

static const char *seen_before(struct packer *k, const struct stat *st)
{
	struct seen **head = &k->seen[st->st_ino % LINK_BUCKETS], *s;
	size_t n = buf_len(&k->path);

	if (st->st_nlink < 2)
		return NULL;
	for (s = *head; s; s = s->next)
		if (s->ino == st->st_ino && s->dev == st->st_dev)
			return s->path;
	if (k->n_seen == LINKS_MAX)
		return NULL;
	k->n_seen++;
	s = xcalloc(1, sizeof(*s) + n + 1);
	s->dev = st->st_dev;
	s->ino = st->st_ino;
	memcpy(s->path, buf_data(&k->path), n);
	s->next = *head;
	*head = s;
	return NULL;
}

static void set_entry(struct packer *k, char type, const struct stat *st)
{
	struct tar_entry *t = &k->entry;
	size_t n = buf_len(&k->path);

	*t = (struct tar_entry){
		.type = type,
		.mode = st->st_mode & FILE_MODE_MAX,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.mtime = st->st_mtim,
	};
	memcpy(t->path, buf_data(&k->path), n);
	if (type == TAR_DIR && n > 0 && t->path[n - 1] != '/')
		t->path[n] = '/';
	snprintf(t->user, sizeof(t->user), "%s", user_name(st->st_uid));
	snprintf(t->group, sizeof(t->group), "%s", group_name(st->st_gid));
}

static int put_head(struct packer *k, struct err *e)
{
	AUTO(buf_done) struct buf b = { 0 };

	tar_head_put(&b, &k->entry);
	return out_bytes(buf_data(&b), buf_len(&b), e);
}

static int put_zeros(uint64_t n, struct err *e)
{
	static const char zeros[16 * 1024];
	int r = 0;

	while (n > 0 && r == 0) {
		size_t some = n < sizeof(zeros) ? (size_t)n : sizeof(zeros);

		r = out_bytes(zeros, some, e);
		n -= some;
	}
	return r;
}

static int put_small(int fd, uint64_t *left, struct err *e)
{
	char bytes[SMALL];
	size_t got = 0;

	while (got < *left) {
		ssize_t n = read(fd, bytes + got, (size_t)*left - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "read a file");
		if (n == 0)
			break;
		got += (size_t)n;
	}
	*left -= got;
	/* cppcheck-suppress uninitvar ; no byte is read when got is 0 */
	return out_bytes(bytes, got, e);
}

/* What it lost while it was read is zeros, so that the archive stays one. */
static int put_content(struct packer *k, int fd, struct err *e)
{
	uint64_t left = k->entry.size;
	int r;

	if (left <= SMALL) {
		r = put_small(fd, &left, e);
	} else {
		r = out_flush(e);
		if (r == 0)
			r = send_bytes(fd, k->entry.path, &left, e);
	}
	if (r == 0)
		r = put_zeros(left, e);
	return r < 0 ? r : put_zeros(tar_padding(k->entry.size), e);
}

static int pack_file(struct packer *k, int at, const char *name, struct err *e)
{
	AUTO_CLOSE int fd = openat(at, name,
				   O_RDONLY | O_NOFOLLOW | O_NONBLOCK |
					   O_NOCTTY | O_CLOEXEC);
	const char *first;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "%.160s", buf_data(&k->path));
	if (!S_ISREG(st.st_mode))
		return err_set(e, EINVAL, "%.160s is no regular file any more",
			       buf_data(&k->path));
	first = seen_before(k, &st);
	set_entry(k, first ? TAR_HARDLINK : TAR_FILE, &st);
	if (first)
		memcpy(k->entry.link, first, strlen(first));
	else
		k->entry.size = (uint64_t)st.st_size;
	r = put_head(k, e);
	return r < 0 || first ? r : put_content(k, fd, e);
}

static int pack_link(struct packer *k, int at, const char *name,
		     const struct stat *st, struct err *e)
{
	ssize_t n;

	set_entry(k, TAR_SYMLINK, st);
	n = readlinkat(at, name, k->entry.link, FILE_PATH_MAX);
	if (n < 0)
		return err_sys(e, "%.160s", buf_data(&k->path));
	return put_head(k, e);
}

static int pack_any(struct packer *k, int at, const char *name, struct err *e);

/* What is in a directory; takes the descriptor over. */
static int pack_entries(struct packer *k, int fd, struct err *e)
{
	AUTO_DIR DIR *d = dir_stream(fd);
	const char *name;
	int r = 0;

	if (!d)
		return err_set(e, ENOMEM, "no memory");
	while (r == 0 && (name = dir_next(d))) {
		size_t was = buf_len(&k->path);

		if (was > 0)
			buf_puts(&k->path, "/");
		buf_puts(&k->path, name);
		buf_str(&k->path);
		/* With the slash of a directory. */
		if (buf_len(&k->path) >= FILE_PATH_MAX)
			r = err_set(e, ENAMETOOLONG, "%.160s...: too long",
				    buf_data(&k->path));
		else
			r = pack_any(k, fd, name, e);
		path_pop(&k->path, was);
	}
	if (r == 0 && errno)
		return err_sys(e, "read %.160s", buf_data(&k->path));
	return r;
}

static int pack_dir(struct packer *k, int at, const char *name,
		    const struct stat *st, struct err *e)
{
	int fd = dir_open(at, name, true), r;

	/* Something is mounted there: the directory, without that. */
	set_entry(k, TAR_DIR, st);
	if (fd == -EXDEV)
		return put_head(k, e);
	if (fd < 0) {
		errno = -fd;
		return err_sys(e, "%.160s", buf_data(&k->path));
	}
	if (k->depth == TREE_DEPTH_MAX) {
		close(fd);
		return err_set(e, ELOOP,
			       "%.160s...: more than %d directories deep",
			       buf_data(&k->path), TREE_DEPTH_MAX);
	}
	r = put_head(k, e);
	if (r < 0) {
		close(fd);
		return r;
	}
	k->depth++;
	r = pack_entries(k, fd, e);
	k->depth--;
	return r;
}

static int pack_any(struct packer *k, int at, const char *name, struct err *e)
{
	struct stat st;

	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		/* Gone since its name was read. */
		return errno == ENOENT
			       ? 0
			       : err_sys(e, "%.160s", buf_data(&k->path));
	switch (st.st_mode & S_IFMT) {
	case S_IFREG:
		return pack_file(k, at, name, e);
	case S_IFDIR:
		return pack_dir(k, at, name, &st, e);
	case S_IFLNK:
		return pack_link(k, at, name, &st, e);
	case S_IFIFO:
		set_entry(k, TAR_FIFO, &st);
		return put_head(k, e);
	default:
		return 0;
	}
}

static int pack_top(struct packer *k, const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
	AUTO(place_done) struct place p = { .dir_fd = -1 };
	struct stat st;

	if (fd < 0 && errno != ENOTDIR)
		return err_sys(e, "%.160s", path);
	if (fd < 0) {
		r = place_find(&p, path, &st, e);
		if (r < 0)
			return r;
		buf_puts(&k->path, p.name);
		buf_str(&k->path);
		return pack_any(k, p.dir_fd, p.name, e);
	}
	if (fstat(fd, &st) < 0) {
		close(fd);
		return err_sys(e, "%.160s", path);
	}
	set_entry(k, TAR_DIR, &st);
	memcpy(k->entry.path, "./", 3);
	r = put_head(k, e);
	if (r < 0) {
		close(fd);
		return r;
	}
	return pack_entries(k, fd, e);
}

int job_pack(const struct file_job *j, struct err *e)
{
	struct packer *k = xcalloc(1, sizeof(*k));
	size_t i;
	int r;

	grow_pipe_of(STDOUT_FILENO);
	r = pack_top(k, j->path, e);
	if (r == 0)
		r = put_zeros(2 * (uint64_t)TAR_BLOCK, e);
	for (i = 0; i < LINK_BUCKETS; i++)
		while (k->seen[i]) {
			struct seen *next = k->seen[i]->next;

			free(k->seen[i]);
			k->seen[i] = next;
		}
	buf_done(&k->path);
	free(k);
	return r;
}
