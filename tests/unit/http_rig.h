/*
 * A server in a child process for the tests of server and client: real loop,
 * real sockets in a directory of its own. How many requests had an owner, and
 * how many of those heard that the client is gone, is asked over HTTP (/stats),
 * so that a test sees what a user would. The child ends when the test closes
 * its pipe, and a sanitizer's verdict is its exit status.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "http/server.h"
#include "http/target.h"
#include "http/websocket.h"

enum {
	RIG_BODY_MAX = 1000,
	RIG_STREAM_PIECE = 30000,
	RIG_TAKE = 5000, /* a slow consumer takes that much at a time */
	RIG_SERVERS = 4  /* ordinary, short timeouts, two connections, TLS */
};

static char rig_dir[] = "/tmp/http_test.XXXXXX";
static struct rig {
	char sock[RIG_SERVERS][48];
	pid_t pid;
	int stop_fd;
} rig;

/* The child's side. */
static struct loop rig_loop;
static struct http_server rig_server[RIG_SERVERS];
static struct io rig_stop_io;
static struct tls_context *rig_tls; /* set before rig_start(), or none */
static unsigned rig_gone, rig_jobs;

struct rig_job {
	struct http_conn *c;
	struct timer timer;
	uint64_t total, sum, left;
	bool slow;
};

static void rig_on_gone(struct http_conn *c, void *owner)
{
	struct rig_job *j = owner;

	(void)c;
	rig_gone++;
	timer_del(&rig_loop, &j->timer);
	free(j);
}

static struct rig_job *rig_job(struct http_conn *c)
{
	struct rig_job *j = xcalloc(1, sizeof(*j));

	j->c = c;
	rig_jobs++;
	http_own(c, j, rig_on_gone);
	return j;
}

static void rig_hello(struct http_conn *c)
{
	http_reply(c, 200, NULL, "hi", 2);
}

static void rig_known(struct http_conn *c)
{
	http_trust(c, true);
	rig_hello(c);
}

static void rig_echo_body(struct http_conn *c, char *body, size_t n, void *o)
{
	(void)o;
	http_reply(c, 200, NULL, body, n);
}

static void rig_echo(struct http_conn *c)
{
	http_read_body(c, RIG_BODY_MAX, rig_echo_body);
}

static void rig_resume(struct timer *t)
{
	http_resume_body(container_of(t, struct rig_job, timer)->c);
}

static size_t rig_sum_data(struct http_conn *c, const char *p, size_t n,
			   void *o)
{
	struct rig_job *j = o;
	size_t i;

	(void)c;
	if (j->slow && n > RIG_TAKE) {
		n = RIG_TAKE;
		timer_set(&rig_loop, &j->timer, 1, rig_resume);
	}
	for (i = 0; i < n; i++)
		j->sum = j->sum * 31 + (unsigned char)p[i];
	j->total += n;
	return n;
}

static void rig_sum_end(struct http_conn *c, void *o)
{
	struct rig_job *j = o;
	char out[64];
	int n = snprintf(out, sizeof(out), "%llu %llu",
			 (unsigned long long)j->total,
			 (unsigned long long)j->sum);

	free(j);
	http_reply(c, 200, NULL, out, (size_t)n);
}

static void rig_sum(struct http_conn *c)
{
	rig_job(c)->slow = strcmp(http_request(c)->path, "/slow-sum") == 0;
	http_stream_body(c, rig_sum_data, rig_sum_end);
}

static size_t rig_early_data(struct http_conn *c, const char *p, size_t n,
			     void *o)
{
	(void)p;
	(void)n;
	free(o);
	http_error(c, 409, "busy", "no more, thanks");
	return 0;
}

static void rig_early(struct http_conn *c)
{
	rig_job(c);
	http_stream_body(c, rig_early_data, rig_sum_end);
}

static void rig_later_reply(struct timer *t)
{
	struct rig_job *j = container_of(t, struct rig_job, timer);

	http_reply(j->c, 200, NULL, "later", 5);
	free(j);
}

static void rig_later(struct http_conn *c)
{
	timer_set(&rig_loop, &rig_job(c)->timer, 50, rig_later_reply);
}

static void rig_never(struct http_conn *c)
{
	rig_job(c);
}

static void rig_stream_more(struct http_conn *c, void *o)
{
	static char piece[RIG_STREAM_PIECE];
	struct rig_job *j = o;

	memset(piece, 'z', sizeof(piece));
	while (j->left > 0) {
		size_t n = j->left < sizeof(piece) ? (size_t)j->left
						   : sizeof(piece);

		j->left -= n;
		if (!http_reply_data(c, piece, n) && j->left > 0)
			return;
	}
	free(j);
	http_reply_end(c);
}

