#include "worker/zip.h"

#include <archive_entry.h>
#include <errno.h>

#include "worker/say.h"

static int fail(struct zip *z, const char *doing, struct err *e)
{
	const char *why = z->a ? archive_error_string(z->a) : NULL;

	if (z->failed.code) {
		*e = z->failed;
		return -e->code;
	}
	return err_set(e, EIO, "%s: %.150s", doing, why ? why : "no memory");
}

static int zip_add(struct say *s, const void *p, size_t n, struct err *e)
{
	struct zip *z = s->through_arg;

	sha256_add(&z->sha, p, n);
	return archive_write_data(z->a, p, n) == (la_ssize_t)n
		       ? 0
		       : fail(z, "pack", e);
}

/* What comes out of the library; the filter is not asked again. */
static la_ssize_t on_packed(struct archive *a, void *arg, const void *p,
			    size_t n)
{
	struct zip *z = arg;
	int r;

	(void)a;
	z->say->through = NULL;
	r = say_data(z->say, p, n, &z->failed);
	z->say->through = zip_add;
	return r < 0 ? -1 : (la_ssize_t)n;
}

/* A stream without an archive around it; the same bytes every time. */
static int set_up(struct zip *z)
{
	struct archive_entry *one = archive_entry_new();
	int bad =
		!one || archive_write_set_format_raw(z->a) != ARCHIVE_OK ||
		archive_write_add_filter_gzip(z->a) != ARCHIVE_OK ||
		archive_write_set_filter_option(
			z->a, "gzip", "compression-level", "1") != ARCHIVE_OK ||
		archive_write_set_filter_option(z->a, "gzip", "timestamp",
						NULL) != ARCHIVE_OK ||
		archive_write_set_bytes_per_block(z->a, VIEW_DATA_MAX) !=
			ARCHIVE_OK ||
		archive_write_set_bytes_in_last_block(z->a, 1) != ARCHIVE_OK ||
		archive_write_open(z->a, z, NULL, on_packed, NULL) !=
			ARCHIVE_OK;

	if (!bad) {
		archive_entry_set_filetype(one, AE_IFREG);
		bad = archive_write_header(z->a, one) != ARCHIVE_OK;
	}
	archive_entry_free(one);
	return bad ? -EIO : 0;
}

int zip_open(struct zip *z, struct say *s, struct err *e)
{
	*z = (struct zip){ .say = s, .a = archive_write_new() };
	sha256_init(&z->sha);
	if (!z->a || set_up(z) < 0)
		return fail(z, "pack", e);
	s->through = zip_add;
	s->through_arg = z;
	return 0;
}

int zip_end(struct zip *z, struct err *e)
{
	struct view_record r = { .kind = VIEW_SUM };
	uint8_t sum[SHA256_LEN];
	int bad = archive_write_close(z->a) != ARCHIVE_OK;

	if (bad)
		return fail(z, "pack", e);
	archive_write_free(z->a);
	z->a = NULL;
	z->say->through = NULL;
	sha256_end(&z->sha, sum);
	r.sum = sum;
	return say_record(z->say, &r, e);
}
