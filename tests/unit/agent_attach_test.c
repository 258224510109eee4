/*
 * Processes that outlive their clients: the real agent, as in agent_test.c, and
 * clients that come back, come late, read slowly or lie. AGENT_LONG=1 also
 * waits for what takes half a minute.
 */
#include "agent_box.h"
#include "agent_client.h"
#include "check.h"
#include <time.h>

#include "wire/ps.h"

/* Of a length that no window is a multiple of: a byte at the wrong place
 * shows. */
#define LINE "0123456789abcdef\n"
#define WRITE_LINES "yes 0123456789abcdef | head -c %d"

static struct client c;
static struct box b;

static void attach_as(uint32_t channel, uint32_t number, const char *tag,
		      const struct result *r)
{
	struct attach at = { .number = number,
			     .tag = tag,
			     .out = { r->end[0], r->end[1] } };
	struct buf out = { 0 };

	attach_put(&out, channel, &at);
	client_send(&c, &out);
}

static void detach(uint32_t channel, uint8_t lost)
{
	client_frame(&c, FRAME_DETACH, channel, &lost, 1);
}

static void reconnect(void)
{
	client_close(&c);
	CHECK(client_open(&c, b.sock) == 1);
}

static void wait_started(struct result *r)
{
	while (!r->started && !r->ended && client_next(&c, REPLY_MS) == 1)
		client_note(&c, r, true);
}

/* A shell command on this channel, started. */
static struct result start(uint32_t channel, uint32_t flags, const char *tag,
			   const char *command)
{
	const char *argv[] = { "sh", "-c", command, NULL };
	struct spawn s = { .flags = flags, .tag = tag, .argv = argv };
	struct result r = { 0 };

	client_spawn(&c, channel, &s);
	wait_started(&r);
	return r;
}

/* What comes within a short while on this one channel. */
static void listen_a_while(struct result *r, bool ack)
{
	while (!r->ended && client_next(&c, SILENCE_MS) == 1)
		client_note(&c, r, ack);
}

/* Until the process has ended. */
static void wait_gone(uint32_t pid)
{
	struct result r = client_sh(
		&c, 0, "", "while kill -0 %u 2>&-; do sleep 0.02; done", pid);

	CHECK(!r.broken);
	result_done(&r);
}

static bool failed(uint32_t channel, int code, const char *text)
{
	struct result r = { 0 };
	bool ok;

	if (client_next(&c, REPLY_MS) != 1)
		return false;
	client_note(&c, &r, false);
	ok = c.f.channel == channel && r.failed == code &&
	     strstr(r.message, text);
	if (!ok)
		printf("# type %u failed %d: %s\n", c.f.type, r.failed,
		       r.message);
	return ok;
}

static bool attach_fails(uint32_t number, const char *tag, uint64_t out,
			 int code, const char *text)
{
	struct result r = { .end = { out } };

	attach_as(9, number, tag, &r);
	return failed(9, code, text);
}

/* Attaches with what `r` has so far, and reads to the exit. */
static void attach_to_end(uint32_t number, struct result *r)
{
	r->started = r->ended = false;
	attach_as(3, number, NULL, r);
	client_wait(&c, r);
}

/* Cut off again and again, in the middle of everything; no byte is missing. */
static void test_reconnect(void)
{
	enum { TOTAL = 5000000 };
	char command[80];
	struct result r;
	uint32_t number;
	unsigned cuts = 0, frames;

	snprintf(command, sizeof(command), WRITE_LINES "; exit 3", TOTAL);
	r = start(1, 0, NULL, command);
	r.line = LINE;
	number = r.about.number;
	while (!r.ended && !r.broken) {
		for (frames = 0; frames < 1 + cuts % 7 && !r.ended; frames++) {
			if (client_next(&c, REPLY_MS) != 1)
				break;
			/* Not all that was seen was acknowledged. */
			client_note(&c, &r, frames % 2 == 0);
		}
		if (r.ended)
			break;
		if (cuts++ % 2) {
			reconnect();
		} else {
			detach(1, 1);
			/* What was under way for it comes before this. */
			client_frame(&c, FRAME_PING, 0, NULL, 0);
			while (client_next(&c, REPLY_MS) == 1 &&
			       c.f.type != FRAME_PONG)
				client_note(&c, &r, false);
		}
		if (r.ended)
			break;
		r.started = false;
		attach_as(1, number, NULL, &r);
	}
	CHECK(cuts > 5 && r.gaps == 0 && !r.broken);
	CHECK(r.end[0] == TOTAL && r.exit.code == 3 && r.eof[0] && r.eof[1]);
	printf("# cut %u times\n", cuts);
}

