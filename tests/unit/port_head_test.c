/* Heads on their way into a sandbox and back. */
#include "api/port.h"

#include <stdlib.h>

#include "base/auto.h"
#include "check.h"

#define KEY "e2b_0123456789012345678901234567890123456789"

static struct http_head head;

static const struct http_head *request(const char *text)
{
	const char *why = "";

	if (http_parse_request(&head, text, strlen(text), &why) < 0) {
		printf("# %s\n", why);
		abort();
	}
	return &head;
}

static const struct http_head *answer(const char *text)
{
	const char *why = "";

	if (http_parse_response(&head, text, strlen(text), "GET", &why) < 0) {
		printf("# %s\n", why);
		abort();
	}
	return &head;
}

static struct port_way by_path = { .port = 80,
				   .prefix = "/v1/sandboxes/x/ports/80",
				   .target = "/",
				   .peer = "192.0.2.1" };
static struct port_way by_host = {
	.port = 80, .by_host = true, .prefix = "", .target = "/", .peer = "::1"
};

/* What the server inside gets, with its parts in the order of the text. */
static const char *inside(const char *text, const struct port_way *way)
{
	static struct buf b;

	buf_clear(&b);
	port_request_head(&b, request(text), way);
	return buf_str(&b);
}

static bool has(const char *s, const char *part)
{
	if (strstr(s, part))
		return true;
	printf("# no \"%s\" in: %s\n", part, s);
	return false;
}

static bool lacks(const char *s, const char *part)
{
	if (!strcasestr(s, part))
		return true;
	printf("# \"%s\" in: %s\n", part, s);
	return false;
}

static void test_plain(void)
{
	const char *s = inside("GET /x HTTP/1.1\r\nHost: h:1\r\nAccept: a\r\n"
			       "X-Own: b\r\n\r\n",
			       &by_path);

	CHECK_STR(s, "GET / HTTP/1.1\r\nHost: localhost:80\r\nAccept: a\r\n"
		     "X-Own: b\r\nX-Forwarded-For: 192.0.2.1\r\n"
		     "X-Forwarded-Host: h:1\r\nX-Forwarded-Proto: http\r\n"
		     "X-Forwarded-Prefix: /v1/sandboxes/x/ports/80\r\n"
		     "Connection: close\r\n\r\n");
	s = inside("POST /x HTTP/1.1\r\nHost: h:1\r\nContent-Length: 3\r\n\r\n",
		   &by_host);
	CHECK(has(s, "\r\nHost: h:1\r\n"));
	CHECK(has(s, "\r\nContent-Length: 3\r\n"));
	CHECK(lacks(s, "Prefix"));
	s = inside("POST /x HTTP/1.1\r\nHost: h:1\r\nContent-Length: 0\r\n\r\n",
		   &by_host);
	CHECK(has(s, "\r\nContent-Length: 0\r\n"));
	s = inside("POST /x HTTP/1.1\r\nHost: h:1\r\n"
		   "Transfer-Encoding: Chunked\r\n\r\n",
		   &by_host);
	CHECK(has(s, "\r\nTransfer-Encoding: chunked\r\n"));
}

static void test_per_connection(void)
{
	const char *s = inside(
		"GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, "
		"X-Mine\r\n"
		"Keep-Alive: 5\r\nX-Mine: 1\r\nTE: trailers\r\nTrailer: x\r\n"
		"Proxy-Authorization: x\r\nProxy-Connection: x\r\n"
		"Expect: 100-continue\r\nUpgrade: h3\r\nX-Other: 2\r\n\r\n",
		&by_host);

	CHECK(lacks(s, "keep-alive"));
	CHECK(lacks(s, "x-mine"));
	CHECK(lacks(s, "trailer"));
	CHECK(lacks(s, "proxy-"));
	CHECK(lacks(s, "expect"));
	CHECK(lacks(s, "upgrade"));
	CHECK(has(s, "X-Other: 2\r\n"));
}

