/* The talk with QEMU: good answers, bad ones, and those that never come. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "check.h"
#include "sandbox/vm/qmp.h"

#define HELLO "{\"QMP\": {\"version\": {}, \"capabilities\": []}}\r\n"
#define DONE "{\"return\": {}}\r\n"
#define EVENT(name)                                           \
	"{\"timestamp\": {\"seconds\": 1, \"microseconds\": " \
	"2}, \"event\": \"" name "\"}\r\n"
#define STATUS(s) "{\"return\": {\"status\": \"" s "\", \"running\": true}}\r\n"

enum { LIMIT_MS = 1000 };

static struct err e;
static struct qmp q;

/* Opens a talk with somebody who says `text`, whatever he hears; the other end
 * of the line, which is closed if `ends`. */
static int opened(const char *text, bool ends, int pair[2])
{
	err_clear(&e);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ||
	    write(pair[1], text, strlen(text)) != (ssize_t)strlen(text))
		return -errno;
	if (ends)
		shutdown(pair[1], SHUT_WR);
	return qmp_open(&q, pair[0], LIMIT_MS, &e);
}

static void hang_up(int pair[2])
{
	auto_close(&pair[0]);
	auto_close(&pair[1]);
}

static void test_lines(void)
{
	static const struct {
		const char *line, *text;
		enum qmp_kind kind;
	} rows[] = {
		{ "{\"return\": {}}", "", QMP_RETURN },
		{ STATUS("inmigrate"), "inmigrate", QMP_RETURN },
		{ "{\"error\": {\"class\": \"X\", \"desc\": \"no \\\"x\\\"\"}}",
		  "no \\", QMP_ERROR },
		{ "{\"error\": {}}", "", QMP_ERROR },
		{ EVENT("STOP"), "STOP", QMP_EVENT },
		{ HELLO, "", QMP_GREETING },
		{ "{\"error\": {\"desc\": \"a\tb\x80\"}}", "a?b?", QMP_ERROR },
		{ "{\"error\": {\"desc\": \"without an end", "without an end",
		  QMP_ERROR },
		{ "{\"error\": {\"desc\": \"longer than there is room for it\"",
		  "longer than there is ro", QMP_ERROR },
		{ "", "", QMP_NONSENSE },
		{ "{", "", QMP_NONSENSE },
		{ " {\"return\": {}}", "", QMP_NONSENSE },
		{ "{\"id\": 1, \"return\": {}}", "", QMP_NONSENSE },
	};
	char text[QMP_STATUS_CAP];
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		CHECK(qmp_read(rows[i].line, strlen(rows[i].line), text,
			       sizeof(text)) == rows[i].kind);
		CHECK_STR(text, rows[i].text);
	}
}

static void test_commands(void)
{
	int pair[2];
	char heard[256] = "";

	CHECK(opened(HELLO DONE EVENT("STOP") DONE
		     "{\"error\": {\"class\": \"G\", \"desc\": \"no such\"}}\n",
		     false, pair) == 0);
	CHECK(qmp_run(&q, "stop", NULL, &e) == 0);
	CHECK(qmp_run(&q, "cont", "{\"a\":1}", &e) == -EIO);
	CHECK_STR(e.msg, "cont: QEMU: no such");
	CHECK(read(pair[1], heard, sizeof(heard) - 1) > 0);
	CHECK_STR(heard,
		  "{\"execute\":\"qmp_capabilities\"}\n{\"execute\":\"stop\"}\n"
		  "{\"execute\":\"cont\",\"arguments\":{\"a\":1}}\n");
	hang_up(pair);
}

static void test_devices(void)
{
	int pair[2];

	CHECK(opened(HELLO DONE DONE DONE DONE, false, pair) == 0);
	CHECK(qmp_save_devices(&q, 0, &e) == 0);
	hang_up(pair);
	CHECK(opened(HELLO DONE DONE DONE STATUS("inmigrate") EVENT("RESUME")
			     STATUS("running"),
		     false, pair) == 0);
	CHECK(qmp_load_devices(&q, 0, &e) == 0);
	hang_up(pair);
	CHECK(opened(HELLO DONE DONE DONE STATUS("internal-error"), false,
		     pair) == 0);
	CHECK(qmp_load_devices(&q, 0, &e) == -EIO);
	hang_up(pair);
}

static void test_bad_ones(void)
{
	static char flood[QMP_LINE_MAX + 16];
	int pair[2];

	CHECK(opened("", false, pair) == -ETIMEDOUT);
	hang_up(pair);
	CHECK(opened(HELLO, true, pair) == -EPIPE);
	hang_up(pair);
	CHECK(opened("what?\n", false, pair) == -EPROTO);
	hang_up(pair);
	CHECK(opened(DONE, false, pair) == -EPROTO);
	hang_up(pair);
	memset(flood, 'x', sizeof(flood) - 1);
	CHECK(opened(flood, false, pair) == -EPROTO);
	hang_up(pair);
	CHECK(opened(HELLO DONE, false, pair) == 0);
	memset(flood, 'x', sizeof(flood) - 1);
	CHECK(qmp_run(&q, flood, NULL, &e) == -E2BIG);
	hang_up(pair);
}

static void test_events_without_end(void)
{
	char *at = (char[64 * 1024]){ 0 };
	const char *text = at;
	int pair[2], i;

	at = stpcpy(at, HELLO DONE);
	for (i = 0; i < 400; i++)
		at = stpcpy(at, EVENT("X"));
	CHECK(opened(text, false, pair) == 0);
	CHECK(qmp_run(&q, "stop", NULL, &e) == -EPROTO);
	hang_up(pair);
}

int main(void)
{
	test_lines();
	test_commands();
	test_devices();
	test_bad_ones();
	test_events_without_end();
	return CHECK_DONE();
}
