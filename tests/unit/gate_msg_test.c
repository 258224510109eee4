/* What the api and a door say to each other (wire/gate.h), a door and the
 * keeper (gate/within.h), and what waits to be said (gate/outbox.h). */
#include "wire/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "check.h"
#include "gate/outbox.h"
#include "gate/within.h"

#define ALL(a) (sizeof(a) / sizeof((a)[0]))

static const char id[] = "iaaaaaaaaaaaaaaaaaaaaaaaaa2";

static void same(const struct gate_msg *a, const struct gate_msg *b)
{
	unsigned i;

	CHECK(a->kind == b->kind && a->number == b->number);
	CHECK(a->flags == b->flags && a->fds == b->fds);
	CHECK(a->allow == b->allow && a->ask_ms == b->ask_ms);
	CHECK(a->port == b->port && a->line == b->line);
	CHECK(a->shown == b->shown);
	CHECK(memcmp(&a->count, &b->count, sizeof(a->count)) == 0);
	if (a->account)
		CHECK_STR(a->account, b->account);
	CHECK(a->n_parts == b->n_parts && a->n_uses == b->n_uses);
	for (i = 0; i < a->n_parts; i++) {
		CHECK_STR(a->parts[i].name, b->parts[i].name);
		CHECK_STR(a->parts[i].text, b->parts[i].text);
	}
	for (i = 0; i < a->n_uses; i++) {
		CHECK_STR(a->uses[i].name, b->uses[i].name);
		CHECK_STR(a->uses[i].placeholder, b->uses[i].placeholder);
		CHECK(a->uses[i].canary == b->uses[i].canary);
	}
	CHECK(a->n_bytes == b->n_bytes &&
	      (a->n_bytes == 0 || memcmp(a->bytes, b->bytes, a->n_bytes) == 0));
}

static void test_round(void)
{
	const struct gate_msg all[] = {
		{ .kind = GATE_HELLO, .door = "" },
		{ .kind = GATE_HELLO, .door = "alpha" },
		{ .kind = GATE_PROJECT, .project = "alpha" },
		{ .kind = GATE_SECRET,
		  .number = 7,
		  .project = "alpha",
		  .bytes = "a\0b",
		  .n_bytes = 3 },
		{ .kind = GATE_BOX,
		  .id = id,
		  .project = "alpha",
		  .name = "",
		  .account = id,
		  .flags = GATE_OBSERVE,
		  .fds = GATE_FDS_ALL,
		  .ask_ms = 1ULL << 40,
		  .parts = { { "rules", "allow * *\n" }, { "policy x", "" } },
		  .n_parts = 2,
		  .uses = { { "key", "carrel-placeholder-1", false },
			    { "bait", "sk-1", true } },
		  .n_uses = 2 },
		{ .kind = GATE_GONE, .id = id },
		{ .kind = GATE_ANSWER, .number = 7, .allow = true },
		{ .kind = GATE_READY },
		{ .kind = GATE_ASK,
		  .number = 9,
		  .id = id,
		  .shown = 4,
		  .method = "GET",
		  .scheme = "https",
		  .host = "api.test",
		  .path = "/x",
		  .part = "policy x",
		  .rule = "ask * *",
		  .port = 65535,
		  .line = 3 },
		{ .kind = GATE_USE,
		  .id = id,
		  .count = { 1, 2, 3, 4, 5, 6, UINT64_MAX } },
		{ .kind = GATE_SYNC, .number = 1 },
	};
	static struct gate_msg m;
	size_t i, n;

	for (i = 0; i < ALL(all); i++) {
		struct buf b = { 0 };

		gate_msg_put(&b, &all[i]);
		CHECK(gate_msg_get(buf_data(&b), buf_len(&b), &m) == 0);
		same(&all[i], &m);
		/* Nothing less, nothing more; bytes at the end have no end. */
		for (n = 0; n < buf_len(&b) - all[i].n_bytes; n++)
			if (gate_msg_get(buf_data(&b), n, &m) == 0)
				break;
		CHECK(n == buf_len(&b) - all[i].n_bytes);
		buf_add(&b, "", 1);
		if (all[i].n_bytes == 0)
			CHECK(gate_msg_get(buf_data(&b), buf_len(&b), &m) ==
			      -EBADMSG);
		buf_done(&b);
	}
}

static int refused(const struct gate_msg *m)
{
	static struct gate_msg out;
	struct buf b = { 0 };
	int r;

	gate_msg_put(&b, m);
	r = gate_msg_get(buf_data(&b), buf_len(&b), &out);
	buf_done(&b);
	return r == -EBADMSG;
}

