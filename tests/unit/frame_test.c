#include "wire/frame.h"

#include <errno.h>
#include <stdlib.h>

#include "base/auto.h"
#include "check.h"
#include "wire/pack.h"

static void test_hello(void)
{
	struct hello h = { 1, 3, 7, { 1, 2, 3 } }, got = { 0 };
	struct buf b = { 0 };
	char whole[HELLO_LEN];
	size_t i;

	hello_put(&b, &h);
	CHECK(buf_len(&b) == HELLO_LEN);
	memcpy(whole, buf_data(&b), sizeof(whole));
	buf_clear(&b);
	for (i = 0; i < HELLO_LEN; i++) {
		if (hello_get(&b, &got) != 0)
			break;
		buf_add(&b, whole + i, 1);
	}
	CHECK(i == HELLO_LEN);
	CHECK(hello_get(&b, &got) == 1 && buf_len(&b) == 0);
	CHECK(got.version_min == 1 && got.version_max == 3 &&
	      got.features == 7);
	CHECK(memcmp(got.nonce, h.nonce, sizeof(h.nonce)) == 0);
	h.version_min = WIRE_VERSION + 1;
	h.version_max = WIRE_VERSION + 2;
	hello_put(&b, &h);
	CHECK(hello_get(&b, &got) == -EPROTO);
	buf_clear(&b);
	buf_puts(&b, "G");
	CHECK(hello_get(&b, &got) == -EBADMSG);
	buf_done(&b);
}

static void test_hello_find(void)
{
	struct hello h = { 1, 1, 0, { 1 } }, got = { 0 };
	struct buf b = { 0 };

	hello_find(&b);
	CHECK(buf_len(&b) == 0);
	buf_puts(&b, "the rest of a frame");
	hello_find(&b);
	CHECK(buf_len(&b) == 0);
	buf_puts(&b, "its end\xff");
	hello_put(&b, &h);
	b.len -= HELLO_LEN - 3; /* it comes in two pieces */
	hello_find(&b);
	CHECK(buf_len(&b) == 4);
	b.len += HELLO_LEN - 3;
	buf_puts(&b, "more");
	hello_find(&b);
	CHECK(hello_get(&b, &got) == 1 && got.nonce[0] == 1);
	CHECK_STR(buf_str(&b), "more");
	buf_done(&b);
}

static void test_frames(void)
{
	struct buf b = { 0 }, part = { 0 };
	struct frame f;
	size_t i;

	frame_put(&b, FRAME_PING, 0, 0x12345678, "abc", 3);
	CHECK(buf_len(&b) == FRAME_HEAD + 3);
	for (i = 0; i < FRAME_HEAD + 3; i++) {
		if (frame_get(&part, &f) != 0)
			break;
		buf_add(&part, buf_data(&b) + i, 1);
	}
	CHECK(i == FRAME_HEAD + 3);
	CHECK(frame_get(&part, &f) == 1 && f.len == 3 && f.type == FRAME_PING);
	CHECK(f.channel == 0x12345678 && memcmp(f.payload, "abc", 3) == 0);
	buf_clear(&b);
	frame_put_data(&b, FRAME_OUTPUT, 5, 2, 1ULL << 40, "xy", 2);
	CHECK(frame_get(&b, &f) == 1 && f.len == 11 && f.payload[0] == 2);
	CHECK(f.payload[6] == 1 && f.payload[9] == 'x');
	buf_clear(&b);
	frame_put_data(&b, FRAME_INPUT, 5, 0, 3, "xy", 2);
	CHECK(frame_get(&b, &f) == 1 && f.len == 10 && f.payload[0] == 3);
	buf_done(&b);
	buf_done(&part);
}

static void test_refused(void)
{
	static const struct {
		uint8_t raw[FRAME_HEAD];
		int want;
	} heads[] = {
		{ { 0, 0, 0, 0, 1 }, 1 },
		{ { 0, 0, 1, 0, 1 }, 0 },                /* 64 KiB: allowed */
		{ { 1, 0, 1, 0, 1 }, -EBADMSG },         /* one more */
		{ { 0, 0, 0, 0x80, 1 }, -EBADMSG },      /* 2^31 */
		{ { 255, 255, 255, 255, 1 }, -EBADMSG }, /* 2^32 - 1 */
		{ { 0, 0, 0, 0, 1, 2 }, -EBADMSG },      /* unknown flag */
		{ { 0, 0, 0, 0, 1, 0, 1 }, -EBADMSG },   /* must be zero */
		{ { 0, 0, 0, 0, 1, 0, 0, 9 }, -EBADMSG },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(heads); i++) {
		struct buf b = { 0 };
		struct frame f;

		buf_add(&b, heads[i].raw, FRAME_HEAD);
		CHECK(frame_get(&b, &f) == heads[i].want);
		buf_done(&b);
	}
}