static void rig_stream(struct http_conn *c)
{
	struct rig_job *j = rig_job(c);
	char n[24];

	if (http_query(http_request(c), "n", n, sizeof(n)) == 1)
		j->left = strtoull(n, NULL, 10);
	http_reply_start(c, 200, NULL, rig_stream_more);
	rig_stream_more(c, j);
}

/* n bytes of an answer that was said to have `size`. */
static void rig_sized(struct http_conn *c)
{
	struct rig_job *j = rig_job(c);
	char n[24] = "0", size[24] = "0";

	if (http_query(http_request(c), "n", n, sizeof(n)) == 1 &&
	    http_query(http_request(c), "size", size, sizeof(size)) == 1)
		j->left = strtoull(n, NULL, 10);
	http_reply_start_sized(c, 200, NULL, strtoull(size, NULL, 10),
			       rig_stream_more);
	rig_stream_more(c, j);
}

/* Answers 101, what came behind the request, and the end. */
static void rig_upgrade(struct http_conn *c, bool one_write)
{
	static const struct http_field extra[] = { { "Sandbox-Id", "i\r\nx" },
						   { NULL, NULL } };
	AUTO(buf_done) struct buf in = { 0 }, out = { 0 };
	struct http_stream s;

	if (!http_wants_upgrade(http_request(c), "test/1")) {
		http_error(c, 426, "upgrade_required", "upgrade to test/1");
		return;
	}
	if (http_upgrade(c, "test/1", extra, &s, &in, one_write ? &out : NULL) <
	    0)
		return;
	buf_puts(&out, "[");
	buf_add(&out, buf_data(&in), buf_len(&in));
	buf_puts(&out, "]");
	/* The client may have left meanwhile: no SIGPIPE. */
	if (http_stream_drain(&s, &out) < 0)
		printf("# upgraded client left\n");
	http_stream_close(&s);
}

static void rig_up(struct http_conn *c)
{
	rig_upgrade(c, true);
}

static void rig_up_body_done(struct http_conn *c, char *body, size_t n, void *o)
{
	(void)o;
	if (n != 4 || strcmp(body, "spec") != 0)
		http_error(c, 400, "bad_spec", "not the spec");
	else
		rig_upgrade(c, false);
}

static void rig_up_body(struct http_conn *c)
{
	http_read_body(c, RIG_BODY_MAX, rig_up_body_done);
}

struct rig_ws {
	struct websocket ws;
	struct timer timer;
	struct deferred gone;
	unsigned left; /* messages of "flood" not sent yet */
};
static unsigned rig_closed; /* the code of the last one */

static void rig_ws_free(struct deferred *d)
{
	free(container_of(d, struct rig_ws, gone));
}

static void rig_ws_resume(struct timer *t)
{
	websocket_resume(&container_of(t, struct rig_ws, timer)->ws);
}

static void rig_ws_flood(struct websocket *ws)
{
	static char piece[RIG_STREAM_PIECE];
	struct rig_ws *w = container_of(ws, struct rig_ws, ws);

	while (w->left > 0) {
		w->left--;
		if (!websocket_send(ws, false, piece, sizeof(piece)))
			return;
	}
}

/* An echo, but for a few words. */
static void rig_ws_message(struct websocket *ws, bool text, char *p, size_t n)
{
	struct rig_ws *w = container_of(ws, struct rig_ws, ws);

	if (text && strcmp(p, "close") == 0) {
		websocket_close(ws, 4000, "as you like");
	} else if (text && strcmp(p, "abort") == 0) {
		websocket_abort(ws);
		loop_defer(&rig_loop, &w->gone, rig_ws_free);
	} else if (text && strcmp(p, "pause") == 0) {
		websocket_pause(ws);
		timer_set(&rig_loop, &w->timer, 100, rig_ws_resume);
	} else if (text && strcmp(p, "flood") == 0) {
		w->left = 1000;
		rig_ws_flood(ws);
	} else {
		websocket_send(ws, text, p, n);
	}
}

static void rig_ws_closed(struct websocket *ws, unsigned code)
{
	struct rig_ws *w = container_of(ws, struct rig_ws, ws);

	rig_closed = code;
	timer_del(&rig_loop, &w->timer);
	loop_defer(&rig_loop, &w->gone, rig_ws_free);
}

static void rig_ws(struct http_conn *c)
{
	static const struct websocket_ops ops = { rig_ws_message, rig_ws_flood,
						  rig_ws_closed };
	struct rig_ws *w;

	if (!websocket_wanted(c))
		return;
	w = xcalloc(1, sizeof(*w));
	w->ws.max = RIG_BODY_MAX;
	if (websocket_start(&w->ws, c, "echo", &ops) < 0)
		free(w);
}

