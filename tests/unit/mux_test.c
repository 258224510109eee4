/*
 * The line of a microVM's door: its messages, and both ends of it against each
 * other and against one that lies.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "check.h"
#include "mux/mux.h"

enum { DIALS_MAX = 1100, STEP_MS = 2, STEPS = 5000 };

/* One end: what was dialled at it, what it was told. */
struct end {
	struct mux m;
	int dialled[DIALS_MAX]; /* our halves */
	unsigned n_dialled;
	struct door_addr last;
	int refuse;
	unsigned n_answers;
	int code;
	unsigned n_heard, n_changed;
	uint32_t made; /* the id of the last word about a door */
	bool over;
};

static struct loop loop;

static void on_step(struct timer *t)
{
	(void)t;
	loop.stop = true;
}

static void turn(void)
{
	struct timer step = { 0 };

	loop.stop = false;
	timer_set(&loop, &step, STEP_MS, on_step);
	loop_run(&loop);
	timer_del(&loop, &step);
}

static void check_that(bool is, const char *what, int line)
{
	printf("# line %d: %s\n", line, what);
	CHECK(is);
}

/* The condition may be one that only holds once. */
#define UNTIL(cond)                               \
	do {                                      \
		int left_ = STEPS;                \
		bool is_ = cond;                  \
		while (!is_ && left_-- > 0) {     \
			turn();                   \
			is_ = cond;               \
		}                                 \
		check_that(is_, #cond, __LINE__); \
	} while (0)

static void pair(int fds[2])
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
		       fds) < 0)
		abort();
}

static int on_dial(struct mux *m, const struct door_addr *a)
{
	struct end *e = container_of(m, struct end, m);
	int fds[2];

	e->last = *a;
	if (e->refuse)
		return -e->refuse;
	if (e->n_dialled == DIALS_MAX)
		return -EMFILE;
	pair(fds);
	e->dialled[e->n_dialled++] = fds[0];
	return fds[1];
}

static void on_answered(struct mux *m, uint64_t tag, int code)
{
	struct end *e = container_of(m, struct end, m);

	(void)tag;
	e->n_answers++;
	e->code = code;
}

static void on_heard(struct mux *m, const struct door_msg *msg)
{
	struct end *e = container_of(m, struct end, m);

	e->n_heard++;
	if (msg->kind != DOOR_GRAM)
		e->made = msg->id;
}

static void on_changed(struct mux *m)
{
	container_of(m, struct end, m)->n_changed++;
}

static void on_ended(struct mux *m)
{
	mux_hang_up(m);
	container_of(m, struct end, m)->over = true;
}

static struct end *end_new(bool host, int fd)
{
	struct end *e = xcalloc(1, sizeof(*e));

	e->m.loop = &loop;
	e->m.host = host;
	e->m.dial = on_dial;
	e->m.answered = on_answered;
	e->m.heard = on_heard;
	e->m.changed = on_changed;
	e->m.ended = on_ended;
	mux_init(&e->m);
	CHECK(mux_line(&e->m, fd) == 0);
	return e;
}

static void end_free(struct end *e)
{
	unsigned i;

	mux_hang_up(&e->m);
	CHECK(e->m.n_streams == 0 && e->m.given == 0 && e->m.n_ours == 0);
	for (i = 0; i < e->n_dialled; i++)
		auto_close(&e->dialled[i]);
	turn(); /* frees what was put off */
	buf_done(&e->m.in);
	buf_done(&e->m.out);
	free(e);
}

static const struct door_addr there = {
	.ip = { [10] = 0xff, [11] = 0xff, [12] = 203, [15] = 9 }, .port = 443
};

/* A connection from this end; our half of it. */
static int open_from(struct end *e, uint64_t tag)
{
	int fds[2];

	pair(fds);
	CHECK(mux_open(&e->m, fds[1], &there, tag) == 0);
	return fds[0];
}

struct rig {
	struct end *host, *guest;
	int line[2];
};

static void rig_up(struct rig *r)
{
	pair(r->line);
	r->host = end_new(true, r->line[0]);
	r->guest = end_new(false, r->line[1]);
	UNTIL(r->host->m.state == MUX_UP && r->guest->m.state == MUX_UP);
}

static void rig_down(struct rig *r)
{
	end_free(r->host);
	end_free(r->guest);
	auto_close(&r->line[0]);
	auto_close(&r->line[1]);
}

