/* A writer of the log and a scribe that does what it likes: goes, hangs, knows
 * other numbers. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "audit/spool.h"
#include "audit/writer.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "check.h"

#define BODY "{\"time\":\"2026-01-31T08:15:30.125Z\"}"

static char dir[] = "/tmp/writer_test.XXXXXX";
static struct loop loop;
static int listen_fd, conn = -1;

static void on_stop(struct timer *t)
{
	(void)t;
	loop.stop = true;
}

static void run(unsigned ms)
{
	struct timer stop = { 0 };

	timer_set(&loop, &stop, ms, on_stop);
	loop.stop = false;
	if (loop_run(&loop) < 0)
		abort();
}

/* What it said last: the operation, or 0 for nothing. */
static struct scribe_hello said;
static uint64_t hello_start; /* of the last hello */

static int hear(void)
{
	int fds[FD_PASS_MAX], i, op = 0;

	for (;;) {
		ssize_t n = recv_msg_fds(conn, &said, sizeof(said), fds);

		if (n <= 0)
			return op;
		for (i = 0; i < FD_PASS_MAX; i++)
			auto_close(&fds[i]);
		op = said.msg.op;
		if (op == SCRIBE_HELLO)
			hello_start = said.msg.end;
	}
}

static void take(void)
{
	auto_close(&conn);
	conn = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	CHECK(conn >= 0);
	CHECK(hear() == SCRIBE_HELLO);
}

static void ack(uint64_t written, uint64_t synced)
{
	const struct scribe_msg m = { .version = SCRIBE_VERSION,
				      .op = SCRIBE_ACK,
				      .written = written,
				      .synced = synced,
				      .seq = written + 1 };

	if (send_msg_fds(conn, &m, sizeof(m), NULL, 0) != sizeof(m))
		abort();
	run(1);
}

static void start(struct log_writer *w, uint64_t size_max, bool adopt)
{
	char path[64];
	struct err e = { 0 };

	snprintf(path, sizeof(path), "%s/spool", dir);
	*w = (struct log_writer){
		.loop = &loop,
		.name = "gate.x",
		.adopt = adopt,
		.poke_ms = 1,
		.spool = { .fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600),
			   .read_fd = -1,
			   .name = "spool",
			   .size_max = size_max },
	};
	snprintf(w->socket, sizeof(w->socket), "%s/scribe.sock", dir);
	if (writer_open(w, 0, &e) < 0)
		abort();
	writer_connect(w);
	take();
}

static void test_heard(void)
{
	struct log_writer w;

	start(&w, 1 << 20, false);
	CHECK_STR(said.name, "gate.x");
	CHECK(!writer_is_heard(&w));
	ack(0, 0);
	CHECK(w.up && writer_is_heard(&w));
	CHECK(hear() == SCRIBE_POKE);
	CHECK(writer_add(&w, BODY, strlen(BODY)) == 1);
	writer_poke(&w, false);
	run(10);
	CHECK(hear() == SCRIBE_POKE && said.msg.end == w.spool.end);
	CHECK(writer_is_heard(&w));
	/* It takes nothing, for long. */
	w.late_ms -= 6000;
	CHECK(!writer_is_heard(&w));
	ack(1, 0);
	CHECK(writer_is_heard(&w) && w.late == 0);
	/* It is gone, and comes back. */
	auto_close(&conn);
	run(1);
	CHECK(!w.up && !writer_is_heard(&w));
	CHECK(writer_add(&w, BODY, strlen(BODY)) == 2);
	writer_poke(&w, false);
	run(30);
	take();
	ack(1, 1);
	CHECK(writer_is_heard(&w));
	writer_stop(&w);
}

static unsigned told;
static int told_code;

static void on_disk(struct audit_wait *w, const struct err *e)
{
	(void)w;
	told++;
	told_code = e->code;
}

static void test_waits(void)
{
	struct log_writer w;
	struct audit_wait a = { .fn = on_disk }, b = { .fn = on_disk };

	start(&w, 1 << 20, false);
	ack(0, 0);
	a.number = (uint64_t)writer_add(&w, BODY, strlen(BODY));
	writer_wait(&w, &a);
	run(1);
	CHECK(hear() == SCRIBE_POKE && (said.msg.flags & SCRIBE_SYNC));
	ack(1, 0);
	CHECK(told == 0);
	ack(1, 1);
	CHECK(told == 1 && told_code == 0 && !a.busy);
	/* One that is nowhere, and one that nobody waits for any more. */
	writer_wait(&w, &b);
	run(1);
	CHECK(told == 2 && told_code == LOG_AWAY);
	b.number = 7;
	writer_wait(&w, &b);
	audit_cancel(&b);
	ack(1, 1);
	CHECK(told == 2);
	writer_stop(&w);
}

/* What is on disk makes room, and the scribe is told where the rest is. */
static void test_room(void)
{
	struct log_writer w;
	uint64_t n = 0, at, bytes;

	start(&w, 2000, false);
	ack(0, 0);
	while (spool_file_bytes(&w.spool) <= 1000)
		n = (uint64_t)writer_add(&w, BODY, strlen(BODY));
	ack(n, 0);
	CHECK(w.spool.mark == n + 1);
	at = w.spool.end;
	CHECK(writer_add(&w, BODY, strlen(BODY)) == (int64_t)n + 1);
	hear();
	bytes = spool_file_bytes(&w.spool);
	ack(n, n);
	CHECK(w.spool.start == at && spool_file_bytes(&w.spool) < bytes);
	CHECK(hear() != 0 && hello_start == at);
	ack(n + 1, n + 1);
	CHECK(w.spool.end == SPOOL_HEAD);
	CHECK(hear() != 0 && hello_start == SPOOL_HEAD);
	writer_stop(&w);
}

/* The log has more than the spool knows of. */
static void test_adopt(void)
{
	struct log_writer w;

	start(&w, 1 << 20, true);
	ack(41, 41);
	CHECK(w.spool.next == 42 && writer_is_heard(&w));
	CHECK(writer_add(&w, BODY, strlen(BODY)) == 42);
	writer_stop(&w);
}

int main(void)
{
	AUTO_CLOSE int dir_fd = -1;
	char cmd[64];

	if (geteuid() != 0) {
		printf("1..0 # SKIP needs root\n");
		return 77;
	}
	log_init("test", LOG_ERR);
	if (!mkdtemp(dir) || loop_init(&loop) < 0)
		abort();
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY);
	listen_fd = unix_listen_at(dir_fd, "scribe.sock",
				   SOCK_SEQPACKET | SOCK_NONBLOCK, 0600);
	CHECK(listen_fd >= 0);
	test_heard();
	test_waits();
	test_room();
	test_adopt();
	auto_close(&conn);
	close(listen_fd);
	loop_done(&loop);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	if (system(cmd) != 0)
		return 1;
	return CHECK_DONE();
}