/* Lost: it waits. Left: it runs on, and what was missed is told. */
static void test_gap(void)
{
	enum { TOTAL = 1000000 };
	char command[120];
	struct result r, late = { .line = LINE };
	uint32_t number;

	snprintf(command, sizeof(command), WRITE_LINES "; sleep 0.3", TOTAL);
	r = start(1, 0, "writer", command);
	r.line = LINE;
	number = r.about.number;
	CHECK(client_stops_at(&c, &r, WIRE_WINDOW));
	detach(1, 1);
	late.end[0] = OFFSET_NOW;
	attach_as(2, 0, "writer", &late);
	CHECK(client_stops_at(&c, &late, 2 * WIRE_WINDOW));
	CHECK(late.about.number == number && !late.about.pty);
	CHECK(late.gaps == 1);
	/* Who only had a look does not end the wait for the lost one. */
	detach(2, 0);
	usleep(100000);
	attach_to_end(number, &r);
	CHECK(!r.broken && r.gaps == 0 && r.end[0] == TOTAL);
	/* Nobody waits for one that left. */
	r = start(1, 0, NULL, command);
	r.line = LINE;
	number = r.about.number;
	CHECK(client_stops_at(&c, &r, WIRE_WINDOW));
	detach(1, 0);
	wait_gone(r.about.pid);
	attach_to_end(number, &r);
	CHECK(!r.broken && r.gaps == 1 && r.end[0] == TOTAL);
	/* From the beginning: the last window of it is there. */
	late = (struct result){ .line = LINE };
	attach_as(4, number, NULL, &late);
	CHECK(client_next(&c, REPLY_MS) == 1 && c.f.type == FRAME_ATTACHED);
	client_note(&c, &late, true);
	CHECK(client_next(&c, REPLY_MS) == 1 && c.f.type == FRAME_GAP);
	client_note(&c, &late, true);
	CHECK(late.end[0] == TOTAL - WIRE_WINDOW);
	client_wait(&c, &late);
	CHECK(!late.broken && late.end[0] == TOTAL && late.exit.code == 0);
	/* From the end: nothing but the end. */
	late = (struct result){ .end = { OFFSET_NOW, OFFSET_NOW } };
	late.line = LINE;
	attach_as(4, number, NULL, &late);
	while (!late.ended && client_next(&c, REPLY_MS) == 1) {
		CHECK(c.f.type != FRAME_OUTPUT);
		client_note(&c, &late, true);
	}
	CHECK(late.gaps == 1 && late.end[0] == TOTAL && late.eof[1]);
}

/*
 * The next frame of two channels, to each its own; `slow` does not acknowledge.
 * Whether one came.
 */
static bool pump(struct result *fast, struct result *slow, int timeout_ms)
{
	if (client_next(&c, timeout_ms) != 1)
		return false;
	client_note(&c, c.f.channel == 1 ? fast : slow, c.f.channel == 1);
	return true;
}

/* Until both have this much, and until nothing more comes. */
static void pump_to(struct result *fast, struct result *slow, uint64_t end)
{
	while ((fast->end[0] < end || slow->end[0] < end) &&
	       pump(fast, slow, REPLY_MS))
		continue;
	while (pump(fast, slow, SILENCE_MS))
		continue;
}

static void test_two_readers(void)
{
	enum { TOTAL = 2000000, STEP = 100000 };
	char command[80];
	struct result fast, slow = { .line = LINE };

	snprintf(command, sizeof(command), WRITE_LINES, TOTAL);
	fast = start(1, 0, NULL, command);
	fast.line = LINE;
	attach_as(2, fast.about.number, NULL, &slow);
	pump_to(&fast, &slow, WIRE_WINDOW);
	/* The fast one may have been ahead, by a window at most. */
	CHECK(slow.started && !slow.ended && !fast.ended);
	CHECK(fast.end[0] == slow.end[0] && fast.end[0] < TOTAL);
	client_ack(&c, 2, 1, slow.end[0] - WIRE_WINDOW + STEP);
	pump_to(&fast, &slow, slow.end[0] + STEP);
	CHECK(fast.end[0] == slow.end[0] && !fast.ended);
	/* The slow one leaves: nothing holds the other. */
	detach(2, 0);
	while (!fast.ended && pump(&fast, &slow, REPLY_MS))
		continue;
	CHECK(fast.end[0] == TOTAL && fast.ended && !fast.broken);
	CHECK(!slow.broken);
}