static ssize_t got(int fd, char *p, size_t n)
{
	ssize_t r = read(fd, p, n);

	return r < 0 ? -errno : r;
}

/* --- messages --- */

static void test_messages(void)
{
	struct buf b = { 0 };
	struct door_msg m = { .kind = DOOR_DATA, .id = 7, .body = "abc" };
	size_t i, n;

	m.len = 3;
	door_put(&b, 99, &m);
	n = buf_len(&b);
	for (i = 0; i < n; i++) {
		struct buf part = { .p = b.p, .len = i, .cap = i };

		if (door_get(&part, 99, &m) != 0)
			break;
	}
	CHECK(i == n);
	CHECK(door_get(&b, 99, &m) == 1);
	CHECK(m.kind == DOOR_DATA && m.id == 7 && m.len == 3 && m.whole == n);
	CHECK(memcmp(m.body, "abc", 3) == 0);
	CHECK(door_get(&b, 98, &m) == -EBADMSG);
	b.p[0] = 0;
	CHECK(door_get(&b, 99, &m) == -EBADMSG);
	b.p[0] = DOOR_KINDS;
	CHECK(door_get(&b, 99, &m) == -EBADMSG);
	b.p[0] = DOOR_OPEN; /* of another length */
	CHECK(door_get(&b, 99, &m) == -EBADMSG);
	b.p[0] = DOOR_DATA;
	b.p[1] = 1;
	CHECK(door_get(&b, 99, &m) == -EBADMSG);
	b.p[1] = b.p[2] = b.p[3] = 0; /* no data */
	CHECK(door_get(&b, 99, &m) == -EBADMSG);
	b.p[3] = 0x41; /* 16,640 bytes */
	CHECK(door_get(&b, 99, &m) == -EBADMSG);
	buf_done(&b);
}

/* In pieces of every size, behind bytes that look nearly like it. */
static void test_sync(void)
{
	const uint8_t ours[DOOR_NUMBER] = "0123456789abcde",
		      theirs[DOOR_NUMBER] = "edcba9876543210";
	struct buf whole = { 0 }, b = { 0 };
	struct door_sync s;
	size_t piece, at, found = 0, tries = 0;

	door_sync_put(&whole, DOOR_HELLO, ours, theirs);
	whole.len -= 40; /* cut off */
	door_sync_put(&whole, DOOR_HELLO, ours, theirs);
	whole.p[whole.len - 36] = 9; /* no such step */
	buf_add(&whole, "\xd0\x0f.doo\xd0\xd0", 8);
	door_sync_put(&whole, DOOR_HEARD, ours, theirs);
	for (piece = 1; piece < 60; piece++) {
		buf_clear(&b);
		tries++;
		for (at = 0; at < whole.len; at += piece) {
			size_t n = whole.len - at;

			buf_add(&b, whole.p + at, n < piece ? n : piece);
			if (door_sync_get(&b, &s))
				found += s.step == DOOR_HEARD &&
					 memcmp(s.ours, ours, 16) == 0 &&
					 memcmp(s.theirs, theirs, 16) == 0;
		}
	}
	CHECK(found == tries);
	CHECK(door_word(ours, theirs) == door_word(theirs, ours));
	buf_clear(&b);
	CHECK(door_sync_here(&b, &s) == 0);
	buf_add(&b, "\xd0\x0f", 2);
	CHECK(door_sync_here(&b, &s) == 0);
	buf_add(&b, "x", 1);
	CHECK(door_sync_here(&b, &s) == -EBADMSG);
	buf_done(&b);
	buf_done(&whole);
}

static void test_addresses(void)
{
	struct sockaddr_storage s;
	struct door_addr a = there;

	CHECK(mux_sockaddr(&a, &s) == sizeof(struct sockaddr_in));
	CHECK(s.ss_family == AF_INET);
	a = mux_addr(&s);
	CHECK(memcmp(&a, &there, sizeof(a)) == 0);
	memset(a.ip, 0x20, sizeof(a.ip));
	CHECK(mux_sockaddr(&a, &s) == sizeof(struct sockaddr_in6));
	CHECK(s.ss_family == AF_INET6 && mux_addr(&s).ip[5] == 0x20 &&
	      mux_addr(&s).port == 443);
}

/* --- both ends --- */

