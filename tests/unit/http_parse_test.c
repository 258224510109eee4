/* Tables of heads: what is understood, and what must be refused and how. */
#include "http/parse.h"

#include <stdlib.h>

#include "base/auto.h"
#include "check.h"

#define GET "GET / HTTP/1.1\r\n"
#define HOST "Host: h\r\n"
#define END "\r\n"
#define OLD_UPGRADE                                 \
	"GET / HTTP/1.0\r\nConnection: upgrade\r\n" \
	"Upgrade: wire/1\r\n\r\n"

/* Scans and parses as a server does; the bytes come `piece` at a time. */
static int feed(const char *p, size_t n, size_t piece, struct http_head *h)
{
	struct http_scan scan = { 0 };
	const char *why = "";
	size_t have = 0;
	int r = 0;

	while (r == 0 && have < n) {
		have = n - have < piece ? n : have + piece;
		r = http_scan_head(&scan, p, have, &why);
	}
	if (r <= 0)
		return r;
	have = (size_t)r;
	r = http_parse_request(h, p, have, &why);
	if (r < 0 && why[0] == '\0')
		return -1; /* a refusal always says why */
	return r < 0 ? r : (int)have;
}

static int try_request(const char *p, size_t n)
{
	struct http_head a = { 0 }, b = { 0 };
	int whole = feed(p, n, n, &a), bytes = feed(p, n, 1, &b);

	CHECK(whole == bytes);
	CHECK(a.n_fields == b.n_fields && a.body == b.body &&
	      a.length == b.length);
	http_head_done(&a);
	http_head_done(&b);
	return whole;
}

struct bad {
	int status;
	const char *head;
	size_t n; /* 0: strlen */
};