/* Two clients are lost with one connection: output is held for the one that
 * had least of it, whichever was lost first. */
static void test_two_are_lost(void)
{
	enum { TOTAL = 2000000 };
	char command[80];
	uint32_t fast;

	snprintf(command, sizeof(command), WRITE_LINES, TOTAL);
	for (fast = 1; fast <= 2; fast++) {
		struct result one = start(1, 0, NULL, command);
		struct result two = { .line = LINE };
		struct result late = { .line = LINE };

		one.line = LINE;
		attach_as(2, one.about.number, NULL, &two);
		while ((one.end[0] < WIRE_WINDOW || two.end[0] < WIRE_WINDOW) &&
		       client_next(&c, REPLY_MS) == 1)
			client_note(&c, c.f.channel == 1 ? &one : &two, false);
		client_ack(&c, fast, 1, WIRE_WINDOW / 2);
		reconnect();
		usleep(100000);
		attach_to_end(one.about.number, &late);
		CHECK(!late.broken && late.gaps == 0 && late.end[0] == TOTAL);
	}
}

static void test_detached(void)
{
	struct result r = start(1, SPAWN_DETACHED, "quiet",
				"echo first; echo wrong >&2; sleep 0.3; "
				"echo last");
	struct result other = { 0 };

	attach_as(2, 0, "quiet", &other);
	while (!(r.ended && other.ended) && client_next(&c, REPLY_MS) == 1)
		client_note(&c, c.f.channel == 1 ? &r : &other, true);
	CHECK(r.ended && r.end[0] == 0 && !r.eof[0] && !r.broken);
	CHECK_STR(buf_str(&other.out[0]), "first\nlast\n");
	CHECK_STR(buf_str(&other.out[1]), "wrong\n");
	CHECK(other.about.number == r.about.number && !other.broken);
	result_done(&other);
	/* A lot of it is taken at a bounded pace, and the end is kept. */
	r = start(1, SPAWN_DETACHED, NULL,
		  "yes 0123456789abcdef | head -c 3000000");
	client_wait(&c, &r);
	other.line = LINE;
	attach_to_end(r.about.number, &other);
	CHECK(other.gaps == 1 && other.end[0] == 3000000 && !other.broken);
}

/* A channel that wants no output: it gets the exit, and nobody waits for it. */
static void test_mute(void)
{
	struct result r = start(1, SPAWN_STDIN, NULL,
				"read x; yes 0123456789abcdef | "
				"head -c 2000000; exit 3");
	struct result mute = { .end = { OFFSET_NONE, OFFSET_NONE } };
	uint8_t input[8 + 1] = { [8] = '\n' };

	r.line = LINE;
	attach_as(2, r.about.number, NULL, &mute);
	wait_started(&mute);
	CHECK(mute.started);
	client_frame(&c, FRAME_INPUT, 2, input, sizeof(input));
	while (!(r.ended && mute.ended) && client_next(&c, REPLY_MS) == 1)
		client_note(&c, c.f.channel == 1 ? &r : &mute, true);
	CHECK(r.end[0] == 2000000 && r.exit.code == 3 && !r.broken);
	CHECK(mute.exit.code == 3 && buf_len(&mute.out[0]) == 0 && !mute.gaps);
	/* An exit is not held up by output that waits for somebody. */
	result_done(&mute);
	mute = (struct result){ .end = { OFFSET_NONE, OFFSET_NONE } };
	result_done(&r);
	r = start(1, 0, NULL, "yes 0123456789abcdef");
	listen_a_while(&r, false);
	attach_as(2, r.about.number, NULL, &mute);
	client_signal(&c, 1, SIGKILL);
	client_wait(&c, &mute);
	CHECK(mute.exit.code == SIGKILL);
	detach(1, 0);
	/* The same when it has exited. */
	result_done(&mute);
	mute = (struct result){ .end = { OFFSET_NONE, OFFSET_NONE } };
	attach_as(2, r.about.number, NULL, &mute);
	client_wait(&c, &mute);
	CHECK(mute.started && mute.exit.code == SIGKILL && !mute.gaps);
	result_done(&r);
}

/*
 * Another client's look at a process, on channel 2: at once, or again until the
 * process has written on and left `gaps`.
 */