static void test_both_ways(void)
{
	struct rig r;
	char p[64];
	int a, b;

	rig_up(&r);
	a = open_from(r.guest, 0);
	CHECK(write(a, "question", 8) == 8);
	UNTIL(r.host->n_dialled == 1);
	CHECK(memcmp(&r.host->last, &there, sizeof(there)) == 0);
	b = r.host->dialled[0];
	UNTIL(got(b, p, sizeof(p)) == 8 && memcmp(p, "question", 8) == 0);
	CHECK(write(b, "answer", 6) == 6);
	UNTIL(got(a, p, sizeof(p)) == 6 && memcmp(p, "answer", 6) == 0);
	/* One way ends, the other goes on. */
	CHECK(shutdown(a, SHUT_WR) == 0);
	UNTIL(got(b, p, sizeof(p)) == 0);
	CHECK(write(b, "more", 4) == 4);
	UNTIL(got(a, p, sizeof(p)) == 4);
	CHECK(shutdown(b, SHUT_WR) == 0);
	UNTIL(got(a, p, sizeof(p)) == 0);
	UNTIL(r.guest->m.n_streams == 0 && r.host->m.n_streams == 0);
	close(a);
	/* The other way round. */
	a = open_from(r.host, 5);
	UNTIL(r.host->n_answers == 1 && r.guest->n_dialled == 1);
	CHECK(r.host->code == 0);
	CHECK(write(r.guest->dialled[0], "page", 4) == 4);
	UNTIL(got(a, p, sizeof(p)) == 4);
	close(a);
	UNTIL(got(r.guest->dialled[0], p, sizeof(p)) == 0);
	rig_down(&r);
}

static void test_refused(void)
{
	struct rig r;
	char p[8];
	int a;

	rig_up(&r);
	r.guest->refuse = ECONNREFUSED;
	a = open_from(r.host, 5);
	UNTIL(r.host->n_answers == 1);
	CHECK(r.host->code == ECONNREFUSED);
	CHECK(got(a, p, sizeof(p)) == 0 && r.host->m.n_streams == 0);
	close(a);
	rig_down(&r);
}

/* Fills it as far as it goes. */
static size_t pour(int fd, size_t most)
{
	static const char piece[4096];
	size_t n = 0;

	while (n < most && write(fd, piece, sizeof(piece)) > 0)
		n += sizeof(piece);
	return n;
}

static size_t drain(int fd)
{
	char piece[4096];
	size_t n = 0;
	ssize_t r;

	while ((r = read(fd, piece, sizeof(piece))) > 0)
		n += (size_t)r;
	return n;
}

/* Who is not read from holds its own room, and nobody up. */
static void test_slow_reader(void)
{
	enum { ALL = 8 << 20 };
	struct rig r;
	size_t in = 0, out = 0, most = 0;
	char p[64];
	int i, a, b;

	rig_up(&r);
	a = open_from(r.guest, 0);
	UNTIL(r.host->n_dialled == 1);
	for (i = 0; i < 200; i++) {
		in += pour(a, ALL - in);
		turn();
		if (r.host->m.given > most)
			most = r.host->m.given;
	}
	CHECK(in > 0 && in < ALL);
	CHECK(most <= MUX_ROOM);
	CHECK(buf_len(&r.guest->m.out) <= MUX_OUT_MAX + DOOR_DATA_MAX);
	/* Another one passes by. */
	b = open_from(r.guest, 0);
	CHECK(write(b, "quick", 5) == 5);
	UNTIL(r.host->n_dialled == 2 &&
	      got(r.host->dialled[1], p, sizeof(p)) == 5);
	for (i = 0; i < STEPS && out < ALL; i++) {
		in += pour(a, ALL - in);
		out += drain(r.host->dialled[0]);
		turn();
	}
	CHECK(out == ALL && in == ALL);
	close(a);
	close(b);
	rig_down(&r);
}

/* One byte, sooner or later. */
static bool comes(int fd)
{
	int left = STEPS;
	ssize_t n;
	char p[8];

	while ((n = got(fd, p, sizeof(p))) == -EAGAIN && left-- > 0)
		turn();
	return n == 1;
}

