#include "worker/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "worker/limits.h"
#include "worker/tree.h"

enum { LINKS_MAX = 8 };

int spool_init(struct spool *s, int root_fd, struct err *e)
{
	static const char name[] = "spool";

	*s = (struct spool){ .fd = tree_open(root_fd, name,
					     O_RDWR | O_CREAT | O_EXCL, 0600) };
	if (s->fd < 0) {
		errno = -s->fd;
		return err_sys(e, "create the spool");
	}
	if (unlinkat(root_fd, name, 0) < 0)
		return err_sys(e, "unlink the spool");
	return 0;
}

void spool_done(struct spool *s)
{
	size_t i;

	for (i = 0; i < s->n; i++) {
		free(s->v[i].name);
		free(s->v[i].link);
	}
	free(s->v);
	if (s->fd >= 0)
		close(s->fd);
	*s = (struct spool){ .fd = -1 };
}

static const struct spooled *find(const struct spool *s, const char *name)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		if (strcmp(s->v[i].name, name) == 0)
			return &s->v[i];
	return NULL;
}

const struct spooled *spool_find(const struct spool *s, const char *name)
{
	const struct spooled *f = find(s, name);
	int i;

	for (i = 0; f && f->link && i < LINKS_MAX; i++)
		f = find(s, f->link);
	return f && !f->link && *f->digest ? f : NULL;
}

static int new_file(struct spool *s, const char *name, struct err *e)
{
	if (find(s, name))
		return err_set(e, EBADMSG, "%.100s is in the archive twice",
			       name);
	if (s->n == SPOOL_FILES_MAX)
		return err_set(e, E2BIG,
			       "over %d files in the archive of an image",
			       SPOOL_FILES_MAX);
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->v = xrealloc(s->v, s->cap * sizeof(*s->v));
	}
	s->v[s->n++] =
		(struct spooled){ .name = xstrdup(name), .offset = s->n_bytes };
	return 0;
}

int spool_begin(struct spool *s, const char *name, struct err *e)
{
	return new_file(s, name, e);
}

int spool_add(struct spool *s, const void *p, size_t n, struct err *e)
{
	int r;

	if (n > ARCHIVE_BYTES_MAX - s->n_bytes)
		return err_set(e, EFBIG, "the archive holds over 64 GiB");
	r = write_full(s->fd, p, n);
	if (r < 0) {
		errno = -r;
		return err_sys(e, "keep a part of the archive in the pool");
	}
	s->n_bytes += n;
	s->v[s->n - 1].size += n;
	return 0;
}

void spool_end(struct spool *s, const char *digest)
{
	memcpy(s->v[s->n - 1].digest, digest, OCI_DIGEST_CAP);
}

int spool_link(struct spool *s, const char *name, const char *to, struct err *e)
{
	int r = new_file(s, name, e);

	if (r == 0)
		s->v[s->n - 1].link = xstrdup(to);
	return r;
}

int spool_read(const struct spool *s, const struct spooled *f, struct buf *b,
	       struct err *e)
{
	size_t done = 0, size = (size_t)f->size;
	char *p;

	if (f->size > OCI_DOC_MAX)
		return err_set(e, E2BIG, "%.100s: over 1 MiB", f->name);
	p = buf_room(b, size + 1);
	while (done < size) {
		ssize_t n = pread(s->fd, p + done, size - done,
				  (off_t)(f->offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_sys(e, "read the spool");
		done += (size_t)n;
	}
	buf_fill(b, size);
	return 0;
}