static const struct bad bad[] = {
	/* Framing that two parsers could read differently. */
	{ -400,
	  GET HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n" END,
	  0 },
	{ -400,
	  GET HOST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n" END,
	  0 },
	{ -400, GET HOST "Content-Length: 5\r\nContent-Length: 5\r\n" END, 0 },
	{ -400, GET HOST "Content-Length: 5\r\ncontent-length: 6\r\n" END, 0 },
	{ -400, GET HOST "Content-Length: 5, 5\r\n" END, 0 },
	{ -400, GET HOST "Content-Length: +5\r\n" END, 0 },
	{ -400, GET HOST "Content-Length: -5\r\n" END, 0 },
	{ -400, GET HOST "Content-Length: 0x5\r\n" END, 0 },
	{ -400, GET HOST "Content-Length: 5 5\r\n" END, 0 },
	{ -400, GET HOST "Content-Length: 5.0\r\n" END, 0 },
	{ -400, GET HOST "Content-Length:\r\n" END, 0 },
	{ -400, GET HOST "Content-Length: 9223372036854775808\r\n" END, 0 },
	{ -400, GET HOST "Content-Length: 18446744073709551621\r\n" END, 0 },
	{ -400,
	  GET HOST "Transfer-Encoding: chunked\r\n"
		   "Transfer-Encoding: chunked\r\n" END,
	  0 },
	{ -501, GET HOST "Transfer-Encoding: chunked, chunked\r\n" END, 0 },
	{ -501, GET HOST "Transfer-Encoding: gzip, chunked\r\n" END, 0 },
	{ -501, GET HOST "Transfer-Encoding: xchunked\r\n" END, 0 },
	{ -501, GET HOST "Transfer-Encoding: identity\r\n" END, 0 },
	{ -501, GET HOST "Transfer-Encoding:\r\n" END, 0 },
	{ -400, GET HOST "Transfer-Encoding : chunked\r\n" END, 0 },
	{ -400, GET HOST "Transfer-Encoding\t: chunked\r\n" END, 0 },
	{ -400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n" END, 0 },
	/* Lines. */
	{ -400, "GET / HTTP/1.1\nHost: h\n\n", 0 },
	{ -400, GET "Host: h\n" END, 0 },
	{ -400, GET HOST "X: a\rb\r\n" END, 0 },
	{ -400, GET HOST "X: a\r\r\n" END, 0 },
	{ -400, GET HOST "X: a\r\n b\r\n" END, 0 },
	{ -400, GET HOST "X: a\r\n\tb\r\n" END, 0 },
	{ -400, GET " Host: h\r\n" END, 0 },
	{ -400, END GET HOST END, 0 },
	{ -400, "\n" GET HOST END, 0 },
	{ -400, GET "Host: h\0\r\n" END, sizeof(GET "Host: h\0\r\n" END) - 1 },
	{ -400, GET HOST "X: \001\r\n" END, 0 },
	{ -400, GET HOST "X: \177\r\n" END, 0 },
	{ -400, GET HOST "X\r\n" END, 0 },
	{ -400, GET HOST ": x\r\n" END, 0 },
	{ -400, GET HOST "X Y: x\r\n" END, 0 },
	{ -400, GET HOST "X\303\244: x\r\n" END, 0 },
	{ -400, GET HOST "X(: x\r\n" END, 0 },
	/* The request line. */
	{ -400, "GET  / HTTP/1.1\r\n" HOST END, 0 },
	{ -400, "GET /  HTTP/1.1\r\n" HOST END, 0 },
	{ -400, " GET / HTTP/1.1\r\n" HOST END, 0 },
	{ -400, "GET\t/ HTTP/1.1\r\n" HOST END, 0 },
	{ -400, "GET / HTTP/1.1 \r\n" HOST END, 0 },
	{ -400, "GET /\r\n" HOST END, 0 },
	{ -400, "GET\r\n" HOST END, 0 },
	{ -400, "G(T / HTTP/1.1\r\n" HOST END, 0 },
	{ -400, "GETGETGETGETGETGET / HTTP/1.1\r\n" HOST END, 0 },
	{ -400, "GET / http/1.1\r\n" HOST END, 0 },
	{ -400, "GET / HTTP/1.10\r\n" HOST END, 0 },
	{ -400, "GET / HTTP/1\r\n" HOST END, 0 },
	{ -505, "GET / HTTP/2.0\r\n" HOST END, 0 },
	{ -505, "GET / HTTP/1.2\r\n" HOST END, 0 },
	{ -505, "PRI * HTTP/2.0\r\n" END, 0 },
	{ -400, "GET http://h/ HTTP/1.1\r\n" HOST END, 0 },
	{ -400, "OPTIONS * HTTP/1.1\r\n" HOST END, 0 },
	{ -400, "CONNECT h:80 HTTP/1.1\r\n" HOST END, 0 },
	{ -400, "GET /\303\244 HTTP/1.1\r\n" HOST END, 0 },
	{ -400, "GET /a#b HTTP/1.1\r\n" HOST END, 0 },
	/* Host and Expect. */
	{ -400, GET END, 0 },
	{ -400, GET HOST HOST END, 0 },
	{ -400, GET "Host: a/b\r\n" END, 0 },
	{ -400, GET "Host: u@h\r\n" END, 0 },
	{ -400, GET "Host: a b\r\n" END, 0 },
	{ -417, GET HOST "Expect: a-pony\r\n" END, 0 },
	{ -400, GET HOST "Authorization: a\r\nAuthorization: b\r\n" END, 0 },
	/* Not HTTP. */
	{ -400, "\026\003\001\002\000\001\000", 7 },
};

static void test_bad(void)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++) {
		size_t n = bad[i].n ? bad[i].n : strlen(bad[i].head);
		int r = try_request(bad[i].head, n);

		if (r != bad[i].status)
			printf("# row %zu: %d instead of %d\n", i, r,
			       bad[i].status);
		CHECK(r == bad[i].status);
	}
}

/* `n` bytes of `fill` between the two strings. */
static int padded(const char *before, char fill, size_t n, const char *after)
{
	AUTO(buf_done) struct buf b = { 0 };

	buf_puts(&b, before);
	memset(buf_room(&b, n), fill, n);
	buf_fill(&b, n);
	buf_puts(&b, after);
	return try_request(buf_data(&b), buf_len(&b));
}

static void test_limits(void)
{
	AUTO(buf_done) struct buf b = { 0 };
	int i;

	CHECK(padded("GET /", 'a', HTTP_TARGET_MAX - 1,
		     " HTTP/1.1\r\n" HOST END) > 0);
	CHECK(padded("GET /", 'a', HTTP_TARGET_MAX, " HTTP/1.1\r\n" HOST END) ==
	      -414);
	CHECK(padded("GET /", 'a', 9000, "") == -414);
	CHECK(padded(GET HOST "X: ", 'a', HTTP_LINE_MAX - 3, "\r\n\r\n") > 0);
	CHECK(padded(GET HOST "X: ", 'a', HTTP_LINE_MAX - 2, "\r\n\r\n") ==
	      -431);
	CHECK(padded(GET HOST "X: ", 'a', 100000, "") == -431);

	buf_puts(&b, GET HOST);
	for (i = 0; i < HTTP_FIELDS_MAX - 1; i++)
		buf_puts(&b, "X: y\r\n");
	buf_puts(&b, END);
	CHECK(try_request(buf_data(&b), buf_len(&b)) == (int)buf_len(&b));
	b.len -= 2;
	buf_puts(&b, "X: y\r\n\r\n");
	CHECK(try_request(buf_data(&b), buf_len(&b)) == -431);

	buf_clear(&b);
	buf_puts(&b, GET HOST);
	for (i = 0; i < 3; i++) {
		buf_puts(&b, "X: ");
		memset(buf_room(&b, 6000), 'a', 6000);
		buf_fill(&b, 6000);
		buf_puts(&b, "\r\n");
	}
	buf_puts(&b, END);
	CHECK(try_request(buf_data(&b), buf_len(&b)) == -431);
}

