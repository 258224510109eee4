/* WebSockets: the codec with good and bad frames, and a server's life. */
#include "http/websocket.h"

#include "check.h"
#include "http_rig.h"

enum { PATIENCE_MS = 30000 };

#define KEY "dGhlIHNhbXBsZSBub25jZQ=="
#define ASK(fields) \
	"GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\n" fields "\r\n"
#define UP                                                        \
	ASK("Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" \
	    "Sec-WebSocket-Key: " KEY "\r\n")

/* --- the codec --- */

/* A client's frame; the mask is "abcd", `len` the form of the length. */
static void put_frame(struct buf *b, unsigned first, const void *p, size_t n,
		      size_t len)
{
	static const char mask[] = "abcd";
	uint8_t head[10] = { (uint8_t)first };
	size_t i;

	head[1] = (uint8_t)(0x80 | (len == 8 ? 127 : len == 2 ? 126 : n));
	for (i = 0; i < len; i++)
		head[2 + i] = (uint8_t)(n >> (8 * (len - 1 - i)));
	buf_add(b, head, 2 + len);
	buf_add(b, mask, 4);
	for (i = 0; i < n; i++)
		buf_add(b, &(char){ ((const char *)p)[i] ^ mask[i % 4] }, 1);
}

static void put(struct buf *b, unsigned first, const char *text)
{
	put_frame(b, first, text, strlen(text), 0);
}

/*
 * What the decoder makes of `b`, in pieces of `piece` bytes: "T[hello]E1002".
 */
static const char *decoded(const struct buf *b, size_t piece)
{
	static char text[400];
	static const char names[] = "?TB?????CIO";
	struct ws_decoder d = { .max = 200 };
	struct buf out = { 0 };
	size_t at = 0;
	int r = 0;

	while (r >= 0 && at < buf_len(b)) {
		size_t used, n = 0, give = buf_len(b) - at;
		char *p = NULL;

		give = give < piece ? give : piece;
		r = ws_decode(&d, buf_data(b) + at, give, &used, &p, &n);
		at += used;
		if (r > 0 && p[n] != '\0')
			r = 0;
		if (r > 0) {
			buf_printf(&out, "%c[", names[r]);
			buf_add(&out, p, n);
			buf_puts(&out, "]");
		}
	}
	if (r < 0)
		buf_printf(&out, "E%d", -r);
	snprintf(text, sizeof(text), "%s", buf_str(&out));
	buf_done(&out);
	ws_decoder_done(&d);
	return text;
}

static void check_decoded(struct buf *b, const char *want)
{
	static const size_t pieces[] = { 1, 2, 7, 100000 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(pieces); i++)
		CHECK_STR(decoded(b, pieces[i]), want);
	buf_clear(b);
}

static void test_good_frames(void)
{
	AUTO(buf_done) struct buf b = { 0 };
	char big[200];

	put(&b, 0x81, "hello");
	put(&b, 0x82, "");
	check_decoded(&b, "T[hello]B[]");
	put(&b, 0x01, "a");
	put(&b, 0x89, "now");
	put(&b, 0x00, "");
	put(&b, 0x8a, "");
	put(&b, 0x80, "b");
	check_decoded(&b, "I[now]O[]T[ab]");
	/* A character may be cut by a fragment. */
	put(&b, 0x01, "\303");
	put(&b, 0x80, "\244");
	check_decoded(&b, "T[\303\244]");
	put(&b, 0x82, "\303");
	check_decoded(&b, "B[\303]");
	memset(big, 'x', sizeof(big));
	put_frame(&b, 0x82, big, sizeof(big), 2);
	CHECK(strlen(decoded(&b, 7)) == sizeof(big) + 3);
	buf_clear(&b);
	put_frame(&b, 0x88, "\003\350bye", 5, 0);
	check_decoded(&b, "C[\003\350bye]");
	put(&b, 0x88, "");
	check_decoded(&b, "C[]");
	put_frame(&b, 0x89, big, 125, 0);
	CHECK(strlen(decoded(&b, 7)) == 128);
}

