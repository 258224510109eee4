/*
 * The scribe with writers that somebody has taken over: what they say, what
 * is in their spools, in any order. Whatever they do, the log that comes out
 * is whole: every entry by its hash and number, every signature.
 *
 * The input is a program: each step is a byte and its arguments.
 */
#include "scribe_parts.h"

#include <sys/mman.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { PEERS = 4, SPOOLS = 3 };

/* A writer: its end of the connection. */
struct peer {
	int fd; /* -1: none */
};

struct spool {
	int fd;
	uint64_t size, number;
};

struct program {
	const uint8_t *p;
	size_t left;
};

static struct scribe s;
static struct peer peers[PEERS];
static struct spool spools[SPOOLS];

static const char *const bodies[] = {
	"{\"time\":\"2026-01-31T08:15:30.125Z\",\"type\":\"sandbox.create\","
	"\"sandbox\":null,\"project\":\"p\",\"who\":\"uid:0\",\"request\":null,"
	"\"data\":{\"a\":[1,2]}}",
	"{\"time\":\"2026-01-31T08:15:30.125Z\",\"type\":\"egress.request\","
	"\"sandbox\":null,\"project\":null,\"who\":null,\"request\":null,"
	"\"data\":{}}",
	"{\"time\":\"2026-01-31T08:15:30.125Z\",\"type\":\"log.head\","
	"\"sandbox\":null,\"project\":null,\"who\":null,\"request\":null,"
	"\"data\":{}}",
	"{}",
};
static const char *const names[] = { "api", "gate", "gate.p", "gate.",
				     "scribe" };

static unsigned next(struct program *g)
{
	if (g->left == 0)
		return 0;
	g->left--;
	return *g->p++;
}

static uint64_t next_u64(struct program *g)
{
	uint64_t v = 0;
	int i;

	for (i = 0; i < 8; i++)
		v = v << 8 | next(g);
	return v;
}

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static struct conn *conn_of(const struct peer *p)
{
	struct list *n, *tmp;

	list_each (n, tmp, &s.conns) {
		struct conn *c = container_of(n, struct conn, node);

		if (c->uid == (uid_t)(p - peers))
			return c;
	}
	return NULL;
}

/* The user id says whose end it is; writers are those who may. */
static void step_connect(struct program *g)
{
	struct peer *p = &peers[next(g) % PEERS];
	struct conn *old = conn_of(p), *c;
	int ends[2];

	if (old)
		conn_close(old);
	close_end(&p->fd);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends) < 0)
		abort();
	p->fd = ends[0];
	c = xcalloc(1, sizeof(*c));
	c->s = &s;
	c->door = &s.api;
	c->uid = (uid_t)(p - peers);
	c->spool_fd = -1;
	list_add(&s.conns, &c->node);
	s.api.n++;
	if (io_add(&s.loop, &c->io, ends[1], EPOLLIN, on_conn) < 0)
		abort();
}

static void say_it(const struct peer *p, const void *msg, size_t n, int fd)
{
	struct conn *c = conn_of(p);
	struct scribe_msg ack;

	if (p->fd < 0 || !c || n == 0)
		return;
	if (send_msg_fds(p->fd, msg, n, &fd, fd >= 0) < 0)
		return;
	on_conn(&c->io, EPOLLIN);
	while (recv(p->fd, &ack, sizeof(ack), MSG_DONTWAIT) > 0)
		if (ack.synced > ack.written || ack.op != SCRIBE_ACK)
			abort();
}

static void step_hello(struct program *g)
{
	const struct peer *p = &peers[next(g) % PEERS];
	const struct spool *of = &spools[next(g) % SPOOLS];
	struct scribe_hello h = { .msg = { .version = SCRIBE_VERSION,
					   .op = SCRIBE_HELLO } };
	unsigned name = next(g) % ARRAY_LEN(names), where = next(g);

	snprintf(h.name, sizeof(h.name), "%s", names[name]);
	if (where & 1)
		h.msg.end = SPOOL_HEAD;
	if (where & 2)
		h.msg.end = next_u64(g);
	say_it(p, &h, where & 4 ? sizeof(h.msg) : sizeof(h),
	       where & 8 ? -1 : of->fd);
}