static void test_secrets(void)
{
	static const char text[] =
		"GET /x HTTP/1.1\r\nHost: h\r\nAuthorization: Basic abc\r\n"
		"X-API-Key: mine\r\nCarrel-Token: secret\r\n"
		"Cookie: a=1; carrel_token=secret; b=2\r\n"
		"Cookie: carrel_token=secret\r\n\r\n";
	struct port_way way = by_host;
	const char *s = inside(text, &way);

	CHECK(lacks(s, "authorization"));
	CHECK(lacks(s, "x-api-key"));
	CHECK(lacks(s, "secret"));
	CHECK(has(s, "\r\nCookie: a=1; b=2\r\n"));
	way.by_token = true;
	s = inside(text, &way);
	CHECK(has(s, "\r\nAuthorization: Basic abc\r\n"));
	CHECK(has(s, "\r\nX-API-Key: mine\r\n"));
	CHECK(lacks(s, "secret"));
	/* A key of ours never, however it came. */
	s = inside("GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " KEY
		   "\r\nX-API-Key: " KEY "\r\n\r\n",
		   &way);
	CHECK(lacks(s, "e2b_"));
	way.target = "/a?carrel_token=secret&b=1&%63arrel_token=secret&c";
	CHECK(has(inside(text, &way), "GET /a?b=1&c HTTP/1.1\r\n"));
	way.target = "/a?carrel_token=secret";
	CHECK(has(inside(text, &way), "GET /a HTTP/1.1\r\n"));
	way.target = "/a?";
	CHECK(has(inside(text, &way), "GET /a? HTTP/1.1\r\n"));
	way.target = "/a%20b?x=%20";
	CHECK(has(inside(text, &way), "GET /a%20b?x=%20 HTTP/1.1\r\n"));
}

static void test_forwarded(void)
{
	static const char text[] =
		"GET / HTTP/1.1\r\nHost: h\r\nForwarded: for=evil\r\n"
		"X-Forwarded-For: 198.51.100.1\r\nX-Forwarded-Host: public\r\n"
		"X-Forwarded-Proto: https\r\n\r\n";
	struct port_way way = by_host;
	const char *s;

	way.peer = "192.0.2.1";
	s = inside(text, &way);
	CHECK(lacks(s, "evil"));
	CHECK(has(s, "\r\nX-Forwarded-For: 192.0.2.1\r\n"
		     "X-Forwarded-Host: h\r\nX-Forwarded-Proto: http\r\n"));
	way.near = true;
	way.peer = "";
	CHECK(has(inside(text, &way),
		  "\r\nX-Forwarded-For: 198.51.100.1, 127.0.0.1\r\n"
		  "X-Forwarded-Host: public\r\nX-Forwarded-Proto: https\r\n"));
	way.near = false;
	way.https = true;
	CHECK(has(inside(text, &way), "\r\nX-Forwarded-Proto: https\r\n"));
}

static void test_upgrade(void)
{
	const char *s = inside("GET / HTTP/1.1\r\nHost: h\r\n"
			       "Connection: keep-alive, Upgrade\r\n"
			       "Upgrade: websocket\r\n"
			       "Sec-WebSocket-Key: abc\r\n\r\n",
			       &by_host);

	CHECK(has(s, "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"));
	CHECK(has(s, "\r\nSec-WebSocket-Key: abc\r\n"));
	CHECK_STR(port_upgrade(&head), "websocket");
	s = inside("GET / HTTP/1.1\r\nHost: h\r\n"
		   "Connection: Upgrade, HTTP2-Settings\r\n"
		   "Upgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n",
		   &by_host);
	CHECK(lacks(s, "h2c") && lacks(s, "http2"));
	CHECK(!port_upgrade(&head));
	CHECK(!port_upgrade(request("GET / HTTP/1.1\r\nHost: h\r\n"
				    "Upgrade: websocket\r\n\r\n")));
}

