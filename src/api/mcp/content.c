#include "api/mcp/content.h"

#include <stdio.h>
#include <string.h>

#include "api/json_text.h"
#include "base/auto.h"
#include "base/str.h"

json_t *content_text(const char *p, size_t n)
{
	return json_pack("{s:s, s:o}", "type", "text", "text",
			 json_lossy(p, n));
}

json_t *content_one(const char *p, size_t n)
{
	return json_pack("[o]", content_text(p, n));
}

json_t *content_image(const char *p, size_t n, const char *mime)
{
	AUTO(buf_done) struct buf b = { 0 };

	base64_add(&b, p, n);
	return json_pack("{s:s, s:s, s:s}", "type", "image", "data",
			 buf_str(&b), "mimeType", mime);
}

/* --- what bytes are --- */

static const struct {
	const char *magic;
	size_t n;
	const char *more; /* behind 8 bytes; NULL: nothing */
	const char *type;
} magics[] = {
	{ "\x89PNG\r\n\x1a\n", 8, NULL, "image/png" },
	{ "\xff\xd8\xff", 3, NULL, "image/jpeg" },
	{ "GIF87a", 6, NULL, "image/gif" },
	{ "GIF89a", 6, NULL, "image/gif" },
	{ "RIFF", 4, "WEBP", "image/webp" },
};

const char *image_type(const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(magics); i++) {
		if (n < magics[i].n ||
		    memcmp(p, magics[i].magic, magics[i].n) != 0)
			continue;
		if (magics[i].more &&
		    (n < 12 || memcmp(p + 8, magics[i].more, 4) != 0))
			continue;
		return magics[i].type;
	}
	return NULL;
}

bool is_binary(const char *p, size_t n)
{
	return memchr(p, '\0', n) || !str_is_utf8(p, utf8_whole(p, n));
}
