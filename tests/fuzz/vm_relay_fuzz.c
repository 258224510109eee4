/*
 * The relay of a microVM's door as a whole (src/relay), between a guest that
 * says anything and a warden that asks for doors and connections, or says
 * nonsense. What it answers is an answer to something, and each connection
 * that it was given is answered once while somebody is there to hear it; its
 * questions for names go to a resolver and to nobody else. Each step is a byte
 * and what it takes.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/un.h>

#include "mux/mux.h"

static int fake_dial(const struct door_addr *a, int type);
int relay_main(void);
#define mux_dial fake_dial
#define main relay_main
#include "../../src/relay/main.c"
#define say control_say /* names that two files have */
#include "../../src/relay/control.c"
#undef say
#define on_answer on_gram_answer
#include "../../src/relay/gram.c"
#undef main

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STEPS_MAX = 128, OUTSIDE = 8, BODY_MAX = 64 };
/* Steps. */
enum { SAYS, FINDS, ASKS, ASKS_RAW, WARDEN, WARDEN_GOES, ANSWERS, NOISE };

static int line_fd, warden_fd, outside[OUTSIDE];
static unsigned n_outside, asked, answered;
static int listen_fd;
static const uint8_t number[DOOR_NUMBER] = "the guest's";

static int fake_dial(const struct door_addr *a, int type)
{
	int fds[2], *at = &outside[n_outside++ % OUTSIDE];

	assert(type == SOCK_STREAM || a->port == DNS_PORT);
	if (a->port % 16 == 15)
		return -ECONNREFUSED;
	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) <
	    0)
		abort();
	auto_close(at);
	*at = fds[0];
	return fds[1];
}

static void on_step(struct timer *t)
{
	(void)t;
	relay.loop.stop = true;
}

static void hear_warden(void)
{
	struct relay_rep rep;

	while (warden_fd >= 0 && recv(warden_fd, &rep, sizeof(rep),
				      MSG_DONTWAIT) == (ssize_t)sizeof(rep)) {
		assert(rep.version == RELAY_VERSION);
		assert(rep.op >= RELAY_UP && rep.op < RELAY_OPS);
		answered += rep.op == RELAY_CONNECT;
	}
	assert(answered <= asked);
}

static void turn(void)
{
	static char waste[64 * 1024];
	struct timer step = { 0 };

	relay.loop.stop = false;
	timer_set(&relay.loop, &step, 0, on_step);
	loop_run(&relay.loop);
	timer_del(&relay.loop, &step);
	hear_warden();
	while (read(line_fd, waste, sizeof(waste)) > 0)
		;
}

static void send_all(struct buf *b)
{
	(void)buf_write(b, line_fd);
	buf_done(b);
}

static void find(void)
{
	struct buf b = { 0 };

	door_sync_put(&b, DOOR_HEARD, number, relay.mux.ours);
	send_all(&b);
}

/* KIND WHO LENGTH bytes */
static size_t say_one(const uint8_t *p, size_t n)
{
	struct door_msg m = { .kind = p[0], .body = (const char *)p + 3 };
	struct buf b = { 0 };

	m.id = (uint32_t)(p[1] & 15) |
	       (uint32_t)(p[1] >> 4 & 7) * DOOR_STREAMS |
	       (p[1] & 0x80 ? DOOR_BY_HOST : 0);
	m.len = p[2] % BODY_MAX;
	m.len = m.len < n - 3 ? m.len : n - 3;
	door_put(&b, relay.mux.word, &m);
	send_all(&b);
	return 3 + m.len;
}

