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

/* --- the ends of what is long --- */

void clip_add(struct clip *c, const char *p, size_t n)
{
	size_t room = c->half - buf_len(&c->head);
	size_t first = n < room ? n : room;

	c->total += n;
	buf_add(&c->head, p, first);
	p += first;
	n -= first;
	/* Cut only now and then: each cut moves what stays. */
	if (n >= c->half) {
		p += n - c->half;
		n = c->half;
		buf_clear(&c->tail);
	} else if (buf_len(&c->tail) + n > 2 * c->half) {
		buf_eat(&c->tail, buf_len(&c->tail) - c->half);
	}
	buf_add(&c->tail, p, n);
}

void clip_text(struct clip *c, struct buf *out)
{
	size_t tail = buf_len(&c->tail), whole = buf_len(&c->head), rest = 0;
	uint64_t missing;

	if (tail > c->half)
		buf_eat(&c->tail, tail - c->half);
	missing = c->total - buf_len(&c->head) - buf_len(&c->tail);
	if (missing > 0) {
		whole = utf8_whole(buf_data(&c->head), whole);
		rest = utf8_rest(buf_data(&c->tail), buf_len(&c->tail));
		missing += buf_len(&c->head) - whole + rest;
	}
	buf_add(out, buf_data(&c->head), whole);
	if (missing > 0)
		buf_printf(out, "\n... %llu bytes left out ...\n",
			   (unsigned long long)missing);
	buf_add(out, buf_data(&c->tail) + rest, buf_len(&c->tail) - rest);
}

void clip_done(struct clip *c)
{
	buf_done(&c->head);
	buf_done(&c->tail);
}

void clip_last_line(const struct clip *c, char *out, size_t cap)
{
	const struct buf *b = buf_len(&c->tail) ? &c->tail : &c->head;
	const char *p = buf_data(b);
	size_t n = buf_len(b), at, len;

	while (n > 0 && strchr("\r\n \t", p[n - 1]))
		n--;
	for (at = n; at > 0 && p[at - 1] != '\n' && p[at - 1] != '\r';)
		at--;
	len = n - at < cap - 1 ? n - at : cap - 1;
	len = utf8_whole(p + at, len);
	memcpy(out, p + at, len);
	out[len] = '\0';
}
