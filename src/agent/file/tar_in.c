#include "agent/file/tar_in.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/file/file.h"
#include "base/auto.h"

void tar_in_done(struct tar_in *in)
{
	free(in->p);
	buf_done(&in->pax);
	*in = (struct tar_in){ 0 };
}

/* At least one byte, or 0 at the end. */
static ssize_t some(struct tar_in *in, struct err *e)
{
	ssize_t n;

	if (in->off < in->len)
		return (ssize_t)(in->len - in->off);
	if (!in->p)
		in->p = xcalloc(1, IO_BYTES);
	n = in->end ? 0 : in_read(in->p, IO_BYTES, e);
	in->end = n == 0;
	in->off = 0;
	in->len = n > 0 ? (size_t)n : 0;
	return n;
}

ssize_t tar_in_take(struct tar_in *in, void *to, size_t n, struct err *e)
{
	size_t got = 0;

	while (got < n) {
		ssize_t have = some(in, e);
		size_t part;

		if (have < 0)
			return have;
		if (have == 0)
			break;
		part = (size_t)have < n - got ? (size_t)have : n - got;
		memcpy((char *)to + got, in->p + in->off, part);
		in->off += part;
		got += part;
	}
	return (ssize_t)got;
}

static int cut_off(struct err *e)
{
	return err_set(e, EBADMSG, "the archive is cut off");
}

ssize_t tar_in_piece(struct tar_in *in, const char **p, struct err *e)
{
	ssize_t n;

	if (in->content == 0)
		return 0;
	n = some(in, e);
	if (n == 0)
		return cut_off(e);
	if (n < 0)
		return n;
	if ((uint64_t)n > in->content)
		n = (ssize_t)in->content;
	*p = in->p + in->off;
	in->off += (size_t)n;
	in->content -= (uint64_t)n;
	return n;
}

/* What nobody wanted of an entry, and its padding. */
static int skip_rest(struct tar_in *in, struct err *e)
{
	const char *p;
	ssize_t n;

	in->content += in->padding;
	in->padding = 0;
	do
		n = tar_in_piece(in, &p, e);
	while (n > 0);
	return (int)n;
}

static bool is_extra(char type)
{
	return type == TAR_PAX || type == TAR_PAX_GLOBAL ||
	       type == TAR_LONG_NAME || type == TAR_LONG_LINK;
}

/* A header about the next entry; a global one says nothing that we use. */
static int take_extra(struct tar_in *in, struct err *e)
{
	size_t n = (size_t)in->entry.size;
	char type = in->entry.type;
	AUTO_FREE char *p = NULL;
	ssize_t got;

	if (type == TAR_PAX_GLOBAL)
		return 0;
	if (in->entry.size > TAR_PAX_MAX)
		return err_set(e, EBADMSG, "an extended header is too large");
	p = xcalloc(1, n + 1);
	got = tar_in_take(in, p, n, e);
	if (got < 0)
		return (int)got;
	if ((size_t)got < n)
		return cut_off(e);
	in->content = 0;
	if (type != TAR_PAX)
		return tar_long_get(type, p, n, &in->extra, e);
	buf_clear(&in->pax);
	buf_add(&in->pax, p, n);
	return tar_pax_get(p, n, &in->extra, e);
}

static const struct {
	const char *start;
	size_t n;
	const char *name;
} packings[] = {
	{ "\x1f\x8b", 2, "gzip" },
	{ "\xfd"
	  "7zXZ",
	  5, "xz" },
	{ "\x28\xb5\x2f\xfd", 4, "zstd" },
	{ "BZh", 3, "bzip2" },
};

static int check_packing(const uint8_t *block, struct err *e)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(packings); i++)
		if (memcmp(block, packings[i].start, packings[i].n) == 0)
			return err_set(e, EBADMSG,
				       "the archive is compressed (%s): send a "
				       "plain tar",
				       packings[i].name);
	return 0;
}

/* 1: a header, 0: the end of the archive. */
static int next_head(struct tar_in *in, struct err *e)
{
	bool first = !in->begun;
	uint8_t block[TAR_BLOCK];
	ssize_t n = tar_in_take(in, block, sizeof(block), e);
	int r;

	if (n < 0)
		return (int)n;
	if (n == 0 && !first)
		return 0;
	if (n < (ssize_t)sizeof(block))
		return first ? err_set(e, EBADMSG, "this is not a tar archive")
			     : cut_off(e);
	in->begun = true;
	r = first ? check_packing(block, e) : 0;
	if (r == 0)
		r = tar_head_get(block, &in->entry, e);
	if (r <= 0)
		return r;
	/* Those of extra headers are what they are. */
	if (!is_extra(in->entry.type))
		tar_finish(&in->entry, &in->extra);
	in->content = in->entry.size;
	in->padding = tar_padding(in->entry.size);
	return 1;
}

/* What is behind the end: padding of large records. */
static int drain(struct tar_in *in, struct err *e)
{
	ssize_t n;

	while ((n = some(in, e)) > 0)
		in->off = in->len;
	return (int)n;
}

int tar_in_next(struct tar_in *in, struct err *e)
{
	int r;

	in->extra = (struct tar_extra){ 0 };
	buf_clear(&in->pax);
	for (;;) {
		r = skip_rest(in, e);
		if (r == 0)
			r = next_head(in, e);
		if (r <= 0)
			return r < 0 || in->followed ? r : drain(in, e);
		if (!is_extra(in->entry.type))
			break;
		r = take_extra(in, e);
		if (r < 0)
			return r;
	}
	in->sparse = in->entry.type == TAR_SPARSE || in->extra.sparse;
	return 1;
}

int tar_name_clean(char *path, const char *what, struct err *e)
{
	const char *at = path;
	size_t len = 0, n;

	if (*path == '/')
		return err_set(e, EBADMSG, "%s %.160s is absolute", what, path);
	for (; *at; at += n) {
		at += strspn(at, "/");
		n = strcspn(at, "/");
		if (n == 0 || (n == 1 && *at == '.'))
			continue;
		if (n == 2 && at[0] == '.' && at[1] == '.')
			return err_set(e, EBADMSG, "%s %.160s has a \"..\"",
				       what, path);
		if (len > 0)
			path[len++] = '/';
		memmove(path + len, at, n);
		len += n;
	}
	path[len] = '\0';
	return 0;
}
