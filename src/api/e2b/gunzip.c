#include "api/e2b/gunzip.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

enum { GZIP_ONLY = 16 + MAX_WBITS };

struct gunzip {
	z_stream z;
	bool ended; /* a member is complete; another may follow */
};

struct gunzip *gunzip_new(void)
{
	struct gunzip *g = xcalloc(1, sizeof(*g));

	if (inflateInit2(&g->z, GZIP_ONLY) == Z_OK)
		return g;
	free(g);
	return NULL;
}

void gunzip_free(struct gunzip *g)
{
	if (!g)
		return;
	inflateEnd(&g->z);
	free(g);
}

int gunzip_next(struct gunzip *g, const void *p, size_t n, size_t *used,
		struct buf *out, struct err *e)
{
	char *to;
	int r;

	*used = 0;
	if (g->ended && n == 0)
		return 0;
	if (g->ended && inflateReset(&g->z) != Z_OK)
		return err_set(e, ENOMEM, "no memory to unpack");
	g->ended = false;
	to = buf_room(out, GUNZIP_PIECE);
	g->z.next_in = (Bytef *)p;
	g->z.avail_in = n < GUNZIP_PIECE ? (uInt)n : GUNZIP_PIECE;
	g->z.next_out = (Bytef *)to;
	g->z.avail_out = GUNZIP_PIECE;
	r = inflate(&g->z, Z_NO_FLUSH);
	*used = (size_t)(g->z.next_in - (const Bytef *)p);
	buf_fill(out, (size_t)((char *)g->z.next_out - to));
	g->ended = r == Z_STREAM_END;
	/* Z_BUF_ERROR: there was nothing to do. */
	if (r == Z_OK || r == Z_STREAM_END || r == Z_BUF_ERROR)
		return 0;
	return err_set(e, EBADMSG, "the body is no gzip: %s",
		       g->z.msg ? g->z.msg : "it needs a dictionary");
}

bool gunzip_is_whole(const struct gunzip *g)
{
	return g->ended;
}