static void test_bad_frames(void)
{
	/* Each behind a good one, and with one behind it that nobody reads. */
	static const struct {
		unsigned first;
		const char *payload;
		size_t n, len;
		const char *want;
	} bad[] = {
		{ 0xc1, "x", 1, 0, "E1002" },        /* reserved bits */
		{ 0xa1, "x", 1, 0, "E1002" },        /* ... */
		{ 0x91, "x", 1, 0, "E1002" },        /* ... */
		{ 0x83, "x", 1, 0, "E1002" },        /* opcodes */
		{ 0x87, "x", 1, 0, "E1002" },        /* ... */
		{ 0x8b, "x", 1, 0, "E1002" },        /* ... */
		{ 0x8f, "x", 1, 0, "E1002" },        /* ... */
		{ 0x80, "x", 1, 0, "E1002" },        /* continues nothing */
		{ 0x00, "x", 1, 0, "E1002" },        /* ... */
		{ 0x09, "x", 1, 0, "E1002" },        /* a part of a ping */
		{ 0x08, "", 0, 0, "E1002" },         /* ... of a close */
		{ 0x89, "x", 1, 2, "E1002" },        /* a long ping */
		{ 0x81, "x", 1, 2, "E1002" },        /* not the shortest */
		{ 0x81, "x", 1, 8, "E1002" },        /* ... */
		{ 0x88, "x", 1, 0, "E1002" },        /* half a code */
		{ 0x88, "\003\347", 2, 0, "E1002" }, /* 999 */
		{ 0x88, "\003\354", 2, 0, "E1002" }, /* 1004 */
		{ 0x88, "\003\355", 2, 0, "E1002" }, /* 1005 */
		{ 0x88, "\003\356", 2, 0, "E1002" }, /* 1006 */
		{ 0x88, "\003\367", 2, 0, "E1002" }, /* 1015 */
		{ 0x88, "\013\267", 2, 0, "E1002" }, /* 2999 */
		{ 0x88, "\023\210", 2, 0, "E1002" }, /* 5000 */
		{ 0x88, "\003\350\377", 3, 0, "E1002" },
		{ 0x81, "\377", 1, 0, "E1007" },
		{ 0x81, "a\303", 2, 0, "E1007" },
		{ 0x81, "\355\240\200", 3, 0, "E1007" }, /* a surrogate */
		{ 0x81, "\300\200", 2, 0, "E1007" },     /* overlong */
	};
	AUTO(buf_done) struct buf b = { 0 };
	char want[32];
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++) {
		put(&b, 0x82, "ok");
		put_frame(&b, bad[i].first, bad[i].payload, bad[i].n,
			  bad[i].len);
		put(&b, 0x82, "unseen");
		snprintf(want, sizeof(want), "B[ok]%s", bad[i].want);
		check_decoded(&b, want);
	}
	put(&b, 0x01, "a");
	put(&b, 0x81, "b"); /* a message inside a message */
	check_decoded(&b, "E1002");
	buf_puts(&b, "\x81\x01x"); /* not masked */
	check_decoded(&b, "E1002");
}

static void test_sizes(void)
{
	AUTO(buf_done) struct buf b = { 0 };
	char big[70000] = { 0 };

	put_frame(&b, 0x82, big, 201, 2);
	check_decoded(&b, "E1009");
	put_frame(&b, 0x02, big, 200, 2);
	put(&b, 0x00, "");
	put(&b, 0x80, "x");
	check_decoded(&b, "E1009");
	put_frame(&b, 0x82, big, 65536, 8);
	check_decoded(&b, "E1009");
	/* Before a byte of it is there. */
	buf_add(&b, "\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff____", 14);
	check_decoded(&b, "E1009");
	buf_add(&b, "\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff____", 14);
	check_decoded(&b, "E1002");
}

static void test_encode(void)
{
	static const struct {
		size_t n, head;
		const char *bytes;
	} sizes[] = { { 0, 2, "\x82\x00" },
		      { 125, 2, "\x82\x7d" },
		      { 126, 4, "\x82\x7e\x00\x7e" },
		      { 65535, 4, "\x82\x7e\xff\xff" },
		      { 65536, 10, "\x82\x7f\0\0\0\0\0\1\0\0" } };
	static char zeros[65536];
	AUTO(buf_done) struct buf b = { 0 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(sizes); i++) {
		ws_encode(&b, WS_BINARY, zeros, sizes[i].n);
		CHECK(buf_len(&b) == sizes[i].head + sizes[i].n);
		CHECK(memcmp(buf_data(&b), sizes[i].bytes, sizes[i].head) == 0);
		buf_clear(&b);
	}
}