static void rig_ws_code(struct http_conn *c)
{
	char out[16];

	http_reply(c, 200, NULL, out,
		   (size_t)snprintf(out, sizeof(out), "%u", rig_closed));
	rig_closed = 0;
}

static void rig_fail(struct http_conn *c)
{
	http_error(c, 404, "not_found", "%s", "a\"b\\c\n\001\303\244\377\303");
}

static void rig_peer(struct http_conn *c)
{
	struct ucred peer;
	char out[32];

	if (http_peer(c, &peer) < 0)
		abort();
	http_reply(c, 200, NULL, out,
		   (size_t)snprintf(out, sizeof(out), "%d %u", peer.pid,
				    peer.uid));
}

static void rig_stats(struct http_conn *c)
{
	char out[64];

	http_reply(c, 200, NULL, out,
		   (size_t)snprintf(out, sizeof(out), "%u %u", rig_gone,
				    rig_jobs));
}

static void rig_empty(struct http_conn *c)
{
	http_reply(c, 204, NULL, NULL, 0);
}

static const struct {
	const char *path;
	void (*fn)(struct http_conn *c);
} rig_routes[] = {
	{ "/hello", rig_hello },   { "/echo", rig_echo },
	{ "/known", rig_known },   { "/sum", rig_sum },
	{ "/slow-sum", rig_sum },  { "/early", rig_early },
	{ "/later", rig_later },   { "/never", rig_never },
	{ "/stream", rig_stream }, { "/sized", rig_sized },
	{ "/up", rig_up },         { "/up-body", rig_up_body },
	{ "/fail", rig_fail },     { "/peer", rig_peer },
	{ "/stats", rig_stats },   { "/empty", rig_empty },
	{ "/ws", rig_ws },         { "/ws-code", rig_ws_code },
};

static void rig_on_request(struct http_conn *c, void *ctx)
{
	size_t i;

	if (ctx != &rig)
		abort();
	for (i = 0; i < ARRAY_LEN(rig_routes); i++) {
		if (strcmp(http_request(c)->path, rig_routes[i].path) == 0) {
			rig_routes[i].fn(c);
			return;
		}
	}
	http_error(c, 404, "not_found", "no %s here", http_request(c)->path);
}

static void rig_on_stop(struct io *io, uint32_t events)
{
	(void)io;
	(void)events;
	rig_loop.stop = true;
}

static void rig_child(const int *listen_fd, int stop_fd)
{
	struct err e = { 0 };
	int i;

	if (loop_init(&rig_loop) < 0 ||
	    io_add(&rig_loop, &rig_stop_io, stop_fd, EPOLLIN, rig_on_stop) < 0)
		abort();
	rig_server[1] = (struct http_server){ .head_ms = 100,
					      .idle_ms = 200,
					      .body_ms = 100,
					      .rate_ms = 300,
					      .write_ms = 100 };
	rig_server[2].max_conns = 2;
	rig_server[3].tls = rig_tls;
	for (i = 0; i < RIG_SERVERS; i++) {
		rig_server[i].on_request = rig_on_request;
		rig_server[i].ctx = &rig;
		if (http_server_start(&rig_server[i], &rig_loop, listen_fd[i],
				      &e) < 0)
			abort();
	}
	if (loop_run(&rig_loop) < 0)
		abort();
	for (i = 0; i < RIG_SERVERS; i++)
		http_server_done(&rig_server[i]);
	io_close(&rig_loop, &rig_stop_io);
	loop_done(&rig_loop);
	exit(0);
}

static void rig_start(void)
{
	int listen_fd[RIG_SERVERS], pipe_fd[2], i;

	if (!mkdtemp(rig_dir) || pipe2(pipe_fd, O_CLOEXEC) < 0)
		abort();
	for (i = 0; i < RIG_SERVERS; i++) {
		snprintf(rig.sock[i], sizeof(rig.sock[i]), "%s/%d", rig_dir, i);
		listen_fd[i] = unix_listen_at(AT_FDCWD, rig.sock[i],
					      SOCK_STREAM, 0600);
		if (listen_fd[i] < 0)
			abort();
	}
	fflush(stdout);
	rig.pid = fork();
	if (rig.pid == 0) {
		close(pipe_fd[1]);
		rig_child(listen_fd, pipe_fd[0]);
	}
	rig.stop_fd = pipe_fd[1];
	close(pipe_fd[0]);
	for (i = 0; i < RIG_SERVERS; i++)
		close(listen_fd[i]);
}

/* The exit status of the server: 0, or what a sanitizer made of it. */
static int rig_stop(void)
{
	int i, status = -1;

	close(rig.stop_fd);
	waitpid(rig.pid, &status, 0);
	for (i = 0; i < RIG_SERVERS; i++)
		unlink(rig.sock[i]);
	rmdir(rig_dir);
	return status;
}
