/*
 * What the first process of a microVM answers to the host's warden
 * (sandbox/vm/control.c), when somebody has taken it over. Only an answer to
 * what was asked is taken; what the guest says in words is plain text that
 * ends. The first byte says what is asked; the numbers of requests are the
 * same each time, or nobody would answer them.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/types.h>

static ssize_t same_bytes(void *p, size_t n, unsigned flags)
{
	(void)flags;
	memset(p, 7, n);
	return (ssize_t)n;
}

#define getrandom same_bytes
#include "../../src/sandbox/vm/control.c"
#undef getrandom

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 16 * 1024, MOST_MS = 10 * 1000 };

/* Is one of the answers an answer to this? */
static bool is_in(const uint8_t *p, size_t n, uint16_t op)
{
	struct guest_rep r;
	uint64_t seq;

	memset(&seq, 7, sizeof(seq));
	for (; n >= sizeof(r); n -= sizeof(r), p += sizeof(r)) {
		memcpy(&r, p, sizeof(r));
		if (r.magic == GUEST_MAGIC && r.seq != seq)
			continue; /* of before */
		return r.magic == GUEST_MAGIC && r.version == GUEST_VERSION &&
		       r.op == op && r.code == 0 && r.end == 0;
	}
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct control_name name = { "i", "host", GUEST_COPIED };
	const int room = 4 * INPUT_MAX;
	struct control_line line = { .fd = -1 };
	struct err e = { 0 };
	uint16_t op;
	size_t i;
	int fds[2], r;

	if (size < 1 || size > INPUT_MAX)
		return 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0 ||
	    setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) <
		    0 ||
	    (size > 1 && send(fds[1], data + 1, size - 1, MSG_DONTWAIT) !=
				 (ssize_t)size - 1) ||
	    shutdown(fds[1], SHUT_WR) < 0)
		abort();
	op = (uint16_t)(GUEST_ASK + data[0] % 3);
	line.fd = fds[0];
	r = op == GUEST_ASK    ? control_ask(&line, MOST_MS, &e)
	    : op == GUEST_HOLD ? control_hold(&line, MOST_MS, &e)
			       : control_wake(&line, &name, MOST_MS, &e);
	assert(r == -e.code);
	assert((r == 0) == is_in(data + 1, size - 1, op));
	for (i = 0; e.msg[i]; i++)
		assert(e.msg[i] >= ' ' && e.msg[i] <= '~');
	control_close(&line);
	close(fds[1]);
	return 0;
}