static void test_good(void)
{
	static const char text[] = "POST /v1/a%20b?x=1&y HTTP/1.1\r\n"
				   "hOST: example:80\r\n"
				   "Content-Length:  \t007 \t\r\n"
				   "Expect: 100-Continue\r\n"
				   "X-Empty:\r\n"
				   "X-Latin: \344\r\n"
				   "Connection: keep-alive ,  UpGrade\r\n"
				   "Upgrade: wire/2, wire/1\r\n"
				   "\r\nbody...";
	size_t n = strlen(text) - 7;
	struct http_head h = { 0 };

	CHECK(try_request(text, strlen(text)) == (int)n);
	CHECK(feed(text, n, 3, &h) == (int)n);
	CHECK_STR(h.method, "POST");
	CHECK_STR(h.target, "/v1/a%20b?x=1&y");
	CHECK_STR(h.path, "/v1/a b");
	CHECK_STR(h.query, "x=1&y");
	CHECK(h.minor == 1 && h.keep_alive && h.expect_continue);
	CHECK(h.body == HTTP_LENGTH && h.length == 7);
	CHECK(h.n_fields == 7);
	CHECK_STR(http_header(&h, "x-empty"), "");
	CHECK_STR(http_header(&h, "X-LATIN"), "\344");
	CHECK(!http_header(&h, "X"));
	CHECK(http_has_token(&h, "connection", "upgrade"));
	CHECK(!http_has_token(&h, "connection", "up"));
	CHECK(!http_has_token(&h, "connection", "close"));
	CHECK(http_wants_upgrade(&h, "wire/1"));
	CHECK(!http_wants_upgrade(&h, "wire/11"));

	/* The same struct again: nothing of the old head is left. */
	CHECK(feed(GET HOST END, strlen(GET HOST END), 1, &h) > 0);
	CHECK(h.n_fields == 1 && h.body == HTTP_NO_BODY && !h.expect_continue);
	CHECK_STR(h.query, "");
	CHECK(!http_wants_upgrade(&h, "wire/1"));
	CHECK(feed("GET / HTTP/1.0\r\n\r\n", 18, 18, &h) == 18);
	CHECK(h.minor == 0 && !h.keep_alive);
	/* HTTP/1.0 knows no upgrade. */
	CHECK(feed(OLD_UPGRADE, strlen(OLD_UPGRADE), 99, &h) > 0);
	CHECK(http_has_token(&h, "upgrade", "wire/1"));
	CHECK(!http_wants_upgrade(&h, "wire/1"));
	CHECK(feed(GET HOST "Connection: x, close\r\n" END, 49, 49, &h) == 49);
	CHECK(!h.keep_alive);
	CHECK(feed(GET HOST "Transfer-Encoding: Chunked\r\n" END, 55, 55, &h) ==
	      55);
	CHECK(h.body == HTTP_CHUNKED);
	CHECK(feed(GET HOST "Content-Length: 900000000000000000\r\n" END, 63,
		   63, &h) == 63);
	CHECK(h.length == 900000000000000000U);
	CHECK(feed(GET HOST, strlen(GET HOST), 1, &h) == 0);
	http_head_done(&h);
}

static const struct {
	const char *line;
	int status;
	const char *authority, *path, *query, *sent;
} proxy_rows[] = {
	{ "GET /a%2Fb?c", 0, NULL, "/a/b", "c", "/a%2Fb" },
	{ "GET http://a.test/x%41?q=/", 0, "a.test", "/xA", "q=/", "/xA" },
	{ "GET HTTP://a.test", 0, "a.test", "/", "", "/" },
	{ "GET http://[::1]:80/", 0, "[::1]:80", "/", "", "/" },
	{ "GET http:///x", 0, "", "/x", "", "/x" },
	{ "CONNECT a.test:443", 0, "a.test:443", "", "", "" },
	{ "CONNECT /x", 0, "/x", "", "", "" }, /* it is no host */
	{ "GET http://a.test?x", -400, NULL, NULL, NULL, NULL },
	{ "GET https://a.test/", -400, NULL, NULL, NULL, NULL },
	{ "GET http:/a.test/", -400, NULL, NULL, NULL, NULL },
	{ "GET a.test:80", -400, NULL, NULL, NULL, NULL },
	{ "GET *", -400, NULL, NULL, NULL, NULL },
	{ "GET http://a.test/../x", -400, NULL, NULL, NULL, NULL },
	{ "GET http://a.test//x", -400, NULL, NULL, NULL, NULL },
	{ "GET http://a.test/#x", -400, NULL, NULL, NULL, NULL },
};

