/*
 * Either end of the line of a microVM's door, with one at the other end that
 * says anything in any order: messages, bytes that are none, another life;
 * while sockets at this end write, end and break. What is kept stays within
 * what was given.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "mux/mux.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SOCKETS = 8, OPS_MAX = 256, RAW_MAX = 96 };

struct input {
	const uint8_t *p;
	size_t left;
};

static struct loop loop;
static int sockets[SOCKETS]; /* other halves of those that were made */
static unsigned n_sockets;
static bool refuse;

static void require(int ok)
{
	if (!ok)
		abort();
}

static uint8_t take(struct input *in)
{
	if (in->left == 0)
		return 0;
	in->left--;
	return *in->p++;
}

static int make_pair(void)
{
	int pair[2], *at = &sockets[n_sockets++ % SOCKETS];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
		       pair) < 0)
		abort();
	auto_close(at);
	*at = pair[0];
	return pair[1];
}

static int on_dial(struct mux *m, const struct door_addr *a)
{
	struct sockaddr_storage s;
	struct door_addr same;

	(void)m;
	mux_sockaddr(a, &s);
	same = mux_addr(&s);
	require(memcmp(same.ip, a->ip, sizeof(same.ip)) == 0 &&
		same.port == a->port);
	if (refuse)
		return -ECONNREFUSED;
	/* Sometimes it cannot be watched, as when there is no memory. */
	return a->port % 8 == 7 ? memfd_create("file", MFD_CLOEXEC)
				: make_pair();
}

static void on_answered(struct mux *m, uint64_t tag, int code)
{
	(void)m;
	require(tag == 1 && code >= 0);
}

static void on_heard(struct mux *m, const struct door_msg *msg)
{
	if (msg->kind == DOOR_GRAM)
		mux_say(m, DOOR_GRAM, msg->id, msg->body,
			msg->len > DOOR_GRAM_MAX ? DOOR_GRAM_MAX : msg->len);
}

static void on_changed(struct mux *m)
{
	require(m->state == MUX_UP || m->state == MUX_SEEK ||
		m->state == MUX_DOWN);
}

static void on_ended(struct mux *m)
{
	mux_hang_up(m);
}

static void on_step(struct timer *t)
{
	(void)t;
	loop.stop = true;
}

static void turn(void)
{
	struct timer step = { 0 };

	loop.stop = false;
	timer_set(&loop, &step, 0, on_step);
	loop_run(&loop);
	timer_del(&loop, &step);
}

static void check(const struct mux *m)
{
	struct list *pos, *tmp;
	size_t given = 0;
	unsigned n = 0;

	list_each (pos, tmp, &m->streams) {
		struct stream *s = container_of(pos, struct stream, node);

		given += s->may_come + buf_len(&s->in);
		require(s->may_come + buf_len(&s->in) <= MUX_ROOM);
		require(s->may_send <= DOOR_ROOM_MAX);
		n++;
	}
	require(given == m->given && n == m->n_streams);
	require(n == 0 || m->state == MUX_UP);
	require(buf_len(&m->out) <= MUX_OUT_HARD + (256 << 10));
	require(buf_len(&m->in) <= (128 << 10));
}

/* --- what the other end does --- */

static void send_all(int fd, struct buf *b)
{
	(void)buf_write(b, fd);
	buf_done(b);
}

static void find(struct mux *m, int fd)
{
	static const uint8_t number[DOOR_NUMBER] = "the other end's";
	struct buf b = { 0 };

	door_sync_put(&b, m->host ? DOOR_HEARD : DOOR_BEGIN, number, m->ours);
	send_all(fd, &b);
}