static void look_on(uint32_t number, struct result *other, unsigned gaps)
{
	uint64_t until = clock_boot_ms() + REPLY_MS;

	do {
		*other = (struct result){ .line = LINE };
		attach_as(2, number, NULL, other);
		wait_started(other);
		while (other->end[0] < WIRE_WINDOW &&
		       client_next(&c, REPLY_MS) == 1)
			client_note(&c, other, false);
		listen_a_while(other, false);
		detach(2, 0);
		usleep(100000); /* unless it waits for a reader, it writes on */
	} while (other->gaps < gaps && clock_boot_ms() < until);
}

/* A client that leaves its channel to somebody who waits for the exit. */
static void test_watch(void)
{
	struct result r = start(1, 0, NULL, "yes 0123456789abcdef"), other;
	unsigned i;

	for (i = 0; i < 2; i++) {
		CHECK(client_stops_at(&c, &r, WIRE_WINDOW));
		detach(1, DETACH_WATCH | (i ? 0 : DETACH_LOST));
		look_on(r.about.number, &other, i);
		CHECK(other.started && other.gaps == i);
		CHECK(other.end[0] >= WIRE_WINDOW && !other.broken);
		client_signal(&c, 1, SIGKILL);
		client_wait(&c, &r);
		CHECK(r.ended && r.exit.code == SIGKILL && !r.broken);
		result_done(&r);
		result_done(&other);
		r = start(1, 0, NULL, "yes 0123456789abcdef");
	}
	/* Before it runs, and twice. */
	detach(1, DETACH_WATCH);
	detach(1, DETACH_WATCH | DETACH_LOST);
	client_signal(&c, 1, SIGTERM);
	client_wait(&c, &r);
	CHECK(r.exit.code == SIGTERM);
	result_done(&r);
}

static void test_tags(void)
{
	struct result r = start(1, 0, "one", "echo out; sleep 100");
	struct result again, other = { 0 };

	while (r.end[0] < 4 && client_next(&c, REPLY_MS) == 1)
		client_note(&c, &r, true);
	again = start(2, 0, "one", "true");
	CHECK(again.failed == EEXIST && strstr(again.message, "one"));
	attach_as(3, 0, "one", &other);
	while (other.end[0] < 4 && client_next(&c, REPLY_MS) == 1)
		client_note(&c, c.f.channel == 1 ? &r : &other, true);
	CHECK_STR(buf_str(&other.out[0]), "out\n");
	client_signal(&c, 3, SIGTERM);
	while (!(r.ended && other.ended) && client_next(&c, REPLY_MS) == 1)
		client_note(&c, c.f.channel == 1 ? &r : &other, true);
	CHECK(r.exit.signaled && other.exit.code == SIGTERM && !other.broken);
	/* It is kept, and so is its name. */
	again = start(2, 0, "one", "true");
	CHECK(again.failed == EEXIST);
	result_done(&other);
	attach_to_end(r.about.number, &other);
	CHECK_STR(buf_str(&other.out[0]), "out\n");
	CHECK(other.exit.code == SIGTERM && !other.broken);
	result_done(&r);
	result_done(&other);
	CHECK(attach_fails(0, "none", 0, ESRCH, "none"));
	CHECK(attach_fails(4000000, NULL, 0, ESRCH, "4000000"));
}

static void test_kept(void)
{
	uint32_t first = 0, last = 0;
	struct result r;
	int i, found = 0;

	/* As many as there may be. */
	for (i = 0; i < 70; i++) {
		r = client_sh(&c, 0, "", "echo $PPID");
		CHECK(r.ended && !r.broken);
		first = first ? first : r.about.number;
		last = r.about.number;
		result_done(&r);
	}
	CHECK(attach_fails(last - 64, NULL, 0, ESRCH, "no process"));
	CHECK(attach_fails(first, NULL, 0, ESRCH, "no process"));
	for (i = 0; i < 64; i++) {
		r = (struct result){ 0 };
		attach_to_end(last - (uint32_t)i, &r);
		found += r.exit.code == 0 && !r.broken &&
			 strcmp(buf_str(&r.out[0]), "1\n") == 0;
		result_done(&r);
	}
	CHECK(found == 64);
	/* And no more of their output than that: 16 windows. */
	for (i = 0; i < 20; i++) {
		r = start(1, 0, NULL, "head -c 300000 /dev/zero");
		r.quiet = true;
		client_wait(&c, &r);
		CHECK(!r.broken);
		last = r.about.number;
	}
	CHECK(attach_fails(last - 16, NULL, 0, ESRCH, "no process"));
	r = (struct result){ .quiet = true };
	attach_to_end(last - 15, &r);
	CHECK(r.end[0] == 300000 && r.gaps == 1 && !r.broken);
}

