/*
 * The parsers of http/ with foreign bytes. The first byte chooses the parser,
 * the rest is its input. Besides memory errors these are failures: another
 * result when the bytes come one by one, and a parsed head that breaks what
 * its header promises.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http/chunked.h"
#include "http/parse.h"
#include "http/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes come in pieces of `piece`: what the scan says, as a server does. */
static int scan(const char *p, size_t n, size_t piece)
{
	struct http_scan s = { 0 };
	const char *why = NULL;
	size_t have = 0;
	int r = 0;

	while (r == 0 && have < n) {
		have = n - have < piece ? n : have + piece;
		r = http_scan_head(&s, p, have, &why);
	}
	assert(r >= 0 || why);
	assert(r <= HTTP_HEAD_MAX);
	return r;
}

static void check_head(const struct http_head *h)
{
	unsigned i, hosts = 0;

	assert(h->n_fields <= HTTP_FIELDS_MAX);
	for (i = 0; i < h->n_fields; i++) {
		assert(http_is_token(h->field[i].name));
		assert(http_is_value(h->field[i].value));
		hosts += strcasecmp(h->field[i].name, "host") == 0;
	}
	assert(hosts <= 1);
	assert(!(http_header(h, "content-length") &&
		 http_header(h, "transfer-encoding")));
	assert(h->body != HTTP_CHUNKED || h->minor == 1);
	assert(h->body != HTTP_LENGTH || h->length > 0);
	assert(h->length <= INT64_MAX);
}

static void check_target(const struct http_head *h)
{
	char value[32];

	assert(http_is_token(h->method));
	assert(h->path[0] == '/' && http_is_value(h->path));
	assert(!strstr(h->path, "//") && !strchr(h->path, '\\'));
	assert(!strstr(h->path, "/../") && !strstr(h->path, "/./"));
	assert(http_is_utf8(h->path, strlen(h->path)));
	assert(h->body != HTTP_UNTIL_CLOSE);
	if (http_query(h, "all", value, sizeof(value)) > 0)
		assert(http_is_utf8(value, strlen(value)));
	(void)http_wants_upgrade(h, "wire/1");
}

static void check_proxy(const struct http_head *h)
{
	char sent[HTTP_TARGET_MAX + 1], path[HTTP_TARGET_MAX + 1];
	const char *query;
	bool slashes;

	assert(h->sent && h->query);
	if (strcmp(h->method, "CONNECT") == 0) {
		assert(h->authority && !*h->path);
		return;
	}
	assert(!h->authority || !strpbrk(h->authority, "/? "));
	check_target(h);
	/* The normal form of the normal form is it itself. */
	assert(http_target_proxy(h->sent, path, sent, &query, &slashes) == 0);
	assert(strcmp(sent, h->sent) == 0 && strcmp(path, h->path) == 0);
	assert(slashes == h->slashes);
	http_path_kept(sent, path);
	assert(slashes == (strcmp(path, h->path) != 0));
}

static void fuzz_head(const char *p, size_t n, char kind)
{
	struct http_head h = { 0 };
	const char *why = NULL;
	int r = scan(p, n, n);

	assert(r == scan(p, n, 1));
	/* Parsing must also hold up without a scan before it. */
	if (r > 0)
		n = (size_t)r;
	if (kind == 'q') {
		r = http_parse_request(&h, p, n, &why);
		if (r == 0)
			check_target(&h);
	} else if (kind == 'p') {
		r = http_parse_proxy_request(&h, p, n, &why);
		if (r == 0)
			check_proxy(&h);
	} else {
		r = http_parse_response(&h, p, n, "GET", &why);
	}
	if (r == 0)
		check_head(&h);
	else
		assert(r <= -400 && r > -600 && why && !h.text);
	http_head_done(&h);
}

struct decoded {
	int result;
	size_t used;
	struct buf content;
};

static void decode(const char *p, size_t n, size_t piece, struct decoded *d)
{
	struct http_chunked c = { 0 };

	*d = (struct decoded){ .result = HTTP_CHUNK_MORE };
	while (d->used < n) {
		size_t give = n - d->used < piece ? n - d->used : piece;
		size_t used, data_n;

		d->result = http_chunked_next(&c, p + d->used, give, &used,
					      &data_n);
		assert(used <= give && data_n <= used);
		d->used += used;
		if (d->result < 0 || d->result == HTTP_CHUNK_END)
			return;
		assert(used > 0);
		buf_add(&d->content, p + d->used - data_n, data_n);
	}
	d->result = HTTP_CHUNK_MORE;
}

static void fuzz_chunked(const char *p, size_t n)
{
	static const size_t pieces[] = { 1, 3, 17 };
	struct decoded whole, part;
	size_t i;

	decode(p, n, n, &whole);
	for (i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		decode(p, n, pieces[i], &part);
		assert(part.result == whole.result && part.used == whole.used);
		assert(buf_len(&part.content) == buf_len(&whole.content));
		assert(memcmp(buf_data(&part.content), buf_data(&whole.content),
			      buf_len(&whole.content)) == 0);
		buf_done(&part.content);
	}
	buf_done(&whole.content);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data + 1;

	if (size < 1)
		return 0;
	switch (data[0]) {
	case 'q':
	case 'p':
	case 'r':
		fuzz_head(p, size - 1, (char)data[0]);
		break;
	case 'c':
		fuzz_chunked(p, size - 1);
		break;
	default:
		break;
	}
	return 0;
}