/* --- the server --- */

static int dial(void)
{
	int fd = unix_connect(rig.sock[0], SOCK_STREAM);

	if (fd < 0)
		abort();
	return fd;
}

static void say(int fd, struct buf *b)
{
	if (send(fd, buf_data(b), buf_len(b), MSG_NOSIGNAL) !=
	    (ssize_t)buf_len(b))
		printf("# short write\n");
	buf_clear(b);
}

static size_t heard; /* bytes, the last time */

/* `n` bytes, or what comes before the end (n = 0: all of it). */
static const char *hear(int fd, size_t n)
{
	static char got[16384];
	size_t have = 0;

	while ((n == 0 || have < n) && have < sizeof(got) - 1) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t r;

		if (poll(&p, 1, PATIENCE_MS) != 1)
			break;
		r = read(fd, got + have, n ? n - have : sizeof(got) - 1 - have);
		if (r <= 0)
			break;
		have += (size_t)r;
	}
	got[have] = '\0';
	heard = have;
	return got;
}

static const char *hear_head(int fd)
{
	static char head[2048];
	size_t n = 0;

	head[0] = '\0';
	while (n < sizeof(head) - 1 && !strstr(head, "\r\n\r\n")) {
		if (read(fd, head + n, 1) != 1)
			break;
		head[++n] = '\0';
	}
	return head;
}

static int dial_ws(void)
{
	int fd = dial();

	if (write(fd, UP, strlen(UP)) < 0 ||
	    !strstr(hear_head(fd), "HTTP/1.1 101 "))
		printf("# no upgrade\n");
	return fd;
}

static bool hears(int fd, const char *want, size_t n)
{
	return memcmp(hear(fd, n), want, n) == 0;
}

/* The code that the server's owner was told, once it was. */
static unsigned closed_code(void)
{
	unsigned i, code = 0;

	for (i = 0; i < 500 && code == 0; i++) {
		AUTO_CLOSE int fd = dial();
		static const char ask[] = "GET /ws-code HTTP/1.0\r\n\r\n";
		const char *s;

		if (write(fd, ask, sizeof(ask) - 1) < 0)
			abort();
		s = strstr(hear(fd, 0), "\r\n\r\n");
		code = s ? (unsigned)strtoul(s + 4, NULL, 10) : 0;
		usleep(10000);
	}
	return code;
}

static void test_handshake(void)
{
	static const char *const no[][2] = {
		{ ASK(""), " 426 " },
		{ ASK("Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"),
		  " 400 " },
		{ ASK("Upgrade: websocket\r\nSec-WebSocket-Key: " KEY "\r\n"),
		  " 426 " },
		{ ASK("Upgrade: websocket\r\nSec-WebSocket-Version: 8\r\n"
		      "Sec-WebSocket-Key: " KEY "\r\n"),
		  " 426 " },
		{ ASK("Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
		      "Sec-WebSocket-Key: short\r\n"),
		  " 400 " },
		{ ASK("Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
		      "Sec-WebSocket-Key: " KEY "\r\n"
		      "Sec-WebSocket-Key: " KEY "\r\n"),
		  " 400 " },
		{ "POST" UP + 3, " 400 " },
	};
	AUTO_CLOSE int fd = dial();
	const char *s;
	size_t i;

	for (i = 0; i < ARRAY_LEN(no); i++) {
		AUTO_CLOSE int bad_fd = dial();

		if (write(bad_fd, no[i][0], strlen(no[i][0])) < 0)
			abort();
		s = hear_head(bad_fd);
		CHECK(strstr(s, no[i][1]) != NULL);
		CHECK(!strstr(s, " 426 ") ||
		      strstr(s, "Sec-WebSocket-Version: 13\r\n"));
	}
	if (write(fd, UP, strlen(UP)) < 0)
		abort();
	s = hear_head(fd);
	CHECK(strstr(s, "HTTP/1.1 101 ") == s);
	/* The example of RFC 6455, 1.3. */
	CHECK(strstr(s,
		     "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r"));
	CHECK(strstr(s, "Sec-WebSocket-Protocol: echo\r\n") != NULL);
	CHECK(strstr(s, "Connection: Upgrade\r\nUpgrade: websocket\r\n"));
}

