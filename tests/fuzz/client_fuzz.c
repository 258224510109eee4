/*
 * What a server says to our HTTP client: answers to several calls on one
 * connection, an upgrade, a body in pieces. What is taken keeps what its head
 * says, no limit is passed, and a connection that is over is not used again.
 * The first byte says which calls are made.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "http/client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BODY_MAX = 4096, CALLS = 4, INPUT_MAX = 100 * 1024 };
/* Of the first byte; the rest are the calls, two bits each. */
enum { STOPS = 64, LISTENS = 128 };

/* All that the server will ever say; its end is `fd`, until it hangs up. */
static int server_says(const uint8_t *p, size_t n, int *fd)
{
	const int room = 4 * INPUT_MAX;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ||
	    setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) <
		    0 ||
	    send(pair[1], p, n, MSG_DONTWAIT) != (ssize_t)n ||
	    shutdown(pair[1], SHUT_WR) < 0)
		abort();
	*fd = pair[1];
	return pair[0];
}

struct seen {
	size_t n;
	bool stop;
};

static int on_piece(const char *p, size_t n, void *ctx, struct err *e)
{
	struct seen *s = ctx;

	assert(p && n > 0);
	s->n += n;
	return s->stop && s->n > 10 ? err_set(e, ECANCELED, "enough") : 0;
}

static void check_error(int r, const struct err *e)
{
	assert(r < 0 ? e->code == -r && e->msg[0] : e->code == 0);
}

/* An answer as a whole. */
static int do_whole(struct http_client *c, const char *method)
{
	const struct http_call call = { .method = method, .target = "/v1/x" };
	AUTO(buf_done) struct buf out = { 0 };
	struct err e = { 0 };
	int r = http_do(c, &call, BODY_MAX, &out, &e);

	check_error(r, &e);
	assert(buf_len(&out) <= BODY_MAX);
	if (r < 0)
		return r;
	assert(r == c->head.status && (r >= 200 || r == 101) && r <= 999);
	if (c->head.body == HTTP_LENGTH)
		assert(buf_len(&out) == c->head.length);
	if (c->head.body == HTTP_NO_BODY)
		assert(buf_len(&out) == 0);
	return c->head.keep_alive ? 0 : -1;
}

static int do_stream(struct http_client *c, bool stop)
{
	const struct http_call call = { .method = "POST",
					.target = "/v1/x?y=z",
					.body = "{}",
					.body_n = 2 };
	struct seen seen = { .stop = stop };
	struct err e = { 0 };
	int r = http_send(c, &call, &e);

	if (r == 0)
		r = http_recv_head(c, &e);
	if (r >= 0)
		r = http_recv_stream(c, on_piece, &seen, &e);
	check_error(r, &e);
	if (r == 0 && c->head.body == HTTP_LENGTH)
		assert(seen.n == c->head.length);
	return r;
}

/* A body that is sent while the server may say something already. */
static int do_send(struct http_client *c)
{
	const struct http_call call = { .method = "PUT", .target = "/" };
	AUTO(buf_done) struct buf out = { 0 };
	struct err e = { 0 };
	int pipe_fd[2], r;

	if (pipe2(pipe_fd, O_CLOEXEC) < 0 || write(pipe_fd[1], "abc", 3) != 3)
		abort();
	close(pipe_fd[1]);
	r = http_send_fd(c, &call, pipe_fd[0], &e);
	close(pipe_fd[0]);
	if (r >= 0)
		r = http_recv_head(c, &e);
	if (r >= 0)
		r = http_recv_body(c, BODY_MAX, &out, &e);
	check_error(r, &e);
	return r;
}

static int do_upgrade(struct http_client *c, size_t said)
{
	const struct http_call call = { .method = "POST",
					.target = "/v1/attach",
					.upgrade = "wire/1",
					.first = "hello",
					.first_n = 5 };
	AUTO(buf_done) struct buf rest = { 0 };
	AUTO_CLOSE int fd = -1;
	struct err e = { 0 };
	int r = http_client_upgrade(c, &call, &fd, &rest, &e);

	check_error(r < 0 ? r : 0, &e);
	assert((r == 101) == (fd >= 0) && buf_len(&rest) < said + 1);
	if (r == 101)
		assert(c->fd < 0 && http_wants_upgrade(&c->head, "wire/1"));
	return -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const methods[] = { "GET", "HEAD", "DELETE" };
	AUTO_CLOSE int server_fd = -1;
	struct http_client c;
	unsigned i;
	int r = 0;

	if (size < 1 || size > INPUT_MAX)
		return 0;
	signal(SIGPIPE, SIG_IGN);
	http_client_attach(&c, server_says(data + 1, size - 1, &server_fd));
	if (!(data[0] & LISTENS))
		auto_close(&server_fd);
	for (i = 0; i < CALLS && r >= 0; i++)
		switch (((data[0] & 63) >> (2 * i % 6)) & 3) {
		case 0:
			r = do_whole(&c, methods[i % ARRAY_LEN(methods)]);
			break;
		case 1:
			r = do_stream(&c, data[0] & STOPS);
			break;
		case 2:
			r = do_send(&c);
			break;
		default:
			r = do_upgrade(&c, size);
		}
	http_client_done(&c);
	return 0;
}