static void test_input(void)
{
	struct result r = start(1, SPAWN_STDIN, NULL, "cat; echo end");
	struct result other = { 0 };
	uint64_t at;

	client_input(&c, 1, 0, "one\n", 4);
	while (r.end[0] < 4 && client_next(&c, REPLY_MS) == 1)
		client_note(&c, &r, true);
	CHECK(r.input_acked == 4);
	attach_as(2, r.about.number, NULL, &other);
	while (other.end[0] < 4 && client_next(&c, REPLY_MS) == 1)
		client_note(&c, &other, true);
	/* Each counts its own from where it came in. */
	CHECK(other.about.in == 4);
	client_input(&c, 2, 4, "two\n", 4);
	client_input(&c, 1, 4, "three\n", 6);
	client_input(&c, 2, 8, "four\n", 5);
	client_frame(&c, FRAME_INPUT_EOF, 1, NULL, 0);
	client_input(&c, 2, 13, "forgotten\n", 10);
	while (!(r.ended && other.ended) && client_next(&c, REPLY_MS) == 1)
		client_note(&c, c.f.channel == 1 ? &r : &other, true);
	/* The last piece may have crossed the exit. */
	CHECK(r.input_acked == 10 && other.input_acked >= 13);
	CHECK_STR(buf_str(&r.out[0]), "one\ntwo\nthree\nfour\nend\n");
	CHECK_STR(buf_str(&other.out[0]), buf_data(&r.out[0]));
	CHECK(!r.broken && !other.broken);
	result_done(&r);
	result_done(&other);
	/* Nobody reads: bytes of those that leave go on waiting, not for ever.
	 */
	r = start(1, SPAWN_STDIN, NULL, "sleep 0.5; wc -c");
	for (at = 0; at < 10 * WIRE_WINDOW; at += 60000) {
		static char piece[60000];

		other = (struct result){ 0 };
		attach_as(2, r.about.number, NULL, &other);
		if (client_next(&c, REPLY_MS) == 1)
			client_note(&c, &other, true);
		client_input(&c, 2, other.about.in, piece, sizeof(piece));
		detach(2, 0);
		client_frame(&c, FRAME_PING, 0, NULL, 0);
		while (client_next(&c, REPLY_MS) == 1 && c.f.type != FRAME_PONG)
			client_note(&c, &other, true);
		if (other.failed)
			break;
	}
	CHECK(other.failed == EAGAIN && strstr(other.message, "read"));
	CHECK(other.about.in == at && at > 3 * WIRE_WINDOW);
	client_frame(&c, FRAME_INPUT_EOF, 1, NULL, 0);
	client_wait(&c, &r);
	CHECK(strtoull(buf_str(&r.out[0]), NULL, 10) == at && !r.broken);
	result_done(&r);
}

static void test_terminal(void)
{
	struct result r = start(1, SPAWN_PTY | SPAWN_STDIN, "term",
				"stty -echo; echo on; cat; echo off; cat");
	struct result other = { 0 };

	while (r.end[0] < 4 && client_next(&c, REPLY_MS) == 1)
		client_note(&c, &r, true);
	reconnect();
	attach_as(2, 0, "term", &other);
	wait_started(&other);
	CHECK(other.about.pty && other.about.in == 0);
	client_input(&c, 2, 0, "abc\n", 4);
	client_frame(&c, FRAME_INPUT_EOF, 2, NULL, 0);
	while (other.end[0] < strlen("on\r\nabc\r\noff\r\n") &&
	       client_next(&c, REPLY_MS) == 1)
		client_note(&c, &other, true);
	CHECK_STR(buf_str(&other.out[0]), "on\r\nabc\r\noff\r\n");
	/* The end of one client's input is not the terminal's. */
	detach(2, 0);
	other.started = false;
	attach_as(3, 0, "term", &other);
	wait_started(&other);
	CHECK(other.about.in == 4);
	client_input(&c, 3, 4, "d\n", 2);
	client_frame(&c, FRAME_INPUT_EOF, 3, NULL, 0);
	client_wait(&c, &other);
	CHECK_STR(buf_str(&other.out[0]), "on\r\nabc\r\noff\r\nd\r\n");
	CHECK(other.exit.code == 0 && !other.broken);
	result_done(&r);
	result_done(&other);
}