static void test_cookies(void)
{
	static const struct {
		const char *fields;
		bool counts;
	} rows[] = {
		{ "", true },
		{ "Origin: http://h\r\n", true },
		{ "Origin: http://evil\r\n", false },
		{ "Origin: null\r\n", false },
		{ "Sec-Fetch-Site: same-origin\r\n", true },
		{ "Sec-Fetch-Site: none\r\n", true },
		{ "Sec-Fetch-Site: same-site\r\n", false },
		{ "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n",
		  false },
		{ "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n",
		  true },
	};
	const char *value = NULL;
	char text[256];
	size_t i;

	CHECK(port_cookie("carrel_token=abc", &value) == 3);
	CHECK(port_cookie("a=b;carrel_token=abcd ; c", &value) == 5);
	CHECK(strncmp(value, "abcd ", 5) == 0);
	CHECK(port_cookie("xcarrel_token=abc", &value) == 0);
	CHECK(port_cookie("carrel_token", &value) == 0);
	CHECK(port_cookie("Carrel_Token=abc", &value) == 0);
	CHECK(port_cookie("", &value) == 0);
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		snprintf(text, sizeof(text),
			 "GET / HTTP/1.1\r\nHost: h\r\n%s\r\n", rows[i].fields);
		printf("# %s\n", rows[i].fields[0] ? rows[i].fields : "-");
		CHECK(port_cookie_counts(request(text)) == rows[i].counts);
	}
	CHECK(!port_cookie_counts(request("POST / HTTP/1.1\r\nHost: h\r\n"
					  "Sec-Fetch-Site: cross-site\r\n"
					  "Sec-Fetch-Mode: navigate\r\n\r\n")));
}

/* "Name: value|Name: value|" of what a client gets. */
static const char *outside(const char *text, const struct port_way *way)
{
	static struct buf b;
	struct http_field f[PORT_FIELDS];
	AUTO(buf_done) struct buf room = { 0 };
	int i;

	port_answer_fields(answer(text), way, f, &room);
	buf_clear(&b);
	for (i = 0; f[i].name; i++)
		buf_printf(&b, "%s: %s|", f[i].name, f[i].value);
	return buf_str(&b);
}

static void test_answers(void)
{
	static const char text[] =
		"HTTP/1.1 200 OK\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\n"
		"Content-Length: 0\r\nDate: x\r\nRequest-Id: x\r\n"
		"Set-Cookie: a=1\r\nSet-Cookie: carrel_token=evil\r\n"
		"Set-Cookie: Carrel_x=evil\r\nClear-Site-Data: *\r\n"
		"Service-Worker-Allowed: /\r\nX-Own: 2\r\n\r\n";

	CHECK_STR(outside(text, &by_host),
		  "Set-Cookie: a=1|Clear-Site-Data: *|"
		  "Service-Worker-Allowed: /|X-Own: 2|");
	CHECK_STR(outside(text, &by_path),
		  "Set-Cookie: a=1; Path=/v1/sandboxes/x/ports/80|"
		  "X-Own: 2|Content-Security-Policy: "
		  "sandbox allow-scripts allow-forms allow-popups "
		  "allow-modals allow-downloads|");
}

static void test_locations(void)
{
	static const char *const rows[][2] = {
		{ "/x?y", "/v1/sandboxes/x/ports/80/x?y" },
		{ "/", "/v1/sandboxes/x/ports/80/" },
		{ "http://localhost:80/x", "/v1/sandboxes/x/ports/80/x" },
		{ "http://localhost:80", "/v1/sandboxes/x/ports/80/" },
		{ "http://localhost:8080/", "http://localhost:8080/" },
		{ "//evil/x", "//evil/x" },
		{ "x/y", "x/y" },
		{ "https://other/", "https://other/" },
	};
	char text[200], want[200];
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		snprintf(text, sizeof(text),
			 "HTTP/1.1 302 x\r\nContent-Length: 0\r\n"
			 "Location: %s\r\n\r\n",
			 rows[i][0]);
		snprintf(want, sizeof(want), "Location: %s|", rows[i][1]);
		CHECK(has(outside(text, &by_path), want));
		snprintf(want, sizeof(want), "Location: %s|", rows[i][0]);
		CHECK(has(outside(text, &by_host), want));
	}
}

int main(void)
{
	test_plain();
	test_per_connection();
	test_secrets();
	test_forwarded();
	test_upgrade();
	test_cookies();
	test_answers();
	test_locations();
	http_head_done(&head);
	return CHECK_DONE();
}
