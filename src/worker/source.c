#include "worker/source.h"

#include <errno.h>
#include <iconv.h>
#include <unistd.h>

#include "base/auto.h"
#include "worker/limits.h"

/*
 * ARCHIVE_WARN from one of these would mean that the library has no code of
 * its own for it and would run a program; then the worker does not start.
 */
static int (*const filters[])(struct archive *) = {
	archive_read_support_filter_none,  archive_read_support_filter_gzip,
	archive_read_support_filter_bzip2, archive_read_support_filter_xz,
	archive_read_support_filter_zstd,
};

/*
 * Names are bytes to us, and we stay in the C locale: a name of pax (UTF-8)
 * that is not ASCII then has no translation, and libarchive hands it out as it
 * is, with a warning. In a UTF-8 locale it would compose letters and accents,
 * and two names would become one.
 */
int source_preload(struct err *e)
{
	iconv_t cd = iconv_open("ANSI_X3.4-1968", "UTF-8");

	if (cd == (iconv_t)-1)
		return err_sys(e, "load the converter of names");
	iconv_close(cd);
	return 0;
}

static bool is_bomb(const struct source *s)
{
	int64_t out = s->open ? archive_filter_bytes(s->a, 0) : 0;

	return out > 0 && (uint64_t)out > ARCHIVE_RATIO_FREE &&
	       (uint64_t)out / ARCHIVE_RATIO_MAX > s->in_bytes;
}

static la_ssize_t read_block(struct archive *a, void *arg, const void **p)
{
	struct source *s = arg;
	ssize_t n;

	/* Here too, because libarchive may loop without returning to us. */
	if (is_bomb(s)) {
		s->bomb = true;
		archive_set_error(a, EFBIG, "too much");
		return ARCHIVE_FATAL;
	}
	do
		n = read(s->fd, s->block, sizeof(s->block));
	while (n < 0 && errno == EINTR);
	if (n < 0) {
		archive_set_error(a, errno, "read the stream");
		return ARCHIVE_FATAL;
	}
	s->in_bytes += (uint64_t)n;
	*p = s->block;
	return n;
}

static int fail(const struct source *s, const char *doing, struct err *e)
{
	const char *why = archive_error_string(s->a);
	int code = archive_errno(s->a);

	if (s->bomb || is_bomb(s))
		return err_set(e, EFBIG,
			       "the archive expands more than 1000 times: "
			       "refused as a bomb");
	if (code == ENOMEM)
		return err_set(e, ENOMEM,
			       "%s: out of memory: pack it with a smaller "
			       "dictionary",
			       doing);
	return err_set(e, EBADMSG, "%s: %.150s", doing,
		       why ? why : "unknown reason");
}

int source_open(struct source *s, int fd, struct err *e)
{
	size_t i;

	s->fd = fd;
	s->in_bytes = 0;
	s->open = s->bomb = false;
	s->a = archive_read_new();
	if (!s->a)
		return err_set(e, ENOMEM, "no memory for an archive");
	for (i = 0; i < ARRAY_LEN(filters); i++)
		if (filters[i](s->a) != ARCHIVE_OK)
			return err_set(e, ENOTSUP,
				       "libarchive was built without filter "
				       "%zu",
				       i);
	if (archive_read_support_format_tar(s->a) != ARCHIVE_OK)
		return fail(s, "support tar", e);
	if (archive_read_open(s->a, s, NULL, read_block, NULL) != ARCHIVE_OK)
		return fail(s, "not a tar archive", e);
	s->open = true;
	return 0;
}

void source_done(struct source *s)
{
	if (s->a)
		archive_read_free(s->a);
	s->a = NULL;
	s->open = false;
}

int source_next(struct source *s, struct archive_entry **entry, struct err *e)
{
	int r = archive_read_next_header(s->a, entry);

	if (r == ARCHIVE_EOF)
		return 0;
	/* A warning is about a name that is not ASCII; see above. */
	if ((r != ARCHIVE_OK && r != ARCHIVE_WARN) || is_bomb(s))
		return fail(s, "read the archive", e);
	return 1;
}

int source_data(struct source *s, struct block *b, struct err *e)
{
	la_int64_t offset;
	int r = archive_read_data_block(s->a, &b->p, &b->n, &offset);

	if (r == ARCHIVE_EOF)
		return 0;
	if (r != ARCHIVE_OK || is_bomb(s))
		return fail(s, "read the archive", e);
	if (offset < 0)
		return err_set(e, EBADMSG, "content before the file's start");
	b->offset = (uint64_t)offset;
	return 1;
}

int source_drain(struct source *s, struct err *e)
{
	uint64_t tail = 0;
	ssize_t n;

	while (tail <= ARCHIVE_TAIL_MAX) {
		n = read(s->fd, s->block, sizeof(s->block));
		if (n == 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return err_sys(e, "read the stream");
		tail += n > 0 ? (uint64_t)n : 0;
	}
	return err_set(e, EFBIG, "over 16 MiB follow the end of the archive");
}