static void test_many(void)
{
	static int fds[DOOR_STREAMS];
	struct rig r;
	unsigned i, bad = 0;
	int extra[2];

	rig_up(&r);
	for (i = 0; i < DOOR_STREAMS; i++) {
		fds[i] = open_from(r.guest, 0);
		bad += write(fds[i], "x", 1) != 1;
		if (i % 64 == 0)
			turn();
	}
	CHECK(!mux_has_place(&r.guest->m));
	pair(extra);
	CHECK(mux_open(&r.guest->m, extra[1], &there, 0) == -EAGAIN);
	close(extra[0]);
	UNTIL(r.host->n_dialled == DOOR_STREAMS);
	for (i = 0; i < DOOR_STREAMS; i++)
		bad += !comes(r.host->dialled[i]);
	CHECK(bad == 0);
	for (i = 0; i < DOOR_STREAMS; i++) {
		close(fds[i]);
		auto_close(&r.host->dialled[i]);
	}
	UNTIL(r.guest->m.n_streams == 0 && r.host->m.n_streams == 0);
	r.host->n_dialled = 0;
	/* Places are used again. */
	fds[0] = open_from(r.guest, 0);
	UNTIL(r.host->n_dialled == 1);
	close(fds[0]);
	rig_down(&r);
}

/* What was asked for is answered though the line is full; datagrams get lost
 * then. */
static void test_full(void)
{
	static const char gram[64];
	const uint32_t flags = 1;
	const struct door_code made = { 0 };
	struct rig r;
	int a;

	rig_up(&r);
	a = open_from(r.guest, 0);
	UNTIL(r.host->n_dialled == 1);
	io_del(&loop, &r.host->m.line); /* it does not listen any more */
	while (mux_say(&r.guest->m, DOOR_GRAM, 1, gram, sizeof(gram)))
		;
	CHECK(r.guest->m.full);
	CHECK(mux_say(&r.guest->m, DOOR_MADE, 7, &made, sizeof(made)));
	CHECK(io_add(&loop, &r.host->m.line, r.line[0], EPOLLIN,
		     r.host->m.line.fn) == 0);
	UNTIL(r.host->made == 7);
	r.host->made = 0;
	CHECK(mux_say(&r.host->m, DOOR_MAKE, 9, &flags, sizeof(flags)));
	UNTIL(r.guest->made == 9);
	close(a);
	rig_down(&r);
}

/* epoll takes no files: who has one ends, once, and the other end hears it. */
static void test_unwatched(void)
{
	struct rig r;

	rig_up(&r);
	CHECK(mux_open(&r.host->m, memfd_create("file", MFD_CLOEXEC), &there,
		       3) == 0);
	UNTIL(r.host->n_answers == 1);
	CHECK(r.host->code == ENOMEM && r.host->m.n_streams == 0);
	UNTIL(r.guest->n_dialled == 1 && r.guest->m.n_streams == 0);
	/* One that becomes so while it runs, and a full line around it. */
	CHECK(mux_open(&r.host->m, memfd_create("file", MFD_CLOEXEC), &there,
		       0) == 0);
	CHECK(mux_open(&r.host->m, memfd_create("file", MFD_CLOEXEC), &there,
		       0) == 0);
	mux_hang_up(&r.host->m);
	CHECK(r.host->m.n_streams == 0 && r.host->n_answers == 1);
	turn();
	rig_down(&r);
}

/* --- another host at the same line --- */

/* The guest does not hear that somebody else came, and has half a message of
 * the one before. */
static void test_another_host(void)
{
	struct rig r;
	struct buf half = { 0 };
	char p[64];
	int a;

	rig_up(&r);
	a = open_from(r.guest, 0);
	UNTIL(r.host->n_dialled == 1);
	door_put(&half, r.host->m.word,
		 &(struct door_msg){ .kind = DOOR_DATA,
				     .id = 0,
				     .body = "secretsecretsecretsecret",
				     .len = 24 });
	end_free(r.host);
	CHECK(write(r.line[0], buf_data(&half), 20) == 20);
	r.host = end_new(true, r.line[0]);
	UNTIL(r.host->m.state == MUX_UP && r.guest->m.state == MUX_UP &&
	      r.host->m.word == r.guest->m.word);
	/* Who was connected hears of the end, and of nothing else. */
	CHECK(got(a, p, sizeof(p)) == 0);
	CHECK(r.guest->m.n_streams == 0);
	close(a);
	a = open_from(r.guest, 0);
	CHECK(write(a, "hi", 2) == 2);
	UNTIL(r.host->n_dialled == 1 &&
	      got(r.host->dialled[0], p, sizeof(p)) == 2);
	close(a);
	buf_done(&half);
	rig_down(&r);
}