/* Only for its client: not listed, not found, and gone with it. */
static void test_builtin(void)
{
	const char *argv[] = { "ps", NULL };
	struct spawn s = { .flags = SPAWN_BUILTIN, .tag = "x", .argv = argv };
	struct result r = { 0 };
	uint32_t pid;
	struct ps p;
	int n, listed = 0;

	client_spawn(&c, 1, &s);
	client_wait(&c, &r);
	CHECK(r.exit.code == 0 && !r.broken);
	while ((n = ps_get(&r.out[0], &p)) > 0) {
		listed += p.kind == PS_PROC && p.proc.state == PS_EXITED;
		buf_eat(&r.out[0], (size_t)n);
	}
	CHECK(n == 0 && listed > 0 && listed <= 64);
	CHECK(attach_fails(r.about.number, NULL, 0, ESRCH, "no process"));
	CHECK(attach_fails(0, "x", 0, ESRCH, "x"));
	result_done(&r);
	/* One that would not end by itself. */
	s.argv = (const char *[]){ "file.watch", "/tmp", NULL };
	client_spawn(&c, 5, &s);
	wait_started(&r);
	listen_a_while(&r, true);
	CHECK(r.started && !r.ended);
	pid = r.about.pid;
	result_done(&r);
	r = client_sh(&c, 0, "", "kill -0 %u && echo runs", pid);
	CHECK_STR(buf_data(&r.out[0]), "runs\n");
	result_done(&r);
	detach(5, 1);
	wait_gone(pid);
	CHECK(attach_fails(0, "x", 0, ESRCH, "x"));
}

/* Each of these is answered, or is the end of the connection. */
static void test_hostile(void)
{
	struct result r = start(1, 0, "held", "echo hi; sleep 100"), other;
	static const struct {
		const char *what;
		uint8_t type;
		uint32_t channel;
		uint8_t bytes[12];
		uint32_t n;
	} wrong[] = {
		{ "attach to no channel", FRAME_ATTACH, 0, { 1 }, 1 },
		{ "attach on a used one", FRAME_ATTACH, 2, { 1 }, 1 },
		{ "spawn on a used one", FRAME_SPAWN, 2, { 1 }, 1 },
		{ "detach without a word", FRAME_DETACH, 2, { 0 }, 0 },
		{ "detach with a wrong one", FRAME_DETACH, 2, { 4 }, 1 },
		{ "detach with two", FRAME_DETACH, 2, { 0 }, 2 },
		{ "ack of a third stream", FRAME_ACK, 2, { 3 }, 9 },
		{ "ack beyond", FRAME_ACK, 2, { 1, 200 }, 9 },
		{ "ack cut short", FRAME_ACK, 2, { 1 }, 8 },
		{ "input at a wrong offset", FRAME_INPUT, 2, { 9 }, 9 },
		{ "input cut short", FRAME_INPUT, 2, { 0 }, 7 },
		{ "attached", FRAME_ATTACHED, 2, { 0 }, 8 },
		{ "gap", FRAME_GAP, 2, { 1 }, 9 },
	};
	size_t i;

	while (r.end[0] < 3 && client_next(&c, REPLY_MS) == 1)
		client_note(&c, &r, true);
	CHECK(attach_fails(r.about.number, NULL, 4, EINVAL, "beyond"));
	CHECK(attach_fails(r.about.number, NULL, OFFSET_MAX, EINVAL, "beyond"));
	CHECK(attach_fails(r.about.number, NULL, OFFSET_NONE, EINVAL,
			   "malformed"));
	client_frame(&c, FRAME_ATTACH, 9, "bad", 3);
	CHECK(failed(9, EINVAL, "malformed"));
	CHECK(attach_fails(0, "", 0, EINVAL, "malformed"));
	CHECK(attach_fails(r.about.number, "held", 0, EINVAL, "malformed"));
	for (i = 0; i < ARRAY_LEN(wrong); i++) {
		int left;

		reconnect();
		other = (struct result){ 0 };
		attach_as(2, 0, "held", &other);
		while (other.end[0] < 3 && client_next(&c, REPLY_MS) == 1)
			client_note(&c, &other, true);
		client_frame(&c, wrong[i].type, wrong[i].channel,
			     wrong[i].bytes, wrong[i].n);
		left = client_next(&c, REPLY_MS);
		if (left != 0)
			printf("# %s: %d\n", wrong[i].what, left);
		CHECK(left == 0 && other.end[0] == 3 && !other.broken);
		result_done(&other);
	}
	reconnect();
	result_done(&r);
	attach_as(2, 0, "held", &r);
	client_signal(&c, 2, SIGKILL);
	client_wait(&c, &r);
	CHECK(r.exit.signaled && r.exit.code == SIGKILL && !r.broken);
	result_done(&r);
	/* As many channels as there may be, all of one process. */
	r = start(1, 0, "busy", "sleep 100");
	for (i = 2; i <= CHANNELS_MAX + 1; i++)
		attach_as((uint32_t)i, 0, "busy", &r);
	for (i = 2; i <= CHANNELS_MAX; i++)
		if (client_next(&c, REPLY_MS) != 1 ||
		    c.f.type != FRAME_ATTACHED)
			break;
	CHECK(i == CHANNELS_MAX + 1);
	CHECK(failed(CHANNELS_MAX + 1, EAGAIN, "channels"));
	client_signal(&c, 7, SIGKILL);
	for (i = 0; i < 3 * CHANNELS_MAX; i++)
		if (client_next(&c, REPLY_MS) != 1)
			break;
	CHECK(i == 3 * CHANNELS_MAX);
}

