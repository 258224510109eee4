#include "sandbox/vm/qmp.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/vm/patience.h"

enum { TEXT_MAX = 160, COMMAND_MAX = 512, EVENTS_MAX = 256, FDSET = 9 };

/* --- lines --- */

/*
 * QEMU writes the members of an object in a fixed order: the first word tells
 * what a line is, and behind which words the text is.
 */
static const struct {
	const char *start, *before;
	enum qmp_kind kind;
} shapes[] = {
	{ "{\"return\": ", "{\"return\": {\"status\": \"", QMP_RETURN },
	{ "{\"error\": ", "\"desc\": \"", QMP_ERROR },
	{ "{\"timestamp\": ", "\"event\": \"", QMP_EVENT },
	{ "{\"QMP\": ", "", QMP_GREETING },
};

/* Up to the next quote; what is not plain text becomes a question mark. */
static void copy_text(const char *from, size_t len, char *text, size_t cap)
{
	size_t i;

	for (i = 0; i < len && i + 1 < cap && from[i] != '"'; i++)
		text[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
	text[i] = '\0';
}

enum qmp_kind qmp_read(const char *line, size_t len, char *text, size_t cap)
{
	size_t i;

	text[0] = '\0';
	for (i = 0; i < ARRAY_LEN(shapes); i++) {
		const char *start = shapes[i].start, *at;

		if (len < strlen(start) ||
		    memcmp(line, start, strlen(start)) != 0)
			continue;
		at = *shapes[i].before ? memmem(line, len, shapes[i].before,
						strlen(shapes[i].before))
				       : NULL;
		if (at) {
			at += strlen(shapes[i].before);
			copy_text(at, len - (size_t)(at - line), text, cap);
		}
		return shapes[i].kind;
	}
	return QMP_NONSENSE;
}

static int wait_for(const struct qmp *q, struct err *e)
{
	for (;;) {
		uint64_t now = clock_boot_ms();
		struct pollfd p = { .fd = q->fd, .events = POLLIN };
		int n;

		if (now >= q->until)
			return err_set(e, ETIMEDOUT, "QEMU does not answer");
		n = poll(&p, 1, (int)(q->until - now));
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return err_sys(e, "wait for QEMU");
	}
}

/* The length of the next line, which is at the start of q->in. */
static ssize_t next_line(struct qmp *q, struct err *e)
{
	q->have -= q->line;
	memmove(q->in, q->in + q->line, q->have);
	q->line = 0;
	for (;;) {
		const char *end = memchr(q->in, '\n', q->have);
		ssize_t n;

		if (end) {
			q->line = (size_t)(end - q->in) + 1;
			return (ssize_t)q->line;
		}
		if (q->have == sizeof(q->in))
			return err_set(e, EPROTO, "QEMU says too much");
		if (wait_for(q, e) < 0)
			return -e->code;
		n = recv(q->fd, q->in + q->have, sizeof(q->in) - q->have,
			 MSG_DONTWAIT);
		if (n == 0)
			return err_set(e, EPIPE, "QEMU has ended");
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return err_sys(e, "hear QEMU");
		if (n > 0)
			q->have += (size_t)n;
	}
}

/* The next line that is no event. */
static int answer_line(struct qmp *q, enum qmp_kind want, char *text,
		       size_t cap, struct err *e)
{
	unsigned events;

	for (events = 0; events < EVENTS_MAX; events++) {
		ssize_t len = next_line(q, e);
		enum qmp_kind kind;

		if (len < 0)
			return (int)len;
		kind = qmp_read(q->in, (size_t)len, text, cap);
		if (kind == want)
			return 0;
		if (kind == QMP_ERROR)
			return err_set(e, EIO, "QEMU: %s", text);
		if (kind != QMP_EVENT)
			return err_set(e, EPROTO, "QEMU speaks nonsense");
	}
	return err_set(e, EPROTO, "QEMU does not stop talking");
}

/* --- commands --- */

static int send_all(const struct qmp *q, const char *text, size_t len, int fd,
		    struct err *e)
{
	ssize_t n = send_msg_fds(q->fd, text, len, &fd, fd >= 0 ? 1 : 0);

	/* A command is small: it goes whole, or nobody reads. */
	if (n == (ssize_t)len)
		return 0;
	return err_set(e, n < 0 ? (int)-n : EIO, "tell QEMU: %s",
		       strerror(n < 0 ? (int)-n : EIO));
}

static int run(struct qmp *q, const char *command, const char *arguments,
	       int fd, char text[TEXT_MAX], struct err *e)
{
	char line[COMMAND_MAX];
	int len = snprintf(line, sizeof(line),
			   arguments ? "{\"execute\":\"%s\",\"arguments\":%s}\n"
				     : "{\"execute\":\"%s\"}\n",
			   command, arguments ? arguments : "");

	if (len < 0 || (size_t)len >= sizeof(line))
		return err_set(e, E2BIG, "a command for QEMU is too long");
	q->until = clock_boot_ms() + q->limit_ms;
	if (send_all(q, line, (size_t)len, fd, e) < 0 ||
	    answer_line(q, QMP_RETURN, text, TEXT_MAX, e) < 0)
		return err_wrap(e, "%s", command);
	return 0;
}

int qmp_run_fd(struct qmp *q, const char *command, const char *arguments,
	       int fd, struct err *e)
{
	char text[TEXT_MAX];

	return run(q, command, arguments, fd, text, e);
}

int qmp_run(struct qmp *q, const char *command, const char *arguments,
	    struct err *e)
{
	return qmp_run_fd(q, command, arguments, -1, e);
}

int qmp_open(struct qmp *q, int fd, unsigned limit_ms, struct err *e)
{
	char text[TEXT_MAX];

	q->fd = fd;
	q->limit_ms = (unsigned)vm_patience(limit_ms);
	q->until = clock_boot_ms() + q->limit_ms;
	q->have = q->line = 0;
	if (answer_line(q, QMP_GREETING, text, sizeof(text), e) < 0)
		return err_wrap(e, "monitor");
	return qmp_run(q, "qmp_capabilities", NULL, e);
}

/* --- what they are for --- */

int qmp_save_devices(struct qmp *q, int file_fd, struct err *e)
{
	char set[64], save[96];

	snprintf(set, sizeof(set), "{\"fdset-id\":%d}", FDSET);
	snprintf(save, sizeof(save),
		 "{\"filename\":\"/dev/fdset/%d\",\"live\":false}", FDSET);
	if (qmp_run_fd(q, "add-fd", set, file_fd, e) < 0 ||
	    qmp_run(q, "xen-save-devices-state", save, e) < 0)
		return -e->code;
	return qmp_run(q, "remove-fd", set, e);
}

static int await_running(struct qmp *q, struct err *e)
{
	enum { STEP_US = 500 };
	const uint64_t until = clock_boot_ms() + q->limit_ms;
	char text[TEXT_MAX];

	while (clock_boot_ms() < until) {
		if (run(q, "query-status", NULL, -1, text, e) < 0)
			return -e->code;
		if (strcmp(text, "running") == 0)
			return 0;
		if (strcmp(text, "inmigrate") != 0 &&
		    strcmp(text, "paused") != 0)
			return err_set(e, EIO, "QEMU is %s", text);
		usleep(STEP_US);
	}
	return err_set(e, ETIMEDOUT, "QEMU does not run");
}

int qmp_load_devices(struct qmp *q, int file_fd, struct err *e)
{
	if (qmp_run_fd(q, "getfd", "{\"fdname\":\"devices\"}", file_fd, e) <
		    0 ||
	    qmp_run(q, "migrate-incoming", "{\"uri\":\"fd:devices\"}", e) < 0)
		return -e->code;
	return await_running(q, e);
}