/* Joins the frames of a spawn as a receiver does. */
static size_t join(struct buf *in, struct buf *whole)
{
	struct frame f;
	size_t n = 0;
	uint8_t more = FRAME_MORE;

	while (more && frame_get(in, &f) == 1) {
		more = f.flags;
		buf_add(whole, f.payload, f.len);
		buf_eat(in, FRAME_HEAD + f.len);
		n++;
	}
	return n;
}

static void test_spawn(void)
{
	static char big[200000];
	const char *argv[] = { "prog", big, "", NULL };
	const char *env[] = { "A=b", NULL };
	struct spawn
		s = { SPAWN_PTY, 10, 20, "me", "/x", "t", 3, 1, argv, env },
		got;
	struct buf b = { 0 }, whole = { 0 };

	memset(big, 'z', sizeof(big) - 1);
	CHECK(spawn_put(&b, 4, &s) == 0);
	CHECK(join(&b, &whole) == 4 && buf_len(&b) == 0);
	CHECK(spawn_get(buf_data(&whole), buf_len(&whole), &got) == 0);
	CHECK(got.flags == SPAWN_PTY && got.rows == 10 && got.cols == 20);
	CHECK(got.argc == 3 && got.envc == 1 && !got.argv[3] && !got.env[1]);
	CHECK_STR(got.user, "me");
	CHECK_STR(got.cwd, "/x");
	CHECK_STR(got.argv[1], big);
	CHECK_STR(got.argv[2], "");
	CHECK_STR(got.env[0], "A=b");
	spawn_done(&got);
	/* Cut anywhere, or with a byte too many, it is refused. */
	CHECK(spawn_get(buf_data(&whole), buf_len(&whole) - 1, &got) < 0);
	CHECK(spawn_get(buf_data(&whole), 3, &got) < 0);
	buf_add(&whole, "", 1);
	CHECK(spawn_get(buf_data(&whole), buf_len(&whole), &got) < 0);
	buf_done(&b);
	buf_done(&whole);
	s.argc = 0;
	CHECK(spawn_put(&b, 4, &s) == 0 && join(&b, &whole) == 1);
	CHECK(spawn_get(buf_data(&whole), buf_len(&whole), &got) == -EBADMSG);
	s.argc = ARGS_MAX + 1;
	CHECK(spawn_put(&b, 4, &s) == -E2BIG);
	buf_done(&b);
	buf_done(&whole);
}

static void test_spawn_limits(void)
{
	const char **argv = xcalloc(ARGS_MAX + 1, sizeof(*argv));
	struct spawn s = { .argc = ARGS_MAX, .argv = argv }, got;
	struct buf b = { 0 }, whole = { 0 };
	static char word[200];
	size_t i;

	for (i = 0; i < ARGS_MAX; i++)
		argv[i] = "x";
	CHECK(spawn_put(&b, 1, &s) == 0 && join(&b, &whole) > 0);
	CHECK(spawn_get(buf_data(&whole), buf_len(&whole), &got) == 0);
	CHECK(got.argc == ARGS_MAX);
	spawn_done(&got);
	memset(word, 'y', sizeof(word) - 1);
	for (i = 0; i < ARGS_MAX; i++)
		argv[i] = word;
	CHECK(spawn_put(&b, 1, &s) == -E2BIG && buf_len(&b) == 0);
	/* A count that promises more than there is. */
	buf_clear(&whole);
	pack_u32(&whole, 0);
	pack_u32(&whole, 0);
	pack_str(&whole, "");
	pack_str(&whole, "");
	pack_u32(&whole, ARGS_MAX + 1);
	CHECK(spawn_get(buf_data(&whole), buf_len(&whole), &got) == -EBADMSG);
	buf_done(&b);
	buf_done(&whole);
	free(argv);
}

static void test_strings(void)
{
	struct buf b = { 0 };
	struct unpack u;

	pack_str(&b, "abc");
	b.p[5] = '\0'; /* a NUL inside */
	u = unpack_init(buf_data(&b), buf_len(&b));
	CHECK_STR(unpack_str(&u), "");
	CHECK(!unpack_ok(&u));
	buf_clear(&b);
	pack_u32(&b, 0xffffffff);
	u = unpack_init(buf_data(&b), buf_len(&b));
	CHECK_STR(unpack_str(&u), "");
	CHECK(!unpack_ok(&u));
	buf_done(&b);
}

static void test_exit(void)
{
	struct exit_info x = { 1, 9, 123456789012ULL, 5, 1ULL << 33 }, got;
	struct buf b = { 0 };
	struct frame f;

	exit_put(&b, 8, &x);
	CHECK(frame_get(&b, &f) == 1 && f.type == FRAME_EXIT && f.channel == 8);
	CHECK(exit_get(&f, &got) == 0 && got.signaled == 1 && got.code == 9);
	CHECK(got.user_us == x.user_us && got.sys_us == 5 &&
	      got.max_rss_bytes == x.max_rss_bytes);
	f.len--;
	CHECK(exit_get(&f, &got) == -EBADMSG);
	f.len++;
	b.p[FRAME_HEAD] = 2;
	CHECK(exit_get(&f, &got) == -EBADMSG);
	buf_done(&b);
}