static void test_proxy(void)
{
	struct http_head h = { 0 };
	const char *why;
	char text[128];
	size_t i;

	for (i = 0; i < ARRAY_LEN(proxy_rows); i++) {
		int n = snprintf(text, sizeof(text),
				 "%s HTTP/1.1\r\nHost: a.test\r\n\r\n",
				 proxy_rows[i].line);
		int r = http_parse_proxy_request(&h, text, (size_t)n, &why);

		printf("# %s\n", proxy_rows[i].line);
		CHECK(r == proxy_rows[i].status);
		if (r < 0 || proxy_rows[i].status)
			continue;
		CHECK(!h.authority == !proxy_rows[i].authority);
		if (h.authority && proxy_rows[i].authority)
			CHECK_STR(h.authority, proxy_rows[i].authority);
		CHECK_STR(h.path, proxy_rows[i].path);
		CHECK_STR(h.query, proxy_rows[i].query);
		CHECK_STR(h.sent, proxy_rows[i].sent);
	}
	http_head_done(&h);
}

static int respond(struct http_head *h, const char *s, const char *method)
{
	const char *why = "";

	return http_parse_response(h, s, strlen(s), method, &why);
}

static void test_responses(void)
{
	static const char *const refused[] = {
		"HTTP/1.1 99 Low\r\n\r\n",
		"HTTP/1.1 600 High\r\n\r\n",
		"HTTP/1.1 2000 OK\r\n\r\n",
		"HTTP/1.1 20 OK\r\n\r\n",
		"HTTP/1.1  200 OK\r\n\r\n",
		"HTTP/2.0 200 OK\r\n\r\n",
		"200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n"
		"Transfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n"
		"Content-Length: 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
		"HTTP/1.1 200 OK\r\n X: y\r\n\r\n",
		"HTTP/1.1 200 OK\r\n\r\nmore than a head",
		"HTTP/1.1 200 OK\r\n",
	};
	struct http_head h = { 0 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(refused); i++)
		CHECK(respond(&h, refused[i], "GET") == -400);
	CHECK(respond(&h, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
		      "GET") == 0);
	CHECK(h.status == 200 && h.body == HTTP_LENGTH && h.length == 3);
	CHECK_STR(h.reason, "OK");
	CHECK(respond(&h, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
		      "HEAD") == 0);
	CHECK(h.body == HTTP_NO_BODY && h.keep_alive);
	CHECK(respond(&h, "HTTP/1.1 204\r\n\r\n", "GET") == 0);
	CHECK(h.body == HTTP_NO_BODY);
	CHECK_STR(h.reason, "");
	/* These have the length that another answer would have. */
	CHECK(respond(&h,
		      "HTTP/1.1 304 Not Modified\r\n"
		      "Content-Length: 3\r\n\r\n",
		      "GET") == 0);
	CHECK(h.body == HTTP_NO_BODY && h.keep_alive);
	CHECK(respond(&h,
		      "HTTP/1.1 304 Not Modified\r\n"
		      "Transfer-Encoding: chunked\r\n\r\n",
		      "GET") == 0);
	CHECK(h.body == HTTP_NO_BODY && h.keep_alive);
	CHECK(respond(&h, "HTTP/1.1 103 Early Hints\r\n\r\n", "GET") == 0);
	CHECK(h.body == HTTP_NO_BODY && h.keep_alive);
	CHECK(respond(&h, "HTTP/1.1 200 \r\n\r\n", "GET") == 0);
	CHECK(h.body == HTTP_UNTIL_CLOSE && !h.keep_alive);
	CHECK(respond(&h, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		      "GET") == 0);
	CHECK(h.body == HTTP_NO_BODY && h.keep_alive);
	http_head_done(&h);
}

int main(void)
{
	test_bad();
	test_limits();
	test_good();
	test_proxy();
	test_responses();
	return CHECK_DONE();
}