/* A terminal has one stream; that nothing came of the other is no lie. */
static void test_ack_of_nothing(void)
{
	struct result r = start(1, SPAWN_PTY, NULL, "sleep 100");

	client_ack(&c, 1, 2, 0);
	client_signal(&c, 1, SIGKILL);
	client_wait(&c, &r);
	CHECK(r.exit.code == SIGKILL && !r.broken);
	client_close(&c);
	CHECK(client_open(&c, b.sock) == 1);
}

/*
 * More questions than the agent takes while nobody reads its answers, which
 * are then read in small pieces: each of them comes, without another question
 * behind it.
 */
static unsigned unanswered(unsigned questions)
{
	char text[64] = { 0 };
	struct buf ping = { 0 };
	struct pollfd p = { .fd = c.fd, .events = POLLIN };
	unsigned i, left = questions;

	for (i = 0; i < questions; i++)
		frame_put(&ping, FRAME_PING, 0, 1, text, sizeof(text));
	while (left > 0) {
		ssize_t n = send(c.fd, buf_data(&ping), buf_len(&ping),
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0) {
			buf_eat(&ping, (size_t)n);
			usleep(20000);
			continue;
		}
		if (poll(&p, 1, REPLY_MS) <= 0 ||
		    buf_read(&c.in, c.fd, 1000) <= 0)
			break;
		while (left > 0 && frame_get(&c.in, &c.f) == 1) {
			buf_eat(&c.in, FRAME_HEAD + c.f.len);
			left--;
		}
	}
	buf_done(&ping);
	return left;
}

static void test_unread(void)
{
	unsigned i, left;

	for (i = 6000; i < 10000; i += 200) {
		left = unanswered(i);
		if (left > 0)
			printf("# %u of %u\n", left, i);
		CHECK(left == 0);
		reconnect();
	}
}

/* A hello in place of a frame: another peer is at the end of the same line. */
static void test_second_hello(void)
{
	struct result r = start(1, 0, NULL, "echo one; sleep 0.2; echo two");
	struct hello h = { WIRE_VERSION, WIRE_VERSION, 0, { 8 } };
	struct buf out = { 0 };

	while (r.end[0] < 4 && client_next(&c, REPLY_MS) == 1)
		client_note(&c, &r, true);
	hello_put(&out, &h);
	client_send(&c, &out);
	CHECK(client_next(&c, REPLY_MS) == -1 && hello_get(&c.in, &h) == 1);
	/* The channel is free again; its process is there. */
	attach_to_end(r.about.number, &r);
	CHECK_STR(buf_str(&r.out[0]), "one\ntwo\n");
	CHECK(!r.broken && r.exit.code == 0);
	result_done(&r);
	/* Half of one, and then something else. */
	CHECK(write(c.fd, "\xff\xff\xff\xffwi", 6) == 6);
	usleep(20000);
	CHECK(write(c.fd, "\xff\xff\xff\xffwire", 8) == 8);
	CHECK(client_next(&c, REPLY_MS) == 0);
	reconnect();
}

/*
 * Four processes and eight channels, whatever comes next by chance: nobody may
 * ever see a wrong byte, and the agent must go on.
 */
