/*
 * Frames that go from one endpoint to another stay whole and in order, also
 * when the receiver is slow and others lie between them.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/endpoint.h"
#include "base/auto.h"
#include "base/fd.h"
#include "check.h"
#include "wire/frame.h"

enum { DATA = 60000, SMALL = 4096 };

static struct loop loop;
static struct endpoint agent, client;
static int reader_fd = -1;
static struct buf got;
static unsigned n_others;

/* The client reads when the second of the frames between is there. */
static void read_all(void)
{
	while (buf_read(&got, reader_fd, SMALL) > 0)
		;
}

static int on_frame(struct endpoint *ep, const struct frame *f, uint8_t *raw)
{
	(void)ep;
	if (f->type == FRAME_OUTPUT)
		endpoint_forward(&client, raw, f, 1);
	else if (++n_others == 2)
		read_all();
	return FRAME_GO_ON;
}

static void on_lost(struct endpoint *ep, int why)
{
	(void)ep;
	(void)why;
	CHECK(false);
}

static void on_drained(struct endpoint *ep)
{
	(void)ep;
}

static const struct endpoint_ops ops = {
	.frame = on_frame,
	.lost = on_lost,
	.drained = on_drained,
};

static void on_step(struct timer *t)
{
	(void)t;
	loop.stop = true;
}

static int loop_step(void)
{
	struct timer step = { 0 };
	int r;

	loop.stop = false;
	timer_set(&loop, &step, 1, on_step);
	r = loop_run(&loop);
	timer_del(&loop, &step);
	return r;
}

static void put_output(struct buf *b, uint64_t offset, char what)
{
	static char bytes[9 + DATA];
	int i;

	bytes[0] = 1;
	for (i = 0; i < 8; i++)
		bytes[1 + i] = (char)(offset >> (8 * i));
	memset(bytes + 9, what, DATA);
	frame_put(b, FRAME_OUTPUT, 0, 1, bytes, sizeof(bytes));
}

static void pair(int fd[2])
{
	const int room = SMALL;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
			 fd) == 0);
	CHECK(setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) ==
	      0);
}

static void test_order(void)
{
	const struct hello hello = { .version_min = WIRE_VERSION,
				     .version_max = WIRE_VERSION };
	struct buf b = { 0 };
	struct frame f;
	int a[2], c[2], i;

	pair(a);
	pair(c);
	reader_fd = c[1];
	endpoint_init(&agent);
	endpoint_init(&client);
	CHECK(endpoint_open(&agent, &loop, a[0], &ops) == 0);
	CHECK(endpoint_open(&client, &loop, c[0], &ops) == 0);
	hello_put(&b, &hello);
	put_output(&b, 0, 'a');
	frame_put(&b, FRAME_PONG, 0, 0, "", 0);
	put_output(&b, DATA, 'b');
	frame_put(&b, FRAME_PONG, 0, 0, "", 0);
	CHECK(write(a[1], buf_data(&b), buf_len(&b)) == (ssize_t)buf_len(&b));
	for (i = 0; i < 1000 && buf_len(&got) < 2 * (FRAME_HEAD + 9 + DATA);
	     i++) {
		if (loop_step() < 0)
			break;
		read_all();
	}
	for (i = 0; i < 2; i++) {
		CHECK(frame_get(&got, &f) == 1 && f.type == FRAME_OUTPUT &&
		      f.len == 9 + DATA && f.payload[9] == "ab"[i] &&
		      f.payload[8 + DATA] == "ab"[i]);
		buf_eat(&got, FRAME_HEAD + 9 + DATA);
	}
	endpoint_close(&agent);
	endpoint_close(&client);
	close(a[1]);
	close(c[1]);
	buf_done(&b);
	buf_done(&got);
}

int main(void)
{
	CHECK(loop_init(&loop) == 0);
	test_order();
	loop_done(&loop);
	return CHECK_DONE();
}
