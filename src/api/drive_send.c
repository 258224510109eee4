/*
 * The content of a file of the drive as an answer. The bytes are read when the
 * client takes them; one that is removed meanwhile is still read to its end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "api/drive.h"
#include "api/reply.h"
#include "base/auto.h"

enum { PIECE = 64 * 1024 };

struct sending {
	int fd;
	uint64_t at, left;
};

static void sending_free(struct sending *s)
{
	close(s->fd);
	free(s);
}

static void sending_gone(struct http_conn *c, void *owner)
{
	(void)c;
	sending_free(owner);
}

static void send_on(struct http_conn *c, void *owner)
{
	static char piece[PIECE];
	struct sending *s = owner;
	bool room = true;

	while (room && s->left > 0) {
		ssize_t n = pread(s->fd, piece,
				  s->left < PIECE ? (size_t)s->left : PIECE,
				  (off_t)s->at);

		if (n <= 0) {
			http_reply_cut(c);
			sending_free(s);
			return;
		}
		s->at += (uint64_t)n;
		s->left -= (uint64_t)n;
		room = http_reply_data(c, piece, (size_t)n);
	}
	if (s->left > 0)
		return;
	http_reply_end(c);
	sending_free(s);
}

/*
 * "bytes=A-B", "bytes=A-", "bytes=-N": 1 and the part, -1 when there is no
 * such part. Anything else, also several ranges, is 0: the whole is always
 * allowed.
 */
static int parse_range(const char *s, uint64_t size, uint64_t *at, uint64_t *n)
{
	char text[64], *dash;
	uint64_t first = 0, last = 0;

	if (!s || !str_starts(s, "bytes=") ||
	    str_copy(text, sizeof(text), s + strlen("bytes=")) < 0)
		return 0;
	dash = strchr(text, '-');
	if (!dash)
		return 0;
	*dash++ = '\0';
	if ((*text && parse_u64(text, INT64_MAX, &first) < 0) ||
	    (*dash && parse_u64(dash, INT64_MAX, &last) < 0) ||
	    (!*text && !*dash) || (*text && *dash && first > last))
		return 0;
	if (!*text) {
		first = last < size ? size - last : 0;
		last = size;
	} else if (!*dash) {
		last = size;
	}
	if (first >= size)
		return -1;
	*at = first;
	*n = (last < size ? last + 1 : size) - first;
	return 1;
}

static void reply_no_range(struct api *a, struct http_conn *c, uint64_t size)
{
	char range[48], json[160];
	const struct http_field extra[] = { { "Content-Range", range }, { 0 } };

	snprintf(range, sizeof(range), "bytes */%llu",
		 (unsigned long long)size);
	snprintf(json, sizeof(json),
		 "{\"code\":416,\"error\":\"no_range\",\"message\":\"the file "
		 "has %llu bytes\",\"request_id\":\"%s\"}",
		 (unsigned long long)size, http_request_id(c));
	reply_text(a, c, 416, extra, json);
}

void drive_send(struct api *a, struct http_conn *c, const struct drive_row *row)
{
	const char *want = http_header(http_request(c), "Range");
	struct sending part = { .left = row->size }, *s;
	char tag[32], range[80];
	struct http_field extra[] = {
		{ "Content-Type", "application/octet-stream" },
		{ "X-Content-Type-Options", "nosniff" },
		{ "Accept-Ranges", "bytes" },
		{ "ETag", tag },
		{ "Sha256", row->sha256 },
		{ NULL, range }, /* a name, for a part */
		{ NULL, NULL },
	};
	struct err e = { 0 };
	int r = parse_range(want, row->size, &part.at, &part.left);

	if (r < 0) {
		reply_no_range(a, c, row->size);
		return;
	}
	part.fd = drive_open(a, row, &e);
	if (part.fd < 0) {
		reply_err(a, c, &e);
		return;
	}
	snprintf(tag, sizeof(tag), "\"%llu\"",
		 (unsigned long long)row->version);
	snprintf(range, sizeof(range), "bytes %llu-%llu/%llu",
		 (unsigned long long)part.at,
		 (unsigned long long)(part.at + part.left - 1),
		 (unsigned long long)row->size);
	if (r > 0)
		extra[5].name = "Content-Range";
	s = xcalloc(1, sizeof(*s));
	*s = part;
	a->metrics.requests[2]++;
	http_own(c, s, sending_gone);
	http_reply_start_sized(c, r > 0 ? 206 : 200, extra, s->left, send_on);
	send_on(c, s);
}