static void say(const struct mux *m, struct input *in, int fd)
{
	static char body[DOOR_DATA_MAX];
	struct door_msg msg = { .kind = take(in), .body = body };
	struct buf b = { 0 };
	uint8_t who = take(in), n = take(in);
	size_t i;

	/* Of few places, of both ends. */
	msg.id = (uint32_t)(who & 7) | (uint32_t)(who >> 3 & 3) * DOOR_STREAMS |
		 (who & 0x80 ? DOOR_BY_HOST : 0);
	msg.len = n & 0x80 ? (size_t)(n & 0x7f) * 128 : n;
	for (i = 0; i < msg.len && i < 24; i++)
		body[i] = (char)take(in);
	door_put(&b, m->word, &msg);
	send_all(fd, &b);
}

static void hello(struct input *in, int fd)
{
	uint8_t number[DOOR_NUMBER];
	struct buf b = { 0 };

	memset(number, take(in), sizeof(number));
	door_sync_put(&b, (enum door_step)take(in), number, number);
	send_all(fd, &b);
}

static void noise(struct input *in, int fd)
{
	struct buf b = { 0 };
	size_t n = take(in) % RAW_MAX;

	while (n-- > 0) {
		uint8_t c = take(in);

		buf_add(&b, &c, 1);
	}
	send_all(fd, &b);
}

static void drain(int fd)
{
	static char waste[64 * 1024];

	while (fd >= 0 && read(fd, waste, sizeof(waste)) > 0)
		;
}

/* --- what sockets at this end do --- */

static void use_socket(struct input *in, int *fd)
{
	static const char bytes[4096];

	switch (take(in) % 5) {
	case 0:
		(void)!write(*fd, bytes, take(in));
		break;
	case 1:
		(void)!write(*fd, bytes, sizeof(bytes));
		break;
	case 2:
		drain(*fd);
		break;
	case 3:
		if (*fd >= 0)
			shutdown(*fd, SHUT_WR);
		break;
	default:
		auto_close(fd);
	}
}

static void step(struct mux *m, struct input *in, int fd)
{
	const struct door_addr a = { .ip = { [15] = 1 }, .port = 80 };

	switch (take(in) % 8) {
	case 0:
	case 1:
	case 2:
		say(m, in, fd);
		break;
	case 3:
		use_socket(in, &sockets[take(in) % SOCKETS]);
		break;
	case 4:
		if (mux_has_place(m))
			require(mux_open(m, make_pair(), &a, take(in) & 1) ==
				0);
		break;
	case 5:
		noise(in, fd);
		break;
	case 6:
		hello(in, fd);
		break;
	default:
		/* Said twice, it is heard twice. */
		if (m->state == MUX_SEEK || take(in) == 1)
			find(m, fd);
		else
			drain(fd);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct mux *m = xcalloc(1, sizeof(*m));
	uint8_t how = take(&in);
	const int little = 16 * 1024;
	int line[2], i;

	signal(SIGPIPE, SIG_IGN);
	if (loop_init(&loop) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
		       line) < 0)
		abort();
	/* It is full soon. */
	(void)setsockopt(line[0], SOL_SOCKET, SO_SNDBUF, &little,
			 sizeof(little));
	memset(sockets, -1, sizeof(sockets));
	refuse = how & 2;
	*m = (struct mux){ .loop = &loop,
			   .host = how & 1,
			   .dial = on_dial,
			   .answered = on_answered,
			   .heard = on_heard,
			   .changed = on_changed,
			   .ended = on_ended };
	mux_init(m);
	require(mux_line(m, line[0]) == 0);
	find(m, line[1]);
	turn();
	for (i = 0; i < OPS_MAX && in.left > 0; i++) {
		step(m, &in, line[1]);
		turn();
		check(m);
	}
	auto_close(&line[1]);
	turn();
	require(m->state == MUX_DOWN && m->n_streams == 0 && m->given == 0);
	auto_close(&line[0]);
	for (i = 0; i < SOCKETS; i++)
		auto_close(&sockets[i]);
	loop_done(&loop);
	buf_done(&m->in);
	buf_done(&m->out);
	free(m);
	return 0;
}