static void ask_one(uint8_t what)
{
	struct relay_req q = { .version = RELAY_VERSION,
			       .op = what & 1 ? RELAY_DOOR : RELAY_CONNECT,
			       .seq = (what >> 4) + 1U,
			       .flags = what & 2 ? CONNECT_V6 : 0,
			       .port = 80 };
	int fds[2];

	if (warden_fd < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return;
	/* With a socket, or without. */
	(void)!send_msg_fds(warden_fd, &q, sizeof(q), &fds[1],
			    q.op == RELAY_CONNECT && !(what & 4));
	asked += q.op == RELAY_CONNECT;
	close(fds[0]);
	close(fds[1]);
}

static void warden_comes(void)
{
	struct sockaddr_un at;
	socklen_t n = sizeof(at);

	auto_close(&warden_fd);
	asked = answered = 0;
	warden_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (warden_fd < 0 ||
	    getsockname(listen_fd, (struct sockaddr *)&at, &n) < 0 ||
	    connect(warden_fd, (struct sockaddr *)&at, n) < 0)
		abort();
}

static size_t step(const uint8_t *p, size_t n)
{
	size_t len = n > 1 ? p[1] % BODY_MAX : 0;

	len = len < n - 1 ? len : 0;
	switch (p[0]) {
	case SAYS:
		return n > 4 ? 1 + say_one(p + 1, n - 1) : 1;
	case FINDS:
		find();
		return 1;
	case ASKS:
		ask_one(n > 1 ? p[1] : 0);
		return 2;
	case ASKS_RAW:
		if (warden_fd >= 0)
			(void)send(warden_fd, p + 1, len,
				   MSG_DONTWAIT | MSG_NOSIGNAL);
		return 1 + len;
	case WARDEN:
		warden_comes();
		return 1;
	case WARDEN_GOES:
		auto_close(&warden_fd);
		return 1;
	case ANSWERS:
		if (n > 1 && outside[p[1] % OUTSIDE] >= 0)
			(void)send(outside[p[1] % OUTSIDE], "answer", 6,
				   MSG_DONTWAIT | MSG_NOSIGNAL);
		return 2;
	case NOISE:
		(void)!write(line_fd, p + 1, len);
		return 1 + len;
	default:
		return 1;
	}
}

static void begin(void)
{
	struct sockaddr_un any = { .sun_family = AF_UNIX };
	int line[2];

	signal(SIGPIPE, SIG_IGN);
	memset(outside, -1, sizeof(outside));
	warden_fd = -1;
	asked = answered = n_outside = 0;
	/* An address that the kernel finds. */
	listen_fd = socket(AF_UNIX,
			   SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listen_fd < 0 ||
	    bind(listen_fd, (struct sockaddr *)&any, sizeof(sa_family_t)) < 0 ||
	    listen(listen_fd, 8) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
		       line) < 0 ||
	    loop_init(&relay.loop) < 0)
		abort();
	line_fd = line[1];
	relay.mux.loop = &relay.loop;
	relay.next_gram = 0;
	mux_init(&relay.mux);
	grams_init(&relay);
	if (control_start(&relay, listen_fd) < 0 ||
	    mux_line(&relay.mux, line[0]) < 0)
		abort();
	find();
	warden_comes();
	turn();
}

static void end(void)
{
	int line = relay.mux.line.fd, i;

	mux_hang_up(&relay.mux);
	turn();
	/* Whoever is still there has heard of all. */
	if (warden_fd >= 0 && relay.control.fd >= 0)
		assert(answered == asked);
	assert(relay.mux.n_streams == 0 && relay.mux.given == 0);
	grams_drop(&relay);
	io_close(&relay.loop, &relay.control);
	io_close(&relay.loop, &relay.listen);
	auto_close(&warden_fd);
	auto_close(&line);
	auto_close(&line_fd);
	for (i = 0; i < OUTSIDE; i++)
		auto_close(&outside[i]);
	loop_done(&relay.loop);
	buf_done(&relay.mux.in);
	buf_done(&relay.mux.out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned i;

	begin();
	for (i = 0; i < STEPS_MAX && size > 0; i++) {
		size_t used = step(data, size);

		used = used < size ? used : size;
		data += used;
		size -= used;
		turn();
	}
	end();
	return 0;
}
