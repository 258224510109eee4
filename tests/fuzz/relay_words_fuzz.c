/*
 * What the relay of a microVM's door says to the warden (warden/relay.c), when
 * its guest has taken it over: answers that nobody asked for, in any order,
 * half ones, with descriptors, an end in between; while doors and connections
 * are asked for. Each question is answered once, and one that went well with
 * all that it was about: a door has its sockets, also when another one failed
 * at the same time. Each step is a byte, and what the step takes.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"

static int fake_connect(const char *path, int type);
static int fake_listen(int dir_fd, const char *name, int type, mode_t mode);
#define unix_connect fake_connect
#define unix_listen_at fake_listen
#include "../../src/warden/door.c"
#include "../../src/warden/relay.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STEPS_MAX = 128, ASKED_MAX = 64 };
/* Steps. */
enum {
	DOOR,
	CONNECT,
	ANSWER,
	RAW,
	WITH_FD,
	HANGS_UP,
	LATER,
	NO_DOOR,
	TOO_LATE
};

struct question {
	struct waiter wt;
	bool door, answered;
};

static struct warden w;
static struct box box;
static int relay_fd = -1; /* its end */
static bool no_door;
static struct question asked[ASKED_MAX];
static unsigned n_asked;

/* --- the rest of the warden --- */

/* What is connected to is the one that is fuzzed. */
static int fake_connect(const char *path, int type)
{
	int fds[2];

	if (!strstr(path, RELAY_SOCK))
		return fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) < 0)
		abort();
	auto_close(&relay_fd);
	relay_fd = fds[0];
	return fds[1];
}

static int fake_listen(int dir_fd, const char *name, int type, mode_t mode)
{
	(void)dir_fd;
	(void)name;
	(void)type;
	(void)mode;
	return fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
}

void answer_rep(struct waiter *wt, struct warden_rep *rep, const int *fds,
		int n)
{
	struct question *q = container_of(wt, struct question, wt);

	assert(!q->answered);
	q->answered = true;
	if (rep->err.code) {
		assert(rep->err.msg[0]);
		return;
	}
	assert(n > 0 && fcntl(fds[0], F_GETFD) >= 0);
	if (q->door)
		assert(rep->door.fds & 1U << DOOR_FD_PROXY);
}

bool box_is_vm(const struct box *b)
{
	assert(b == &box);
	return true;
}

int net_enter(struct box *b, struct err *e)
{
	(void)b;
	(void)e;
	return 0;
}

void net_leave(const struct box *b)
{
	(void)b;
}

int door_sockets(int home_fd, bool self, int fds[GATE_FDS_MAX], struct err *e)
{
	(void)home_fd;
	if (no_door)
		return err_set(e, EADDRINUSE, "taken");
	if (fds[DOOR_FD_PROXY] < 0)
		fds[DOOR_FD_PROXY] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	if (self && fds[DOOR_FD_SELF] < 0)
		fds[DOOR_FD_SELF] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	return 0;
}

void door_sockets_close(int fds[GATE_FDS_MAX])
{
	unsigned i;

	for (i = 0; i < GATE_FDS_MAX; i++)
		auto_close(&fds[i]);
}

uint32_t slot_base(const struct warden *wd, unsigned slot)
{
	(void)wd;
	(void)slot;
	return 0x100000;
}

pid_t relay_start(const struct relay_spec *s, int *pid_fd, struct err *e)
{
	(void)s;
	(void)pid_fd;
	return err_set(e, EAGAIN, "no");
}

/* --- steps --- */

static void on_step(struct timer *t)
{
	(void)t;
	w.loop.stop = true;
}

static void turn(void)
{
	struct timer step = { 0 };

	w.loop.stop = false;
	timer_set(&w.loop, &step, 0, on_step);
	loop_run(&w.loop);
	timer_del(&w.loop, &step);
}

static void ask_one(bool door, uint8_t how)
{
	struct connect_spec s = { .port = 80, .flags = how & CONNECT_V6 };
	struct question *q = &asked[n_asked];

	if (n_asked == ASKED_MAX)
		return;
	n_asked++;
	*q = (struct question){ .door = door };
	if (door)
		box_door(&box, how & DOOR_SELF, &q->wt);
	else
		relay_connect(&box, &s, &q->wt);
}

/* An answer to one of the last questions, or to none. */
static void answer_one(const uint8_t *p)
{
	static const uint32_t codes[] = { 0,          ENOTCONN,
					  EADDRINUSE, ECONNREFUSED,
					  EMFILE,     9999 };
	const struct relay_rep rep = { .version = RELAY_VERSION,
				       .op = p[0] % (RELAY_OPS + 1),
				       .seq = p[1],
				       .code = codes[p[2] % ARRAY_LEN(codes)] };

	(void)send(relay_fd, &rep, sizeof(rep), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* A pause that a timer waits for, without waiting. */
static void later(void)
{
	struct relay *r = box.relay;

	if (r && r->again.slot) {
		timer_del(&w.loop, &r->again);
		on_again(&r->again);
	}
}

static void too_late(void)
{
	struct relay *r = box.relay;
	struct ask *a;

	if (!r || list_empty(&r->asks))
		return;
	a = container_of(r->asks.next, struct ask, node);
	timer_del(&w.loop, &a->late);
	on_late(&a->late);
}

static size_t step(const uint8_t *p, size_t n)
{
	size_t len;

	switch (p[0]) {
	case DOOR:
	case CONNECT:
		ask_one(p[0] == DOOR, n > 1 ? p[1] : 0);
		return n > 1 ? 2 : 1;
	case ANSWER:
		if (n >= 4)
			answer_one(p + 1);
		return n >= 4 ? 4 : 1;
	case RAW:
		len = n > 1 && p[1] < n - 2 ? p[1] : 0;
		(void)send(relay_fd, p + 2, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		return len + 2;
	case WITH_FD:
		(void)!send_msg_fds(relay_fd, p, 1, (int[]){ STDERR_FILENO },
				    1);
		return 1;
	case HANGS_UP:
		auto_close(&relay_fd);
		return 1;
	case LATER:
		later();
		return 1;
	case NO_DOOR:
		no_door = !no_door;
		return 1;
	case TOO_LATE:
		too_late();
		return 1;
	default:
		return 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned i;

	if (loop_init(&w.loop) < 0)
		abort();
	w.box_fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	box = (struct box){ .w = &w, .state = BOX_RUNNING };
	box.pid_io.fd = -1;
	snprintf(box.spec.id, sizeof(box.spec.id), ".");
	for (i = 0; i < GATE_FDS_MAX; i++)
		box.door[i] = -1;
	n_asked = 0;
	no_door = false;
	for (i = 0; i < STEPS_MAX && size > 0; i++) {
		size_t used = step(data, size);

		used = used < size ? used : size;
		data += used;
		size -= used;
		turn();
		if (box.relay)
			assert(box.relay->n_asks <= n_asked);
	}
	box.state = BOX_ENDING;
	relay_end(&box);
	door_close(&box);
	for (i = 0; i < n_asked; i++)
		assert(asked[i].answered);
	turn();
	loop_done(&w.loop);
	auto_close(&relay_fd);
	close(w.box_fd);
	return 0;
}