static void test_chance(void)
{
	enum { PROCS = 4, CHANS = 8, STEPS = 4000 };
	uint32_t number[PROCS];
	struct result r[CHANS + 1];
	unsigned seed = (unsigned)time(NULL), i, k, seen = 0, bad = 0;

	printf("# seed %u\n", seed);
	srand(seed);
	for (i = 0; i < PROCS; i++) {
		struct result first = start(100 + i, SPAWN_DETACHED, NULL,
					    "exec yes 0123456789abcdef");

		number[i] = first.about.number;
	}
	memset(r, 0, sizeof(r));
	for (i = 0; i < STEPS; i++) {
		k = 1 + (unsigned)rand() % CHANS;
		switch (rand() % 8) {
		case 0:
			if (r[k].line)
				break;
			r[k] = (struct result){ .line = LINE };
			r[k].end[0] = rand() % 2 ? 0 : OFFSET_NOW;
			attach_as(k, number[rand() % PROCS], NULL, &r[k]);
			break;
		case 1:
			if (!r[k].started)
				break;
			detach(k, rand() % 2);
			client_frame(&c, FRAME_PING, 0, NULL, 0);
			while (client_next(&c, REPLY_MS) == 1 &&
			       c.f.type != FRAME_PONG)
				client_note(&c, &r[c.f.channel], false);
			bad += r[k].broken || r[k].ended;
			r[k] = (struct result){ 0 };
			break;
		case 2:
			if (rand() % 50)
				break;
			reconnect();
			memset(r, 0, sizeof(r));
			break;
		default:
			if (client_next(&c, 1) != 1)
				break;
			if (c.f.channel > CHANS)
				break;
			client_note(&c, &r[c.f.channel], rand() % 3 > 0);
			bad += r[c.f.channel].broken;
			seen++;
		}
	}
	printf("# %u frames\n", seen);
	CHECK(seen > STEPS / 20 && bad == 0);
	reconnect();
	for (i = 0; i < PROCS; i++) {
		r[0] = (struct result){ .line = LINE };
		attach_as(1, number[i], NULL, &r[0]);
		client_signal(&c, 1, SIGKILL);
		client_wait(&c, &r[0]);
		CHECK(r[0].exit.signaled && !r[0].broken);
	}
}

/* A lost client holds its process, for half a minute. */
static void test_lost_long(void)
{
	struct result r =
		start(1, 0, NULL, "yes 0123456789abcdef | head -c 1000000");

	r.line = LINE;
	listen_a_while(&r, false);
	reconnect();
	sleep(25);
	attach_to_end(r.about.number, &r);
	CHECK(r.gaps == 0 && r.end[0] == 1000000 && !r.broken);
	r = start(1, 0, NULL, "yes 0123456789abcdef | head -c 1000000");
	r.line = LINE;
	listen_a_while(&r, false);
	reconnect();
	sleep(31);
	attach_to_end(r.about.number, &r);
	CHECK(r.gaps == 1 && r.end[0] == 1000000 && !r.broken);
}

/* By the number that the sandbox knows it by, while it runs and after. */
static void test_pids(void)
{
	struct result r = start(1, SPAWN_STDIN, NULL, "read x; exit 7"), other;
	uint32_t number = r.about.number;
	char ref[16];

	snprintf(ref, sizeof(ref), ":%u", r.about.pid);
	other = (struct result){ .end = { OFFSET_NOW, OFFSET_NOW } };
	attach_as(2, 0, ref, &other);
	wait_started(&other);
	CHECK(other.about.number == number && !other.ended);
	detach(2, 0);
	client_frame(&c, FRAME_INPUT_EOF, 1, NULL, 0);
	client_wait(&c, &r);
	CHECK(r.exit.code == 7);
	attach_as(3, 0, ref, &other);
	client_wait(&c, &other);
	CHECK(other.about.number == number && other.exit.code == 7);
	CHECK(attach_fails(0, ":1", 0, ESRCH, "no process with pid 1"));
	CHECK(attach_fails(0, ":", 0, ESRCH, "no process"));
	CHECK(attach_fails(0, ":99999999999", 0, ESRCH, "no process"));
}

int main(int argc, char **argv)
{
	int skip = box_start(&b, argv[0], true, true);

	(void)argc;
	signal(SIGPIPE, SIG_IGN);
	if (skip) {
		printf("1..0 # SKIP needs root and namespaces\n");
		return skip;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(client_open(&c, b.sock) == 1);
	test_reconnect();
	test_gap();
	test_two_readers();
	test_two_are_lost();
	test_detached();
	test_mute();
	test_watch();
	test_tags();
	test_pids();
	test_kept();
	test_input();
	test_terminal();
	test_builtin();
	test_hostile();
	test_ack_of_nothing();
	test_unread();
	test_second_hello();
	test_chance();
	if (getenv("AGENT_LONG"))
		test_lost_long();
	client_close(&c);
	box_stop(&b);
	return CHECK_DONE();
}