/*
 * Writes a frame, and reads it back cut to `n` bytes (-1: whole). What is read
 * points into it until the next call; NULL ends it.
 */
static int attach_round(const struct attach *at, struct attach *got, int n)
{
	static struct buf b;
	struct frame f;

	buf_done(&b);
	if (!at)
		return 0;
	attach_put(&b, 7, at);
	if (frame_get(&b, &f) != 1 || f.type != FRAME_ATTACH || f.channel != 7)
		return -1;
	if (n >= 0)
		f.len = (uint32_t)n;
	return attach_get(&f, got);
}

static void test_attach(void)
{
	struct attach at = { .number = 5, .out = { 1ULL << 40, OFFSET_NOW } };
	struct attach got;
	char tag[TAG_MAX + 2];
	int i, taken = 0;

	CHECK(attach_round(&at, &got, -1) == 0 && got.number == 5);
	CHECK_STR(got.tag, "");
	CHECK(got.out[0] == 1ULL << 40 && got.out[1] == OFFSET_NOW);
	for (i = 0; i < 4 + 5 + 16; i++)
		taken += attach_round(&at, &got, i) == 0;
	CHECK(taken == 0);
	/* By number or by tag, not by both and not by nothing. */
	at.tag = "x";
	CHECK(attach_round(&at, &got, -1) == -EBADMSG);
	at.number = 0;
	CHECK(attach_round(&at, &got, -1) == 0);
	CHECK_STR(got.tag, "x");
	at.tag = "";
	CHECK(attach_round(&at, &got, -1) == -EBADMSG);
	memset(tag, 't', sizeof(tag));
	tag[TAG_MAX] = '\0';
	at.tag = tag;
	CHECK(attach_round(&at, &got, -1) == 0);
	CHECK_STR(got.tag, tag);
	tag[TAG_MAX] = 't';
	tag[TAG_MAX + 1] = '\0';
	CHECK(attach_round(&at, &got, -1) == -EBADMSG);
	attach_round(NULL, NULL, 0);
}

static void test_started(void)
{
	struct started s = { 42, 7, 1ULL << 50, true }, got;
	struct buf b = { 0 };
	struct frame f;

	started_put(&b, FRAME_STARTED, 3, &s);
	CHECK(frame_get(&b, &f) == 1 && f.type == FRAME_STARTED && f.len == 8);
	CHECK(started_get(&f, &got) == 0 && got.pid == 42 && got.number == 7);
	CHECK(got.in == 0 && !got.pty);
	f.len--;
	CHECK(started_get(&f, &got) == -EBADMSG);
	buf_clear(&b);
	started_put(&b, FRAME_ATTACHED, 3, &s);
	CHECK(frame_get(&b, &f) == 1 && f.type == FRAME_ATTACHED &&
	      f.len == 17);
	CHECK(started_get(&f, &got) == 0 && got.in == 1ULL << 50 && got.pty);
	b.p[FRAME_HEAD + 16] = 2; /* neither yes nor no */
	CHECK(started_get(&f, &got) == -EBADMSG);
	f.len--;
	CHECK(started_get(&f, &got) == -EBADMSG);
	buf_clear(&b);
	s.number = 0;
	started_put(&b, FRAME_STARTED, 3, &s);
	CHECK(frame_get(&b, &f) == 1 && started_get(&f, &got) == -EBADMSG);
	buf_done(&b);
}

static void test_tag(void)
{
	const char *argv[] = { "x", NULL };
	char tag[TAG_MAX + 2] = { 0 };
	struct spawn s = { .tag = tag, .argc = 1, .argv = argv }, got;
	struct buf b = { 0 }, whole = { 0 };

	memset(tag, 't', TAG_MAX);
	CHECK(spawn_put(&b, 4, &s) == 0 && join(&b, &whole) == 1);
	CHECK(spawn_get(buf_data(&whole), buf_len(&whole), &got) == 0);
	CHECK_STR(got.tag, tag);
	spawn_done(&got);
	buf_clear(&whole);
	tag[TAG_MAX] = 't';
	CHECK(spawn_put(&b, 4, &s) == 0 && join(&b, &whole) == 1);
	CHECK(spawn_get(buf_data(&whole), buf_len(&whole), &got) == -EBADMSG);
	buf_clear(&whole);
	tag[0] = '\0';
	s.flags = SPAWN_FLAGS_ALL + 1;
	CHECK(spawn_put(&b, 4, &s) == 0 && join(&b, &whole) == 1);
	CHECK(spawn_get(buf_data(&whole), buf_len(&whole), &got) == -EBADMSG);
	buf_done(&b);
	buf_done(&whole);
}

int main(void)
{
	test_hello();
	test_hello_find();
	test_frames();
	test_refused();
	test_spawn();
	test_spawn_limits();
	test_strings();
	test_exit();
	test_attach();
	test_started();
	test_tag();
	return CHECK_DONE();
}