/* The same for a guest that goes on from a saved state. */
static void test_another_guest(void)
{
	struct rig r;
	int a;

	rig_up(&r);
	a = open_from(r.guest, 0);
	UNTIL(r.host->n_dialled == 1);
	end_free(r.guest);
	CHECK(write(r.line[1], "\3\0\20\0", 4) == 4);
	r.guest = end_new(false, r.line[1]);
	UNTIL(r.host->m.state == MUX_UP && r.guest->m.state == MUX_UP &&
	      r.host->m.word == r.guest->m.word);
	CHECK(r.host->m.n_streams == 0);
	close(a);
	rig_down(&r);
}

static void test_line_ends(void)
{
	struct rig r;
	char p[8];
	int a;

	rig_up(&r);
	a = open_from(r.host, 1);
	UNTIL(r.guest->n_dialled == 1);
	auto_close(&r.line[1]);
	r.guest->m.line.armed = false; /* epoll forgot it */
	UNTIL(r.host->over);
	CHECK(r.host->m.state == MUX_DOWN && r.host->m.n_streams == 0);
	CHECK(got(a, p, sizeof(p)) == 0);
	close(a);
	rig_down(&r);
}

/* --- one that lies --- */

/* A host that has found the guest, by hand. */
struct liar {
	struct end *guest;
	int line[2];
	uint32_t word;
	struct buf in;
};

static void liar_up(struct liar *l)
{
	const uint8_t ours[DOOR_NUMBER] = "a host that lies";
	struct buf b = { 0 };

	pair(l->line);
	l->guest = end_new(false, l->line[1]);
	door_sync_put(&b, DOOR_BEGIN, ours, l->guest->m.ours);
	CHECK(buf_write(&b, l->line[0]) > 0);
	UNTIL(l->guest->m.state == MUX_UP);
	l->word = l->guest->m.word;
	buf_done(&b);
}

static void liar_down(struct liar *l)
{
	end_free(l->guest);
	auto_close(&l->line[0]);
	auto_close(&l->line[1]);
}

static void tell(struct liar *l, enum door_kind kind, uint32_t id,
		 const void *body, size_t len)
{
	struct buf b = { 0 };

	door_put(&b, l->word,
		 &(struct door_msg){
			 .kind = kind, .id = id, .body = body, .len = len });
	CHECK(buf_write(&b, l->line[0]) > 0);
	buf_done(&b);
}

#define HOST_1 (DOOR_BY_HOST | DOOR_STREAMS | 1)

static void lie_open_twice(struct liar *l)
{
	tell(l, DOOR_OPEN, HOST_1, &there, sizeof(there));
	tell(l, DOOR_OPEN, HOST_1 + DOOR_STREAMS, &there, sizeof(there));
}

static void lie_open_ours(struct liar *l)
{
	tell(l, DOOR_OPEN, DOOR_STREAMS | 1, &there, sizeof(there));
}

static void lie_no_port(struct liar *l)
{
	const struct door_addr nowhere = { .port = 0 };

	tell(l, DOOR_OPEN, HOST_1, &nowhere, sizeof(nowhere));
}

static void lie_too_much(struct liar *l)
{
	static const char all[DOOR_DATA_MAX];
	int i;

	tell(l, DOOR_OPEN, HOST_1, &there, sizeof(there));
	/* Nobody reads from it. What the socket itself takes is given back
	 * in full, so it is first filled. */
	UNTIL(l->guest->n_dialled == 1);
	for (i = 0; i < 200 && l->guest->m.state == MUX_UP; i++) {
		tell(l, DOOR_DATA, HOST_1, all, sizeof(all));
		turn();
	}
	CHECK(i < 100);
}

static void lie_end_twice(struct liar *l)
{
	tell(l, DOOR_OPEN, HOST_1, &there, sizeof(there));
	tell(l, DOOR_END, HOST_1, NULL, 0);
	tell(l, DOOR_END, HOST_1, NULL, 0);
}

static void lie_after_end(struct liar *l)
{
	tell(l, DOOR_OPEN, HOST_1, &there, sizeof(there));
	tell(l, DOOR_END, HOST_1, NULL, 0);
	tell(l, DOOR_DATA, HOST_1, "x", 1);
}

