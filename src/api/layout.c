#include "api/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "base/auto.h"
#include "wire/tar.h"

enum { TAR_END = 2 * TAR_BLOCK };

void layout_init(struct layout *l, struct api *a)
{
	*l = (struct layout){ .api = a, .fd = -1 };
	l->parts = xcalloc(LAYOUT_PARTS_MAX, sizeof(*l->parts));
}

void layout_done(struct layout *l)
{
	size_t i;

	if (!l->parts)
		return;
	for (i = 0; i < l->n_parts; i++)
		buf_done(&l->parts[i].head);
	free(l->parts);
	l->parts = NULL;
	auto_close(&l->fd);
	l->fd = -1;
}

static struct layout_part *add(struct layout *l, const char *path,
			       uint64_t size)
{
	struct tar_entry *t = xcalloc(1, sizeof(*t));
	struct layout_part *p = &l->parts[l->n_parts];

	if (l->n_parts == LAYOUT_PARTS_MAX)
		abort(); /* manifests have a limit below it */
	l->n_parts++;
	t->type = TAR_FILE;
	t->mode = 0644;
	t->size = size;
	snprintf(t->path, sizeof(t->path), "%s", path);
	tar_head_put(&p->head, t);
	free(t);
	return p;
}

void layout_add_text(struct layout *l, const char *path, const void *p,
		     size_t n)
{
	static const char zeros[TAR_BLOCK];
	struct layout_part *part = add(l, path, n);

	buf_add(&part->head, p, n);
	buf_add(&part->head, zeros, tar_padding(n));
}

void layout_add_blob(struct layout *l, const char *path,
		     const struct oci_blob *b)
{
	struct layout_part *part = add(l, path, b->size);

	memcpy(part->digest, b->digest, sizeof(part->digest));
	part->size = b->size;
}

uint64_t layout_size(const struct layout *l)
{
	uint64_t sum = TAR_END;
	size_t i;

	for (i = 0; i < l->n_parts; i++) {
		const struct layout_part *p = &l->parts[i];

		sum += buf_len(&p->head);
		if (*p->digest)
			sum += p->size + tar_padding(p->size);
	}
	return sum;
}

/* What was read is compared with its name when it is complete. */
static int end_blob(struct layout *l, const struct layout_part *p,
		    struct err *e)
{
	char is[OCI_DIGEST_CAP];
	uint8_t sum[SHA256_LEN];

	auto_close(&l->fd);
	l->fd = -1;
	sha256_end(&l->sha, sum);
	oci_digest_text(is, sum);
	if (strcmp(is, p->digest) == 0)
		return 0;
	blob_remove(l->api, p->digest);
	return err_set(e, EBADMSG, "blob %s was damaged on disk: try again",
		       p->digest);
}

static ssize_t read_blob(struct layout *l, const struct layout_part *p,
			 char *out, size_t cap, struct err *e)
{
	size_t n = p->size - l->at < cap ? (size_t)(p->size - l->at) : cap;
	ssize_t got;

	if (l->fd < 0) {
		l->fd = blob_open(l->api, p->digest, e);
		if (l->fd < 0)
			return l->fd;
		sha256_init(&l->sha);
	}
	got = pread(l->fd, out, n, (off_t)l->at);
	if (got < 0)
		return err_sys(e, "read blob %s", p->digest);
	if (got == 0 && n > 0)
		return err_set(e, EBADMSG, "blob %s is cut off", p->digest);
	sha256_add(&l->sha, out, (size_t)got);
	l->at += (uint64_t)got;
	return got;
}

static size_t put_zeros(struct layout *l, char *out, size_t cap)
{
	size_t n = l->zeros < cap ? l->zeros : cap;

	memset(out, 0, n);
	l->zeros -= n;
	return n;
}

static size_t put_head(struct layout_part *p, char *out, size_t cap)
{
	size_t n = buf_len(&p->head) < cap ? buf_len(&p->head) : cap;

	memcpy(out, buf_data(&p->head), n);
	buf_eat(&p->head, n);
	return n;
}

ssize_t layout_read(struct layout *l, char *out, size_t cap, struct err *e)
{
	while (l->zeros == 0 && l->i < l->n_parts) {
		struct layout_part *p = &l->parts[l->i];

		if (buf_len(&p->head) > 0)
			return (ssize_t)put_head(p, out, cap);
		if (*p->digest && l->at < p->size)
			return read_blob(l, p, out, cap, e);
		if (*p->digest && p->size > 0 && end_blob(l, p, e) < 0)
			return -e->code;
		l->zeros = *p->digest ? tar_padding(p->size) : 0;
		l->at = 0;
		if (++l->i == l->n_parts)
			l->zeros += TAR_END;
	}
	return (ssize_t)put_zeros(l, out, cap);
}
