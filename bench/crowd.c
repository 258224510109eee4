/*
 * Creates many sandboxes through the daemon's socket, several at a time, each
 * on a connection of its own.
 *
 *	crowd SOCKET COUNT AT_ONCE BODY
 *
 * Prints the microseconds of each create, in the order of the requests, from
 * before its connect to the end of its answer; then `total` and those of all.
 * Anything but a 201 ends it with failure.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"

enum { COUNT_MAX = 100000, AT_ONCE_MAX = 1000 };

struct create {
	int n; /* which */
	double began_us;
	struct buf in;
};

static struct pollfd waits[AT_ONCE_MAX];
static struct create creates[AT_ONCE_MAX]; /* of waits[] */
static double took_us[COUNT_MAX];

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void ask(int at, int n, const char *path, const char *body)
{
	struct buf b = { 0 };
	struct create *c = &creates[at];
	int fd;

	*c = (struct create){ .n = n, .began_us = now_us() };
	fd = unix_connect(path, SOCK_STREAM);
	if (fd < 0)
		die("create %d: connect %s: %s", n, path, strerror(-fd));
	buf_printf(&b,
		   "POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n"
		   "Content-Type: application/json\r\n"
		   "Content-Length: %zu\r\n\r\n%s",
		   strlen(body), body);
	if (write_full(fd, buf_data(&b), buf_len(&b)) < 0)
		die("create %d: send: %s", n, strerror(errno));
	buf_done(&b);
	waits[at] = (struct pollfd){ .fd = fd, .events = POLLIN };
}

/* Whether the answer is whole; one that is not a 201 is the end. */
static int answered(struct create *c)
{
	static const char field[] = "\r\nContent-Length:";
	char *text = buf_str(&c->in), *end = strstr(text, "\r\n\r\n");
	char *len = strcasestr(text, field);
	size_t need;

	if (!end)
		return 0;
	if (!len || len > end)
		die("create %d: answer without a length: %s", c->n, text);
	need = (size_t)(end + 4 - text) +
	       strtoul(len + sizeof(field) - 1, NULL, 10);
	if (buf_len(&c->in) < need)
		return 0;
	if (strncmp(text, "HTTP/1.1 201 ", 13) != 0)
		die("create %d: %s", c->n, text);
	return 1;
}

/* Reads what is there; whether this one is done. */
static int go_on(int at)
{
	struct create *c = &creates[at];

	if (waits[at].revents == 0)
		return 0;
	if (buf_read(&c->in, waits[at].fd, 65536) <= 0)
		die("create %d: the connection ended: %s", c->n,
		    buf_str(&c->in));
	if (!answered(c))
		return 0;
	took_us[c->n] = now_us() - c->began_us;
	buf_done(&c->in);
	close(waits[at].fd);
	waits[at] = (struct pollfd){ .fd = -1 };
	return 1;
}

static void create_all(const char *path, int count, int at_once,
		       const char *body)
{
	int i, asked = 0, done = 0;

	for (i = 0; i < at_once; i++)
		waits[i].fd = -1;
	while (done < count) {
		for (i = 0; i < at_once && asked < count; i++)
			if (waits[i].fd < 0)
				ask(i, asked++, path, body);
		if (poll(waits, (nfds_t)at_once, 60000) <= 0)
			die("no answer for a minute");
		for (i = 0; i < at_once; i++)
			done += go_on(i);
	}
}

int main(int argc, char **argv)
{
	int count, at_once, i;
	double began;

	log_init("crowd", LOG_INFO);
	if (argc != 5)
		die("usage: crowd SOCKET COUNT AT_ONCE BODY");
	count = (int)strtol(argv[2], NULL, 10);
	at_once = (int)strtol(argv[3], NULL, 10);
	if (count < 1 || count > COUNT_MAX || at_once < 1 ||
	    at_once > AT_ONCE_MAX)
		die("COUNT is 1 to %d, AT_ONCE 1 to %d", COUNT_MAX,
		    AT_ONCE_MAX);
	began = now_us();
	create_all(argv[1], count, at_once, argv[4]);
	began = now_us() - began;
	for (i = 0; i < count; i++)
		printf("%.0f\n", took_us[i]);
	printf("total %.0f\n", began);
	return 0;
}