static void step_poke(struct program *g)
{
	const struct peer *p = &peers[next(g) % PEERS];
	const struct spool *of = &spools[next(g) % SPOOLS];
	unsigned how = next(g);
	struct scribe_msg m = { .version = SCRIBE_VERSION,
				.op = SCRIBE_POKE,
				.flags = how & 1 ? SCRIBE_SYNC : 0,
				.end = of->size };

	if (how & 2)
		m.end = next_u64(g);
	say_it(p, &m, sizeof(m), -1);
}

static void spool_add(struct spool *of, const void *p, size_t n)
{
	if (pwrite(of->fd, p, n, (off_t)of->size) != (ssize_t)n)
		abort();
	of->size += n;
}

/* A record whose checksum is right, with a body that may be anything. */
static void step_record(struct program *g)
{
	struct spool *of = &spools[next(g) % SPOOLS];
	unsigned how = next(g);
	char body[1024];
	struct buf b = { 0 };
	size_t n;

	if (how & 0x80) {
		n = next(g) < g->left ? (size_t)next(g) : g->left;
		n = n < g->left ? n : g->left;
		memcpy(body, g->p, n);
		g->p += n;
		g->left -= n;
	} else {
		const char *one = bodies[how % ARRAY_LEN(bodies)];

		n = strlen(one);
		memcpy(body, one, n);
		if (how & 0x40)
			body[next(g) % n] = (char)next(g);
	}
	of->number += 1 + (how & 0x20 ? next(g) : 0);
	if (how & 0x10)
		of->number = next_u64(g);
	if (n > 0)
		spool_put(&b, of->number, body, n);
	spool_add(of, buf_data(&b), buf_len(&b));
	buf_done(&b);
}

static void step_raw(struct program *g)
{
	const struct peer *p = &peers[next(g) % PEERS];
	size_t n = next(g);

	n = n < g->left ? n : g->left;
	say_it(p, g->p, n, spools[0].fd);
	g->p += n;
	g->left -= n;
}

static void step_bytes(struct program *g)
{
	struct spool *of = &spools[next(g) % SPOOLS];
	size_t n = next(g) % 64;

	n = n < g->left ? n : g->left;
	spool_add(of, g->p, n);
	g->p += n;
	g->left -= n;
}

static void step_time(struct program *g)
{
	unsigned what = next(g);

	if (what & 1)
		feed(&s);
	if (what & 2)
		on_sign(&s.sign);
	if (what & 4)
		do_sync(&s);
	if (what & 8)
		do_keep(&s);
}

static void (*const steps[])(struct program *g) = {
	step_connect, step_hello, step_poke,  step_poke, step_record,
	step_record,  step_raw,   step_bytes, step_time,
};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct err e = { 0 };

	(void)argc;
	(void)argv;
	if (sign_init(&e) < 0)
		abort();
	scratch_make();
	scribe_quiet();
	return 0;
}

static void start(int dir_fd)
{
	struct err e = { 0 };
	int i;

	s = (struct scribe){ .api_uid = 1, .gate_uid = 2, .dir_fd = dir_fd };
	s.keep.bytes = 64 * 1024;
	s.api.max = s.gate.max = PEERS;
	s.api.io.fd = s.gate.io.fd = s.signal_io.fd = -1;
	list_init(&s.conns);
	if (loop_init(&s.loop) < 0 ||
	    chain_open(&s.chain, dir_fd, 16 * 1024, &e) < 0)
		abort();
	chain_start(&s.chain);
	for (i = 0; i < PEERS; i++)
		peers[i].fd = -1;
	for (i = 0; i < SPOOLS; i++) {
		spools[i] = (struct spool){ .size = SPOOL_HEAD };
		spools[i].fd = memfd_create("spool", MFD_CLOEXEC);
	}
}

static void stop(void)
{
	int i;

	serve_stop(&s);
	for (i = 0; i < PEERS; i++)
		close_end(&peers[i].fd);
	for (i = 0; i < SPOOLS; i++)
		close_end(&spools[i].fd);
}

/* What the loop would do at the end of its turn. */
static void run_deferred(void)
{
	while (!list_empty(&s.loop.deferred)) {
		struct deferred *d = container_of(s.loop.deferred.next,
						  struct deferred, node);

		list_del(&d->node);
		d->fn(d);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct program g = { data, n };
	int dir_fd = log_make();

	start(dir_fd);
	while (g.left > 0) {
		steps[next(&g) % ARRAY_LEN(steps)](&g);
		run_deferred();
	}
	stop();
	if (log_verify() != VERIFY_GOOD)
		abort();
	log_gone(dir_fd);
	return 0;
}
