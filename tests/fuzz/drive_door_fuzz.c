/*
 * The drive's door in a sandbox (agent/drive_door.c), between a client and the
 * daemon that both may say anything. It passes whole records on, from a client
 * only those that it may send, and at most one request; a client that leaves
 * is told of. The first byte says who speaks first, then comes what the client
 * says, as long as the next two bytes tell; the rest is what the daemon says.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "../../src/agent/drive_door.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 60 * 1024, CLIENT_STAYS = 1 };

static void put(int fd, const uint8_t *p, size_t n)
{
	if (n > 0 && send(fd, p, n, MSG_DONTWAIT) != (ssize_t)n)
		abort();
}

static void pair(int fds[2])
{
	const int room = 8 * INPUT_MAX;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0 ||
	    setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) <
		    0 ||
	    setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) < 0)
		abort();
}

static void read_all(int fd, struct buf *b)
{
	while (buf_read(b, fd, INPUT_MAX) > 0)
		;
}

/* What the daemon hears: a request, bytes, and maybe that nobody is there. */
static void check_daemon(struct buf *b)
{
	struct drive_record rec;
	bool asked = false, gone = false;
	int n;

	while ((n = drive_record_get(b, &rec)) > 0) {
		assert(!gone);
		assert(asked ? rec.kind == DRIVE_DATA ||
				       rec.kind == DRIVE_END ||
				       rec.kind == DRIVE_GONE
			     : rec.kind == DRIVE_REQUEST);
		asked = true;
		gone = rec.kind == DRIVE_GONE;
		buf_eat(b, (size_t)n);
	}
	assert(n == 0 && buf_len(b) == 0);
}

/* What the client hears ends with a last word, if at all. */
static void check_client(struct buf *b)
{
	struct drive_record rec;
	bool last = false;
	int n;

	while ((n = drive_record_get(b, &rec)) > 0) {
		assert(!last);
		last = drive_is_last(rec.kind);
		buf_eat(b, (size_t)n);
	}
	assert(n == 0 && buf_len(b) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(buf_done) struct buf up = { 0 }, down = { 0 };
	int in[2], out[2], conn[2];
	size_t n;

	if (size < 3 || size > INPUT_MAX)
		return 0;
	signal(SIGPIPE, SIG_IGN);
	n = data[1] | (size_t)data[2] << 8;
	n = n < size - 3 ? n : size - 3;
	pair(in);
	pair(out);
	pair(conn);
	put(conn[1], data + 3, n);
	put(in[1], data + 3 + n, size - 3 - n);
	/* The end of both, so that nobody is waited for. */
	if (shutdown(in[1], SHUT_WR) < 0 ||
	    (!(data[0] & CLIENT_STAYS) && shutdown(conn[1], SHUT_WR) < 0) ||
	    dup2(in[0], STDIN_FILENO) < 0 || dup2(out[1], STDOUT_FILENO) < 0)
		abort();
	(void)serve(conn[0]);
	close(in[0]);
	close(in[1]);
	/* As the end of the process would. */
	if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		abort();
	close(out[1]);
	read_all(out[0], &up);
	read_all(conn[1], &down);
	close(out[0]);
	close(conn[1]);
	check_daemon(&up);
	check_client(&down);
	return 0;
}
