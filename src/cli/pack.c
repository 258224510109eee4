/* A tar of a directory, to be unpacked in a sandbox. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "cli/archive.h"
#include "cli/cli.h"
#include "wire/tar.h"

enum { FLUSH_AT = 64 * 1024, DEPTH_MAX = 256 };

struct packer {
	int out_fd;
	struct buf out;
	struct buf path; /* in the archive, without a NUL */
	unsigned depth;
	struct tar_entry entry;
};

static int flush(struct packer *k, size_t at_least, struct err *e)
{
	int r;

	if (buf_len(&k->out) < at_least)
		return 0;
	r = write_full(k->out_fd, buf_data(&k->out), buf_len(&k->out));
	buf_clear(&k->out);
	return r < 0 ? err_set(e, -r, "send the archive: %s", strerror(-r)) : 0;
}

static void put_zeros(struct packer *k, size_t n)
{
	memset(buf_room(&k->out, n), 0, n);
	buf_fill(&k->out, n);
}

static void set_entry(struct packer *k, char type, const struct stat *st)
{
	struct tar_entry *t = &k->entry;

	/* Owners are the sandbox's business. */
	*t = (struct tar_entry){ .type = type,
				 .mode = st->st_mode & 07777,
				 .mtime = st->st_mtim };
	memcpy(t->path, buf_data(&k->path), buf_len(&k->path));
}

static int put_content(struct packer *k, int fd, uint64_t left, struct err *e)
{
	while (left > 0) {
		ssize_t n = buf_read(&k->out, fd,
				     left < FLUSH_AT ? left : FLUSH_AT);

		if (n == -EINTR)
			continue;
		if (n < 0)
			return err_set(e, (int)-n, "read %s: %s", k->entry.path,
				       strerror((int)-n));
		if (n == 0)
			return err_set(e, EIO, "%s became shorter meanwhile",
				       k->entry.path);
		left -= (uint64_t)n;
		if (flush(k, FLUSH_AT, e) < 0)
			return -e->code;
	}
	return 0;
}

static int put_file(struct packer *k, int dir_fd, const char *name,
		    struct err *e)
{
	AUTO_CLOSE int fd =
		openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "open %s", buf_str(&k->path));
	set_entry(k, TAR_FILE, &st);
	k->entry.size = (uint64_t)st.st_size;
	tar_head_put(&k->out, &k->entry);
	if (put_content(k, fd, k->entry.size, e) < 0)
		return -e->code;
	put_zeros(k, tar_padding(k->entry.size));
	return 0;
}

static int put_link(struct packer *k, int dir_fd, const char *name,
		    const struct stat *st, struct err *e)
{
	ssize_t n;

	set_entry(k, TAR_SYMLINK, st);
	n = readlinkat(dir_fd, name, k->entry.link, sizeof(k->entry.link) - 1);
	if (n < 0)
		return err_sys(e, "read the link %s", k->entry.path);
	k->entry.link[n] = '\0';
	tar_head_put(&k->out, &k->entry);
	return 0;
}

static int put_tree(struct packer *k, int dir_fd, struct err *e);

static int put_dir(struct packer *k, int dir_fd, const char *name,
		   const struct stat *st, struct err *e)
{
	int fd = openat(dir_fd, name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (fd < 0)
		return err_sys(e, "open %s", buf_str(&k->path));
	buf_puts(&k->path, "/");
	set_entry(k, TAR_DIR, st);
	tar_head_put(&k->out, &k->entry);
	if (k->depth == DEPTH_MAX) {
		close(fd);
		return err_set(e, ELOOP, "%s: more than %d directories deep",
			       k->entry.path, DEPTH_MAX);
	}
	k->depth++;
	r = put_tree(k, fd, e);
	k->depth--;
	return r;
}

static int put_entry(struct packer *k, int dir_fd, const char *name,
		     struct err *e)
{
	struct stat st;

	if (buf_len(&k->path) >= FILE_PATH_MAX)
		return err_set(e, ENAMETOOLONG, "a name is longer than %d",
			       FILE_PATH_MAX);
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "look at %s", buf_str(&k->path));
	switch (st.st_mode & S_IFMT) {
	case S_IFREG:
		return put_file(k, dir_fd, name, e);
	case S_IFDIR:
		return put_dir(k, dir_fd, name, &st, e);
	case S_IFLNK:
		return put_link(k, dir_fd, name, &st, e);
	default:
		complain("left out: %s is no file, directory or link",
			 buf_str(&k->path));
		return 0;
	}
}

/* Takes over `dir_fd`. */
static int put_tree(struct packer *k, int dir_fd, struct err *e)
{
	size_t n = buf_len(&k->path);
	DIR *d = fdopendir(dir_fd);
	struct dirent *ent;
	int r = 0;

	if (!d) {
		close(dir_fd);
		return err_sys(e, "read a directory");
	}
	while (r == 0 && (errno = 0, ent = readdir(d))) {
		if (strcmp(ent->d_name, ".") == 0 ||
		    strcmp(ent->d_name, "..") == 0)
			continue;
		buf_puts(&k->path, ent->d_name);
		r = put_entry(k, dirfd(d), ent->d_name, e);
		k->path.len = k->path.off + n;
		if (r == 0)
			r = flush(k, FLUSH_AT, e);
	}
	if (r == 0 && errno != 0)
		r = err_sys(e, "read a directory");
	closedir(d);
	return r;
}

int archive_pack(int dir_fd, int out_fd, struct err *e)
{
	static struct packer k;
	int fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0), r;

	k = (struct packer){ .out_fd = out_fd };
	r = fd < 0 ? err_sys(e, "open the directory") : put_tree(&k, fd, e);
	put_zeros(&k, (size_t)2 * TAR_BLOCK);
	if (r == 0)
		r = flush(&k, 0, e);
	buf_done(&k.out);
	buf_done(&k.path);
	return r;
}
