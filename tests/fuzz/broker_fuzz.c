/*
 * The broker of sudo (agent/broker.c): what somebody in the sandbox sends to
 * it, with descriptors or without. Nothing is forked here. A command is only
 * started with all four descriptors, and only signals that exist are sent.
 *
 * The first byte: whether it passes descriptors, and whether the command runs
 * already; the rest comes in pieces of the size of the second.
 */
#include <assert.h>

/* The agent's files are not in the library. */
#include "agent/broker.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { PID = 4711 };

static unsigned started;

/* ---- What the broker calls that is made up here. ---- */

int kill(pid_t pid, int sig)
{
	if (pid == -PID || pid == PID) {
		assert(sig >= 1 && sig <= 64);
		return 0;
	}
	return (int)syscall(SYS_kill, pid, sig); /* libFuzzer's own */
}

pid_t child_fork(const struct confine *c, struct err *e)
{
	(void)c;
	return err_set(e, EAGAIN, "no");
}

int child_join(const struct confine *c, struct err *e)
{
	(void)c;
	return err_set(e, EAGAIN, "no");
}

pid_t child_start(const struct plan *p, int *status_fd, struct err *e)
{
	int i;

	(void)status_fd;
	for (i = 0; i < 3; i++)
		assert(p->fds[i] >= 0);
	assert(*p->cwd || p->cwd_fd >= 0);
	assert(p->argv[0] && p->confine->sudo);
	started++;
	return err_set(e, ENOENT, "%.100s does not exist", p->argv[0]);
}

int child_status(int status_fd, struct err *e)
{
	(void)status_fd;
	return err_set(e, EIO, "no");
}

int user_find(const char *who, struct user *u, struct err *e)
{
	*u = (struct user){ .name = "root", .home = "/root", .shell = "/sh" };
	return *who == '!' ? err_set(e, EINVAL, "no such user") : 0;
}

int environment_make(struct environment *env, const struct spawn *s,
		     const struct user *u, bool tty, struct err *e)
{
	static char *none[] = { NULL };

	(void)u;
	(void)tty;
	env->v = none;
	return s->envc > 100 ? err_set(e, E2BIG, "too many") : 0;
}

/* ---- The shim. ---- */

static void give(int fd, const uint8_t *p, size_t n, bool with_fds)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	const int fds[SUDO_FDS] = { null_fd, null_fd, null_fd, null_fd };

	if (n > 0)
		(void)!send_msg_fds(fd, p, n, fds, with_fds ? SUDO_FDS : 0);
	close(null_fd);
}

/* Its first words are a hello, then frames that may say anything. */
static void request(struct broker *b, int fd, const uint8_t *p, size_t n,
		    size_t piece, bool with_fds)
{
	static const uint8_t nonce[16];
	size_t k;

	while (n > 0) {
		k = piece < n ? piece : n;
		give(fd, p, k, with_fds);
		with_fds = false;
		p += k;
		n -= k;
	}
	shutdown(fd, SHUT_WR);
	serve(b, nonce);
}

/* The answer is one that the shim can read. */
static void check_answer(int fd)
{
	struct buf in = { 0 };
	struct hello h;
	struct frame f;

	while (buf_read(&in, fd, 65536) > 0)
		;
	assert(hello_get(&in, &h) == 1);
	while (frame_get(&in, &f) == 1) {
		assert(f.type == FRAME_FAILED && f.channel == SUDO_CHANNEL);
		buf_eat(&in, FRAME_HEAD + f.len);
	}
	assert(buf_len(&in) == 0);
	buf_done(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct broker b = { .fds = { -1, -1, -1, -1, -1, -1, -1, -1 },
			    .confine = { .sudo = true },
			    .deadline_ms = clock_boot_ms() + REQUEST_MS };
	int ends[2], i;

	if (n < 2 || n > 128 * 1024)
		return 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) < 0)
		abort();
	b.conn = ends[0];
	started = 0;
	if (data[0] & 2) {
		give(ends[1], data + 2, n - 2, false);
		while (take_signals(&b, PID) == 0)
			;
	} else {
		b.confine.sudo = !(data[0] & 4);
		request(&b, ends[1], data + 2, n - 2, (size_t)data[1] * 8 + 1,
			data[0] & 1);
		assert(started == 0 || data[0] & 1);
		check_answer(ends[1]);
	}
	for (i = 0; i < FD_PASS_MAX; i++)
		auto_close(&b.fds[i]);
	close(ends[0]);
	close(ends[1]);
	buf_done(&b.in);
	buf_done(&b.request);
	return 0;
}