static void test_echo(void)
{
	AUTO(buf_done) struct buf b = { 0 };
	AUTO_CLOSE int fd = dial();

	/* Frames may come right behind the request. */
	buf_puts(&b, UP);
	put(&b, 0x81, "first");
	say(fd, &b);
	hear_head(fd);
	CHECK(hears(fd,
		    "\x81\x05"
		    "first",
		    7));
	put(&b, 0x02, "a");
	put(&b, 0x89, "ping");
	put(&b, 0x80, "b");
	put(&b, 0x8a, "never asked");
	put(&b, 0x81, "");
	say(fd, &b);
	CHECK(hears(fd,
		    "\x8a\x04ping"
		    "\x82\x02"
		    "ab"
		    "\x81\x00",
		    12));
	put_frame(&b, 0x88, "\017\241bye", 5, 0);
	put(&b, 0x81, "too late");
	say(fd, &b);
	CHECK(hears(fd, "\x88\x02\017\241", 4));
	CHECK_STR(hear(fd, 0), "");
	close(take_fd(&fd));
	CHECK(closed_code() == 4001);
}

static void test_server_closes(void)
{
	AUTO(buf_done) struct buf b = { 0 };
	AUTO_CLOSE int fd = dial_ws();

	put(&b, 0x81, "close");
	put(&b, 0x81, "unheard");
	say(fd, &b);
	CHECK(hears(fd, "\x88\x0d\017\240as you like", 15));
	put_frame(&b, 0x88, "\017\240", 2, 0);
	say(fd, &b);
	CHECK_STR(hear(fd, 0), "");
	close(take_fd(&fd));
	CHECK(closed_code() == 4000);
	fd = dial_ws();
	put(&b, 0x81, "abort");
	say(fd, &b);
	CHECK_STR(hear(fd, 0), "");
}

static void test_faults(void)
{
	AUTO(buf_done) struct buf b = { 0 };
	char big[RIG_BODY_MAX + 1] = { 0 };
	AUTO_CLOSE int fd = dial_ws();

	buf_puts(&b, "\x81\x01x");
	say(fd, &b);
	CHECK(hears(fd, "\x88\x02\003\352", 4));
	CHECK_STR(hear(fd, 0), "");
	close(take_fd(&fd));
	CHECK(closed_code() == WS_PROTOCOL_ERROR);

	fd = dial_ws();
	put_frame(&b, 0x82, big, sizeof(big), 2);
	say(fd, &b);
	CHECK(hears(fd, "\x88\x02\003\361", 4));
	close(take_fd(&fd));
	CHECK(closed_code() == WS_TOO_LARGE);

	fd = dial_ws();
	put(&b, 0x81, "good-bye");
	say(fd, &b);
	hear(fd, 10);
	close(take_fd(&fd));
	CHECK(closed_code() == WS_LOST);
}

/* A peer that does not read stops its own messages, and nothing is lost. */
static void test_pressure(void)
{
	AUTO(buf_done) struct buf b = { 0 };
	size_t want = 1000 * (size_t)(RIG_STREAM_PIECE + 4), got = 0;
	AUTO_CLOSE int fd = dial_ws();

	put(&b, 0x81, "flood");
	put(&b, 0x81, "end");
	say(fd, &b);
	usleep(200000);
	while (got < want + 5) {
		hear(fd, want + 5 - got < 10000 ? want + 5 - got : 10000);
		if (heard == 0)
			break;
		got += heard;
	}
	CHECK(got == want + 5);
	put(&b, 0x81, "pause");
	put(&b, 0x81, "then");
	say(fd, &b);
	CHECK(hears(fd, "\x81\x04then", 6));
	put(&b, 0x88, "");
	say(fd, &b);
	CHECK(hears(fd, "\x88\x00", 2));
	close(take_fd(&fd));
	CHECK(closed_code() == WS_NO_CODE);
}

int main(void)
{
	test_good_frames();
	test_bad_frames();
	test_sizes();
	test_encode();
	rig_start();
	test_handshake();
	test_echo();
	test_server_closes();
	test_faults();
	test_pressure();
	CHECK(rig_stop() == 0);
	return CHECK_DONE();
}