static void test_bounds(void)
{
	static char text[GATE_TEXT_MAX + 2], name[GATE_PART_CAP + 1];
	struct gate_msg m = { .kind = GATE_BOX,
			      .id = id,
			      .project = "alpha",
			      .name = "",
			      .account = id,
			      .parts = { { "a", text }, { "b", "x" } },
			      .n_parts = 1 };
	struct gate_msg bad;

	CHECK(!refused(&m));
	bad = m;
	bad.account = "../../etc";
	CHECK(refused(&bad));
	memset(text, 'x', GATE_TEXT_MAX);
	CHECK(!refused(&m));
	m.n_parts = 2;
	CHECK(refused(&m));
	text[0] = '\0';
	memset(name, 'n', sizeof(name) - 1);
	m.parts[0].name = name;
	CHECK(refused(&m));
	m.n_parts = 0;
	m.fds = GATE_FDS_ALL + 1;
	CHECK(refused(&m));
	bad = (struct gate_msg){ .kind = GATE_GONE, .id = "../../etc" };
	CHECK(refused(&bad));
	bad = (struct gate_msg){ .kind = GATE_HELLO, .door = "A" };
	CHECK(refused(&bad));
	bad = (struct gate_msg){ .kind = GATE_PROJECT, .project = "" };
	CHECK(refused(&bad));
}

static void test_within(void)
{
	const struct within_msg all[] = {
		{ WITHIN_DOOR, "", "", "", NULL, 0 },
		{ WITHIN_DOOR, "alpha", "", "", NULL, 0 },
		{ WITHIN_RESOLV, "", "nameserver 192.0.2.1\n", "", NULL, 0 },
		{ WITHIN_KEYS, "alpha", "cert", "key", "\0\1\2", 3 },
		{ WITHIN_STATE, id, "", "", NULL, 0 },
	};
	const struct within_msg bad[] = {
		{ 0, "", "", "", NULL, 0 },
		{ WITHIN_OPS, "", "", "", NULL, 0 },
		{ WITHIN_KEYS, "", "", "", NULL, 0 },
		{ WITHIN_KEYS, "../key", "", "", NULL, 0 },
		{ WITHIN_STATE, "alpha", "", "", NULL, 0 },
		{ WITHIN_DROP, "../x", "", "", NULL, 0 },
		{ WITHIN_CONN, "alpha", "", "", NULL, 0 },
	};
	struct within_msg m;
	size_t i;

	for (i = 0; i < ALL(all) + ALL(bad); i++) {
		const struct within_msg *x =
			i < ALL(all) ? &all[i] : &bad[i - ALL(all)];
		struct buf b = { 0 };
		int r;

		within_put(&b, x);
		r = within_get(buf_data(&b), buf_len(&b), &m);
		CHECK(r == (i < ALL(all) ? 0 : -EBADMSG));
		if (r == 0) {
			CHECK_STR(m.name, x->name);
			CHECK_STR(m.one, x->one);
			CHECK_STR(m.two, x->two);
			CHECK(m.n_bytes == x->n_bytes);
		}
		buf_done(&b);
	}
}

static int pair[2];
static struct loop loop;
static struct outbox out;
static struct io io;
static unsigned seen;

static void on_room(struct io *x, uint32_t events)
{
	(void)x;
	(void)events;
	CHECK(outbox_flush(&out) == 0);
}

/* Reads all there is; each carries its number and an open descriptor. */
static void drain(void)
{
	int fds[FD_PASS_MAX];
	unsigned char raw[512];

	while (recv_msg_fds(pair[1], raw, sizeof(raw), fds) == sizeof(raw)) {
		if (raw[0] != seen % 256 || fds[0] < 0)
			break;
		close(fds[0]);
		seen++;
	}
}

static void on_turn(struct timer *t)
{
	drain();
	if (out.n == 0)
		loop.stop = true;
	else
		timer_set(&loop, t, 0, on_turn);
}

static void test_outbox(void)
{
	enum { MANY = 2000 };
	unsigned char raw[512] = { 0 };
	struct timer t = { 0 };
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), bad = 0, i;

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) ==
	      0);
	CHECK(loop_init(&loop) == 0);
	outbox_init(&out, &loop, &io);
	CHECK(io_add(&loop, &io, pair[0], EPOLLIN, on_room) == 0);
	for (i = 0; i < MANY; i++) {
		raw[0] = (unsigned char)i;
		bad += outbox_send(&out, raw, sizeof(raw), &fd, 1) < 0;
	}
	CHECK(bad == 0 && out.n > 0);
	timer_set(&loop, &t, 0, on_turn);
	CHECK(loop_run(&loop) == 0);
	drain();
	CHECK(seen == MANY);
	/* Somebody who never reads is given up. */
	for (i = 0; i < 2 * OUTBOX_MSGS && bad == 0; i++)
		bad = outbox_send(&out, raw, sizeof(raw), NULL, 0);
	CHECK(bad == -ENOBUFS && out.n == OUTBOX_MSGS);
	outbox_clear(&out);
	CHECK(out.n == 0 && out.bytes == 0);
	io_close(&loop, &io);
	loop_done(&loop);
	close(pair[1]);
	close(fd);
}

int main(void)
{
	test_round();
	test_bounds();
	test_within();
	test_outbox();
	return CHECK_DONE();
}
