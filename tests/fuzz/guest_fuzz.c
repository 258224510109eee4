/*
 * What the host's end of a microVM's control port may say to the guest's first
 * process (guest/control.c), in pieces of any size. Each request is answered
 * once, in order; nothing of a machine is changed by one that is not whole and
 * right, and it goes on only after all that a wake has to do. The first byte
 * says how large pieces are.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "guest/guest.h"
#include "sandbox/container/machine_id.h"
#include "store/store.h"

/* What it does to its machine, in order. */
enum { SEEDED = 1, CLOCK = 2, NAMED = 4, HAS_ID = 8, ALL = 15 };
static unsigned done, thawed, frozen;
static uint8_t fails; /* what fails: a bit for each */

static int fake_open(const char *path, int flags)
{
	(void)flags;
	assert(path[0] == '/');
	return fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
}

static int fake_ioctl(int fd, unsigned long what, ...)
{
	(void)fd;
	assert(what == RNDADDENTROPY || what == RNDRESEEDCRNG);
	done |= SEEDED;
	return fails & SEEDED ? -1 : 0;
}

static int fake_settime(clockid_t clock, const struct timespec *t)
{
	assert(clock == CLOCK_REALTIME && done == SEEDED);
	assert(t->tv_nsec >= 0 && t->tv_nsec < 1000000000);
	done |= CLOCK;
	return fails & CLOCK ? -1 : 0;
}

static int fake_setns(int fd, int what)
{
	(void)fd;
	assert(what == CLONE_NEWUTS);
	return 0;
}

static int fake_hostname(const char *name, size_t n)
{
	assert(name_valid(name) && strlen(name) == n);
	assert(done == (SEEDED | CLOCK));
	done |= NAMED;
	return fails & NAMED ? -1 : 0;
}

static int fake_syncfs(int fd)
{
	(void)fd;
	return fails & 16 ? -1 : 0;
}

static void fake_machine_id(int root_fd, const char *id)
{
	(void)root_fd;
	assert(id_valid(id) && done == (SEEDED | CLOCK | NAMED));
	done |= HAS_ID;
}

static int fake_id(uint32_t id)
{
	(void)id;
	return 0;
}

static int fake_freeze(int fd, int proc_fd, struct err *e)
{
	(void)fd;
	(void)proc_fd;
	frozen++;
	return fails & 32 ? err_set(e, EIO, "freeze") : 0;
}

static int fake_thaw(int fd, struct err *e)
{
	(void)fd;
	thawed++;
	return fails & 64 ? err_set(e, EIO, "thaw") : 0;
}

#define open fake_open
#define ioctl fake_ioctl
#define clock_settime fake_settime
#define setns fake_setns
#define sethostname fake_hostname
#define syncfs fake_syncfs
#define machine_id_set fake_machine_id
#define setfsuid fake_id
#define setfsgid fake_id
#define cgroup_freeze fake_freeze
#define cgroup_thaw fake_thaw
#include "../../src/guest/control.c"
#undef open

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 16 * 1024 };

/* The answers to whole requests, and no other. */
static void check_answers(int fd, const uint8_t *p, size_t n)
{
	struct guest_rep rep;
	struct guest_req q;

	while (n >= sizeof(q)) {
		memcpy(&q, p, sizeof(q));
		assert(recv(fd, &rep, sizeof(rep), MSG_DONTWAIT) ==
		       (ssize_t)sizeof(rep));
		assert(rep.magic == GUEST_MAGIC && rep.seq == q.seq);
		assert(rep.version == GUEST_VERSION && rep.op == q.op);
		assert(rep.end == 0 && memchr(rep.text, '\0', GUEST_TEXT));
		assert((rep.code == 0) == (rep.text[0] == '\0'));
		if (q.op == GUEST_WAKE && rep.code == 0)
			assert(id_valid(q.id) && name_valid(q.hostname));
		p += sizeof(q);
		n -= sizeof(q);
	}
	assert(recv(fd, &rep, sizeof(rep), MSG_DONTWAIT) < 0);
}

/* No more than one request, so that what it did can be seen. */
static void give(struct guest *g, int fd, const uint8_t *p, size_t n)
{
	size_t piece = n;

	done = thawed = frozen = 0;
	while (n > 0) {
		piece = piece < n ? piece : n;
		if (send(fd, p, piece, MSG_DONTWAIT) != (ssize_t)piece)
			abort();
		control_look(g);
		p += piece;
		n -= piece;
	}
	assert(!thawed || done == ALL || frozen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct guest g = { .group_fd = -1, .box = { .pid = 1, .pid_fd = -1 } };
	size_t piece, at;
	int fds[2];

	if (size < 2 || size > INPUT_MAX)
		return 0;
	piece = data[0] < sizeof(struct guest_req) ? data[0] + 1U
						   : sizeof(struct guest_req);
	fails = data[1];
	data += 2;
	size -= 2;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
		       fds) < 0)
		abort();
	g.port_fd[GUEST_PORT_CONTROL] = fds[0];
	for (at = 0; at < size; at += piece)
		give(&g, fds[1], data + at,
		     size - at < piece ? size - at : piece);
	check_answers(fds[1], data, size);
	close(fds[1]);
	control_look(&g);
	assert(g.control.have == 0);
	close(fds[0]);
	return 0;
}
