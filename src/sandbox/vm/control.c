#include "sandbox/vm/control.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/vm/patience.h"

enum { REDIAL_MS = 3000, FULL_MS = 50 };

static int dial(struct control_line *l, struct err *e)
{
	char path[96];

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s/control.sock",
		 l->box_fd, l->id);
	l->fd = unix_connect(path, SOCK_STREAM | SOCK_NONBLOCK);
	return l->fd < 0 ? err_set(e, -l->fd, "reach the machine: %s",
				   strerror(-l->fd))
			 : 0;
}

int control_open(struct control_line *l, int box_fd, const char *id,
		 struct err *e)
{
	*l = (struct control_line){ .fd = -1, .box_fd = box_fd };
	if (str_copy(l->id, sizeof(l->id), id) < 0)
		return err_set(e, EINVAL, "its id is too long");
	return dial(l, e);
}

void control_close(struct control_line *l)
{
	auto_close(&l->fd);
}

/* What a guest says is text when we say it again. */
static void plain(char *text, size_t cap)
{
	size_t i;

	text[cap - 1] = '\0';
	for (i = 0; text[i]; i++)
		if (text[i] < ' ' || text[i] > '~')
			text[i] = '?';
}

int control_check(const struct guest_req *q, const struct guest_rep *p,
		  struct err *e)
{
	char text[GUEST_TEXT];

	if (p->magic != GUEST_MAGIC || p->version != GUEST_VERSION ||
	    p->op != q->op || p->seq != q->seq || p->end != 0)
		return err_set(e, EBADMSG,
			       "the machine's answer is not one to what was "
			       "asked");
	if (p->code == 0)
		return 0;
	memcpy(text, p->text, sizeof(text));
	plain(text, sizeof(text));
	return err_set(e, EIO, "the machine says: %s", text);
}

/* Readable, before the time is over. */
static int await(int fd, uint64_t until_ms, struct err *e)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t now;
	int r;

	do {
		now = clock_boot_ms();
		r = now >= until_ms ? 0 : poll(&p, 1, (int)(until_ms - now));
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return err_sys(e, "wait for the machine");
	return r > 0 ? 0 : err_set(e, ETIMEDOUT, "the machine does not answer");
}

static int read_rep(int fd, struct guest_rep *p, uint64_t until_ms,
		    struct err *e)
{
	size_t have = 0;

	while (have < sizeof(*p)) {
		ssize_t n;

		if (await(fd, until_ms, e) < 0)
			return -e->code;
		n = recv(fd, (char *)p + have, sizeof(*p) - have, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n <= 0)
			return err_set(e, ECONNRESET, "the machine has ended");
		have += (size_t)n;
	}
	return 0;
}

/* A request is small enough to be taken whole or not at all. */
static int ask_once(int fd, const struct guest_req *q, uint64_t until_ms,
		    struct err *e)
{
	struct guest_rep p = { 0 };

	if (send(fd, q, sizeof(*q), MSG_NOSIGNAL | MSG_DONTWAIT) !=
	    (ssize_t)sizeof(*q))
		return err_set(e, ECONNRESET, "the machine has ended");
	/* What was asked for before, in vain, may be answered now. */
	do
		if (read_rep(fd, &p, until_ms, e) < 0)
			return -e->code;
	while (p.magic == GUEST_MAGIC && p.seq != q->seq);
	return control_check(q, &p, e);
}

/* A number that its answer is known by, and the time: each try has its own. */
static int stamp(struct guest_req *q, struct err *e)
{
	struct timespec t;

	if (getrandom(&q->seq, sizeof(q->seq), 0) != sizeof(q->seq))
		return err_sys(e, "randomness");
	clock_gettime(CLOCK_REALTIME, &t);
	q->time_ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
	return 0;
}

/* Calls that QEMU has not taken yet fill its queue on a slow host: EAGAIN. */
static int redial(struct control_line *l, uint64_t end, struct err *e)
{
	while (dial(l, e) < 0) {
		if (e->code != EAGAIN || clock_boot_ms() >= end)
			return -e->code;
		err_clear(e);
		poll(NULL, 0, FULL_MS);
	}
	return 0;
}

static int ask(struct control_line *l, struct guest_req *q, uint64_t most_ms,
	       struct err *e)
{
	uint64_t now = clock_boot_ms(), end = now + vm_patience(most_ms),
		 wait = REDIAL_MS;

	q->magic = GUEST_MAGIC;
	q->version = GUEST_VERSION;
	for (;;) {
		bool last = now + wait >= end;
		int r = stamp(q, e);

		if (r < 0)
			return r;
		r = ask_once(l->fd, q, last ? end : now + wait, e);
		if (r != -ETIMEDOUT || last)
			return r;
		err_clear(e);
		control_close(l);
		if (redial(l, end, e) < 0)
			return -e->code;
		now = clock_boot_ms();
		wait *= 2;
	}
}

int control_ask(struct control_line *l, uint64_t most_ms, struct err *e)
{
	struct guest_req q = { .op = GUEST_ASK };

	return ask(l, &q, most_ms, e);
}

int control_sync(struct control_line *l, uint64_t most_ms, struct err *e)
{
	struct guest_req q = { .op = GUEST_SYNC };

	return ask(l, &q, most_ms, e);
}

int control_work(struct control_line *l, uint64_t most_ms, struct err *e)
{
	struct guest_req q = { .op = GUEST_WORK };

	return ask(l, &q, most_ms, e);
}

int control_hold(struct control_line *l, uint64_t most_ms, struct err *e)
{
	struct guest_req q = { .op = GUEST_HOLD };

	return ask(l, &q, most_ms, e);
}

int control_wake(struct control_line *l, const struct control_name *n,
		 uint64_t most_ms, struct err *e)
{
	struct guest_req q = { .op = GUEST_WAKE };
	int r;

	if (str_copy(q.id, sizeof(q.id), n->id) < 0 ||
	    str_copy(q.hostname, sizeof(q.hostname), n->hostname) < 0)
		return err_set(e, EINVAL, "its id or host name is too long");
	if (getrandom(q.seed, sizeof(q.seed), 0) != sizeof(q.seed))
		return err_sys(e, "randomness");
	r = ask(l, &q, most_ms, e);
	explicit_bzero(&q, sizeof(q));
	return r;
}
