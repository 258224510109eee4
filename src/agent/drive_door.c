/*
 * "drive.door": listens for the program `drive` and passes records on
 * (wire/drive.h), one client after the other. It understands of them only
 * where each one ends and which is the last. A client that does nothing for a
 * minute has to go: others are waiting.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "agent/builtin.h"
#include "base/auto.h"
#include "base/fd.h"
#include "wire/drive.h"

enum {
	BACKLOG = 32,
	REQUEST_MS = 10 * 1000,
	SILENCE_MS = 60 * 1000,
	READ_MAX = 64 * 1024,
};

struct door {
	int conn; /* -1: it left, and its last word is still to come */
	bool asked, answered;
	struct buf up, down;
};

/* 0, or the daemon is gone. */
static int to_api(const void *p, size_t n)
{
	return write_full(STDOUT_FILENO, p, n);
}

static int client_left(struct door *d)
{
	struct drive_record gone = { .kind = DRIVE_GONE };
	struct buf b = { 0 };
	int r = 0;

	auto_close(&d->conn);
	buf_done(&d->up);
	if (d->asked) {
		drive_record_put(&b, &gone);
		r = to_api(buf_data(&b), buf_len(&b));
	} else {
		d->answered = true;
	}
	buf_done(&b);
	return r;
}

/* What a client may say: one request, then bytes. */
static bool may_say(struct door *d, enum drive_kind k)
{
	if (!d->asked) {
		d->asked = true;
		return k == DRIVE_REQUEST;
	}
	return k == DRIVE_DATA || k == DRIVE_END;
}

static int from_client(struct door *d)
{
	ssize_t n = buf_read(&d->up, d->conn, READ_MAX);
	struct drive_record rec;
	int r = 0, len = 0;

	while (n > 0 && r == 0 && (len = drive_record_get(&d->up, &rec)) > 0) {
		bool first = !d->asked;

		if (!may_say(d, rec.kind)) {
			d->asked = !first;
			return client_left(d);
		}
		r = to_api(buf_data(&d->up), (size_t)len);
		buf_eat(&d->up, (size_t)len);
	}
	if (r == 0 && (n <= 0 || len < 0))
		r = client_left(d);
	return r;
}

static int from_api(struct door *d)
{
	ssize_t n = buf_read(&d->down, STDIN_FILENO, READ_MAX);
	struct drive_record rec;
	int r = n > 0 ? 0 : -EPIPE, len = 0;

	while (r == 0 && !d->answered &&
	       (len = drive_record_get(&d->down, &rec)) > 0) {
		d->answered = drive_is_last(rec.kind);
		if (d->conn >= 0 &&
		    write_full(d->conn, buf_data(&d->down), (size_t)len) < 0 &&
		    !d->answered)
			r = client_left(d);
		buf_eat(&d->down, (size_t)len);
	}
	return len < 0 ? -EBADMSG : r;
}

static int serve(int conn)
{
	const struct timeval limit = { .tv_sec = SILENCE_MS / 1000 };
	struct door d = { .conn = conn };
	int r = 0;

	/* Blocking, but not for ever. */
	setsockopt(conn, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	while (r == 0 && !d.answered) {
		struct pollfd p[2] = { { .fd = STDIN_FILENO, .events = POLLIN },
				       { .fd = d.conn, .events = POLLIN } };
		int n = poll(p, 2, d.asked ? SILENCE_MS : REQUEST_MS);

		if (n == 0 && d.conn >= 0)
			r = client_left(&d);
		if (n > 0 && p[0].revents)
			r = from_api(&d);
		if (n > 0 && r == 0 && d.conn >= 0 && p[1].revents)
			r = from_client(&d);
	}
	auto_close(&d.conn);
	buf_done(&d.up);
	buf_done(&d.down);
	return r;
}

static int listen_here(void)
{
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un a;
	socklen_t n = drive_address(&a);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, n) < 0 ||
	    listen(fd, BACKLOG) < 0)
		return -errno;
	return take_fd(&fd);
}

int builtin_drive(int argc, char **argv)
{
	int fd = listen_here(), r = 0;

	(void)argc;
	(void)argv;
	if (fd < 0)
		return 1;
	signal(SIGPIPE, SIG_IGN); /* of a client that left */
	while (r == 0) {
		struct pollfd p[2] = { { .fd = STDIN_FILENO, .events = POLLIN },
				       { .fd = fd, .events = POLLIN } };
		int conn;

		if (poll(p, 2, -1) < 0)
			continue;
		/* Nothing was asked: it can only be the end. */
		if (p[0].revents)
			break;
		conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (conn >= 0)
			r = serve(conn);
	}
	close(fd);
	return 1;
}
