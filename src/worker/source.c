#include "worker/source.h"

#include <errno.h>
#include <iconv.h>
#include <string.h>

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

uint64_t source_out(const struct source *s)
{
	int64_t out = s->open ? archive_filter_bytes(s->a, 0) : 0;

	return out > 0 ? (uint64_t)out : 0;
}

bool source_is_packed(const struct source *s)
{
	return archive_filter_code(s->a, 0) != ARCHIVE_FILTER_NONE;
}

static bool is_bomb(const struct source *s)
{
	uint64_t out = s->before + source_out(s);

	return out > ARCHIVE_RATIO_FREE && out / ARCHIVE_RATIO_MAX > *s->paid;
}

static la_ssize_t read_block(struct archive *a, void *arg, const void **p)
{
	struct source *s = arg;
	struct block b = { 0 };
	int r;

	/* Here too, because libarchive may loop without returning to us. */
	if (is_bomb(s)) {
		s->bomb = true;
		archive_set_error(a, EFBIG, "too much");
		return ARCHIVE_FATAL;
	}
	r = s->why.code ? -s->why.code : supply_next(s->from, &b, &s->why);
	if (r < 0) {
		archive_set_error(a, s->why.code, "no more");
		return ARCHIVE_FATAL;
	}
	if (r == 0)
		return 0;
	s->in_bytes += b.n;
	*p = b.p;
	return (la_ssize_t)b.n;
}

static int fail(const struct source *s, const char *doing, struct err *e)
{
	const char *why = archive_error_string(s->a);
	int code = archive_errno(s->a);

	if (s->why.code) {
		*e = s->why;
		return -e->code;
	}
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

static int support(struct source *s, enum source_format format, struct err *e)
{
	size_t i, n = format == SOURCE_PLAIN_TAR ? 1 : ARRAY_LEN(filters);
	int r;

	for (i = 0; i < n; i++)
		if (filters[i](s->a) != ARCHIVE_OK)
			return err_set(e, ENOTSUP,
				       "libarchive was built without filter "
				       "%zu",
				       i);
	r = format == SOURCE_RAW ? archive_read_support_format_raw(s->a)
				 : archive_read_support_format_tar(s->a);
	return r == ARCHIVE_OK ? 0 : fail(s, "support the format", e);
}

int source_open(struct source *s, struct supply *from,
		enum source_format format, struct err *e)
{
	*s = (struct source){ .from = from, .a = archive_read_new() };
	s->paid = &s->in_bytes;
	if (!s->a)
		return err_set(e, ENOMEM, "no memory for an archive");
	if (support(s, format, e) < 0)
		return -e->code;
	if (archive_read_open(s->a, s, NULL, read_block, NULL) != ARCHIVE_OK)
		return fail(s,
			    format == SOURCE_RAW ? "not compressed as known"
						 : "not a tar archive",
			    e);
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

/* Libarchive may hand out empty blocks; a supply does not. */
int source_data(struct source *s, struct block *b, struct err *e)
{
	la_int64_t offset;
	int r;

	do {
		r = archive_read_data_block(s->a, &b->p, &b->n, &offset);
		if (r == ARCHIVE_EOF)
			return 0;
		if (r != ARCHIVE_OK || is_bomb(s))
			return fail(s, "read the archive", e);
	} while (b->n == 0);
	if (offset < 0)
		return err_set(e, EBADMSG, "content before the file's start");
	b->offset = (uint64_t)offset;
	return 1;
}

int supply_drain(struct supply *from, struct err *e)
{
	uint64_t tail = 0;
	struct block b;
	int r;

	while ((r = supply_next(from, &b, e)) > 0) {
		tail += b.n;
		if (tail > ARCHIVE_TAIL_MAX)
			return err_set(e, EFBIG,
				       "over 16 MiB follow the end of the "
				       "archive");
	}
	return r;
}