static void lie_room(struct liar *l)
{
	const uint32_t all = DOOR_ROOM_MAX;

	tell(l, DOOR_OPEN, HOST_1, &there, sizeof(there));
	tell(l, DOOR_ROOM, HOST_1, &all, sizeof(all));
}

static void lie_opened(struct liar *l)
{
	tell(l, DOOR_OPEN, HOST_1, &there, sizeof(there));
	tell(l, DOOR_OPENED, HOST_1, NULL, 0);
}

static void lie_word(struct liar *l)
{
	l->word++;
	tell(l, DOOR_END, 1, NULL, 0);
}

static void lie_garbage(struct liar *l)
{
	CHECK(write(l->line[0], "GET / HTTP/1.1\r\n\r\n", 18) == 18);
}

static void test_lies(void)
{
	static void (*const lies[])(struct liar *l) = {
		lie_open_twice, lie_open_ours, lie_no_port, lie_too_much,
		lie_end_twice,  lie_after_end, lie_room,    lie_opened,
		lie_word,       lie_garbage,
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(lies); i++) {
		struct liar l;

		liar_up(&l);
		lies[i](&l);
		UNTIL(l.guest->m.state == MUX_SEEK);
		CHECK(l.guest->m.n_streams == 0);
		liar_down(&l);
	}
}

/* Words about what is over, or never was, reach nobody. */
static void test_late_words(void)
{
	const struct door_code why = { ECONNRESET };
	const uint32_t room = 1;
	struct liar l;

	liar_up(&l);
	tell(&l, DOOR_DATA, HOST_1, "x", 1);
	tell(&l, DOOR_RESET, HOST_1, &why, sizeof(why));
	tell(&l, DOOR_ROOM, 77, &room, sizeof(room));
	tell(&l, DOOR_OPENED, 77, NULL, 0);
	tell(&l, DOOR_OPEN, HOST_1, &there, sizeof(there));
	UNTIL(l.guest->n_dialled == 1);
	tell(&l, DOOR_END, HOST_1 + DOOR_STREAMS, NULL, 0);
	tell(&l, DOOR_RESET, HOST_1, &why, sizeof(why));
	UNTIL(l.guest->m.n_streams == 0);
	CHECK(l.guest->m.state == MUX_UP);
	liar_down(&l);
}

/* Who takes nothing is not listened to for ever. */
static void test_deaf(void)
{
	struct liar l;
	struct buf b = { 0 };
	size_t sent = 0;
	int i;

	liar_up(&l);
	l.guest->refuse = ECONNREFUSED;
	/* Each of them is answered. */
	for (i = 0; i < 1000; i++)
		door_put(&b, l.word,
			 &(struct door_msg){ .kind = DOOR_OPEN,
					     .id = HOST_1,
					     .body = (const char *)&there,
					     .len = sizeof(there) });
	for (i = 0; i < 1000; i++) {
		size_t at = 0;

		while (at < buf_len(&b)) {
			ssize_t n = write(l.line[0], buf_data(&b) + at,
					  buf_len(&b) - at);

			if (n < 0)
				break;
			at += (size_t)n;
			sent += (size_t)n;
		}
		if (at < buf_len(&b)) {
			turn();
			break;
		}
		turn();
	}
	CHECK(sent > MUX_OUT_HARD);
	turn();
	CHECK(buf_len(&l.guest->m.out) < MUX_OUT_HARD + (128 << 10));
	buf_done(&b);
	liar_down(&l);
}

/* Each connection of the rig has four ends here. */
static void raise_files(void)
{
	struct rlimit files;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	if (files.rlim_cur < 4 * DOOR_STREAMS + 64)
		abort(); /* no host has so few */
}

int main(void)
{
	raise_files();
	signal(SIGPIPE, SIG_IGN);
	alarm(120);
	if (loop_init(&loop) < 0)
		return 1;
	test_messages();
	test_sync();
	test_addresses();
	test_both_ways();
	test_refused();
	test_slow_reader();
	test_many();
	test_full();
	test_unwatched();
	test_another_host();
	test_another_guest();
	test_line_ends();
	test_lies();
	test_late_words();
	test_deaf();
	loop_done(&loop);
	return CHECK_DONE();
}
