/*
 * What the first process of a microVM answers to the host's warden
 * (sandbox/vm/control.c), when somebody has taken it over. Only an answer to
 * what was asked is taken; what the guest says in words is plain text that
 * ends. The first byte says what is asked, the second one after how many bytes
 * it is silent: then the rest is what it says when it is rung again. The
 * numbers of requests are the same each time, or nobody would answer them, and
 * no time passes but that which is waited for in vain.
 */
#include <assert.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/fd.h"

static uint64_t now_ms;
static int next_line; /* -1: there is none */

static ssize_t same_bytes(void *p, size_t n, unsigned flags)
{
	(void)flags;
	memset(p, 7, n);
	return (ssize_t)n;
}

static uint64_t fake_clock(void)
{
	return now_ms;
}

static int fake_poll(struct pollfd *p, nfds_t n, int ms)
{
	int r = poll(p, n, 0);

	assert(ms > 0);
	if (r == 0)
		now_ms += (uint64_t)ms;
	return r;
}

static int fake_connect(const char *path, int flags)
{
	int fd = next_line;

	(void)path;
	(void)flags;
	next_line = -1;
	return fd;
}

#define getrandom same_bytes
#define clock_boot_ms fake_clock
#define poll fake_poll
#define unix_connect fake_connect
#include "../../src/sandbox/vm/control.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 16 * 1024, MOST_MS = 10 * 1000, STEP = 16 };
enum verdict { TAKEN, REFUSED, NONE };

/* Is the first of them that is no old one an answer to this? */
static enum verdict judge(const uint8_t *p, size_t n, uint16_t op)
{
	struct guest_rep r;
	uint64_t seq;

	memset(&seq, 7, sizeof(seq));
	for (; n >= sizeof(r); n -= sizeof(r), p += sizeof(r)) {
		memcpy(&r, p, sizeof(r));
		if (r.magic == GUEST_MAGIC && r.seq != seq)
			continue; /* of before */
		return r.magic == GUEST_MAGIC && r.version == GUEST_VERSION &&
				       r.op == op && r.code == 0 && r.end == 0
			       ? TAKEN
			       : REFUSED;
	}
	return NONE;
}

/* A line that has said all of it: our end, the machine's in `its`. */
static int say(const uint8_t *p, size_t n, bool ends, int *its)
{
	const int room = 4 * INPUT_MAX;
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0 ||
	    setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) <
		    0 ||
	    (n > 0 && send(fds[1], p, n, MSG_DONTWAIT) != (ssize_t)n) ||
	    (ends && shutdown(fds[1], SHUT_WR) < 0))
		abort();
	*its = fds[1];
	return fds[0];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct control_name name = { "i", "host" };
	struct control_line line = { .fd = -1 };
	struct err e = { 0 };
	enum verdict v;
	uint16_t op;
	size_t i, first;
	int its[2], r;

	if (size < 2 || size > INPUT_MAX)
		return 0;
	op = (uint16_t)(GUEST_ASK + data[0] % 3);
	first = (size_t)data[1] * STEP;
	data += 2;
	size -= 2;
	if (first > size)
		first = size;
	now_ms = 1;
	line.fd = say(data, first, first == size, &its[0]);
	next_line = say(data + first, size - first, true, &its[1]);
	v = judge(data, first, op);
	if (v == NONE && first < size) /* it is rung again */
		v = judge(data + first, size - first, op);
	r = op == GUEST_ASK    ? control_ask(&line, MOST_MS, &e)
	    : op == GUEST_HOLD ? control_hold(&line, MOST_MS, &e)
			       : control_wake(&line, &name, MOST_MS, &e);
	assert(r == -e.code);
	assert((r == 0) == (v == TAKEN));
	for (i = 0; e.msg[i]; i++)
		assert(e.msg[i] >= ' ' && e.msg[i] <= '~');
	control_close(&line);
	auto_close(&next_line);
	close(its[0]);
	close(its[1]);
	return 0;
}
