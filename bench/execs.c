/*
 * Many processes at once in one sandbox, each on a connection of its own.
 *
 *	execs SOCKET SANDBOX COUNT PROGRAM [ARG...]
 *
 * All connections are made first; then all ask. Prints the microseconds of each
 * from its question to its exit, and `bytes` with the output of all. A process
 * that fails, or exits with another code than 0, ends it with failure.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "wire/frame.h"
#include "wire/pack.h"

enum { COUNT_MAX = 2000 };

struct stream {
	struct buf in;
	bool greeted, ended;
	uint64_t end[2];
	double asked_us, took_us;
};

static struct pollfd waits[COUNT_MAX];
static struct stream streams[COUNT_MAX];
static uint64_t total_bytes;

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void ask(int i, const char *box, const char **argv, size_t argc)
{
	const struct hello h = { WIRE_VERSION, WIRE_VERSION, 0, { 0 } };
	const struct spawn s = { .argc = argc, .argv = argv };
	struct buf b = { 0 };

	streams[i].asked_us = now_us();
	buf_printf(&b,
		   "POST /v1/sandboxes/%s/exec HTTP/1.1\r\nHost: localhost\r\n"
		   "Connection: Upgrade\r\nUpgrade: carrel-wire/1\r\n"
		   "Content-Length: 0\r\n\r\n",
		   box);
	hello_put(&b, &h);
	if (spawn_put(&b, 1, &s) < 0 ||
	    write_full(waits[i].fd, buf_data(&b), buf_len(&b)) < 0)
		die("stream %d: send: %s", i, strerror(errno));
	buf_done(&b);
}

/* Skips the 101 and the hello. */
static bool greet(int i, struct stream *s)
{
	struct hello h;
	char *end = strstr(buf_str(&s->in), "\r\n\r\n");

	if (!end)
		return false;
	if (strncmp(buf_data(&s->in), "HTTP/1.1 101 ", 13) != 0)
		die("stream %d: %s", i, buf_data(&s->in));
	if (buf_len(&s->in) < (size_t)(end + 4 - buf_data(&s->in)) + HELLO_LEN)
		return false;
	buf_eat(&s->in, (size_t)(end + 4 - buf_data(&s->in)));
	if (hello_get(&s->in, &h) != 1)
		die("stream %d: bad hello", i);
	s->greeted = true;
	return true;
}

static void got_output(int i, struct stream *s, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);
	uint8_t number = unpack_u8(&u);
	uint64_t offset = unpack_u64(&u);
	struct buf ack = { 0 };
	uint8_t payload[9];
	size_t n, k;

	unpack_rest(&u, &n);
	if (number < 1 || number > 2 || offset != s->end[number - 1])
		die("stream %d: bytes are missing", i);
	total_bytes += n;
	s->end[number - 1] += n;
	payload[0] = number;
	for (k = 0; k < 8; k++)
		payload[1 + k] = (uint8_t)(s->end[number - 1] >> (8 * k));
	frame_put(&ack, FRAME_ACK, 0, 1, payload, sizeof(payload));
	if (write_full(waits[i].fd, buf_data(&ack), buf_len(&ack)) < 0)
		die("stream %d: send", i);
	buf_done(&ack);
}

static void got_exit(int i, struct stream *s, const struct frame *f)
{
	struct exit_info x;

	if (exit_get(f, &x) < 0 || x.signaled || x.code != 0)
		die("stream %d: its process failed", i);
	s->ended = true;
	s->took_us = now_us() - s->asked_us;
}

static void readable(int i)
{
	struct stream *s = &streams[i];
	struct frame f;
	int r;

	if (buf_read(&s->in, waits[i].fd, 65536) <= 0)
		die("stream %d: connection ended early", i);
	if (!s->greeted && !greet(i, s))
		return;
	while ((r = frame_get(&s->in, &f)) == 1) {
		if (f.type == FRAME_FAILED)
			die("stream %d: not started", i);
		if (f.type == FRAME_OUTPUT)
			got_output(i, s, &f);
		if (f.type == FRAME_EXIT)
			got_exit(i, s, &f);
		buf_eat(&s->in, FRAME_HEAD + f.len);
	}
	if (r < 0)
		die("stream %d: bad frame", i);
}

static void watch(int n)
{
	int left = n, i;

	while (left > 0) {
		if (poll(waits, (nfds_t)n, 60000) <= 0)
			die("%d streams do not end", left);
		for (i = 0; i < n; i++) {
			if (!waits[i].revents)
				continue;
			readable(i);
			if (streams[i].ended) {
				close(waits[i].fd);
				waits[i].fd = -1;
				left--;
			}
		}
	}
}

int main(int argc, char **argv)
{
	int n, i;

	log_init("execs", LOG_WARN);
	if (argc < 5)
		die("usage: execs SOCKET SANDBOX COUNT PROGRAM [ARG...]");
	n = (int)strtol(argv[3], NULL, 10);
	if (n < 1 || n > COUNT_MAX)
		die("1 to %d streams", COUNT_MAX);
	for (i = 0; i < n; i++) {
		waits[i].events = POLLIN;
		waits[i].fd = unix_connect(argv[1], SOCK_STREAM);
		if (waits[i].fd < 0)
			die("connect: %s", strerror(-waits[i].fd));
	}
	for (i = 0; i < n; i++)
		ask(i, argv[2], (const char **)argv + 4, (size_t)argc - 4);
	watch(n);
	for (i = 0; i < n; i++)
		printf("%.0f\n", streams[i].took_us);
	printf("bytes %llu\n", (unsigned long long)total_bytes);
	return 0;
}
