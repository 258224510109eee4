/* What a door leaves for the log: strangers' texts, bounds, and silence while
 * nobody listens. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/entry.h"
#include "base/auto.h"
#include "check.h"
#include "gate/record.h"

/* Nobody is told. */
void gate_tell(struct gate *g, const struct gate_msg *m)
{
	(void)g;
	(void)m;
}

static const char *text(const char *s)
{
	static struct buf b;

	buf_clear(&b);
	record_string(&b, s);
	return buf_str(&b);
}

static void test_strings(void)
{
	CHECK_STR(text(""), "\"\"");
	CHECK_STR(text("plain /x?y"), "\"plain /x?y\"");
	CHECK_STR(text("a\"b\\c"), "\"a\\\"b\\\\c\"");
	CHECK_STR(text("a\nb\x01\x7f"), "\"a\\u000ab\\u0001\\u007f\"");
	CHECK_STR(text("\xc3\xa4\xf0\x9f\x98\x80"),
		  "\"\xc3\xa4\xf0\x9f\x98\x80\"");
	CHECK_STR(text("\xff\xc3"), "\"\\ufffd\\ufffd\"");
	CHECK_STR(text("\xed\xa0\x80"), "\"\\ufffd\\ufffd\\ufffd\"");
	CHECK_STR(text("\xc0\x80x"), "\"\\ufffd\\ufffdx\"");
}

/* Whatever it is made of, it is a string of an entry. */
static void test_entries(void)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct entry e;
	const char *why;
	unsigned i, k;
	int wrong = 0;

	srandom(7);
	for (i = 0; i < 2000; i++) {
		char s[32];

		for (k = 0; k < sizeof(s) - 1; k++)
			s[k] = (char)(random() % 255 + 1);
		s[k] = '\0';
		buf_clear(&b);
		buf_puts(&b, "{\"time\":\"2026-01-31T08:15:30.125Z\",\"type\":"
			     "\"egress.denied\",\"sandbox\":null,\"project\":"
			     "null,\"who\":null,\"request\":null,\"data\":{"
			     "\"x\":");
		record_string(&b, s);
		buf_puts(&b, "}}");
		wrong += entry_read_body(buf_data(&b), buf_len(&b), &e, &why) <
			 0;
	}
	CHECK(wrong == 0);
}

/* Without a scribe nothing may leave, and nothing is kept. */
static void test_alone(void)
{
	static struct conf conf = { .audit_spool_bytes = 1 << 20 };
	static struct gate g = { .conf = &conf };
	char path[] = "/tmp/gate_record.XXXXXX";
	int fd = mkstemp(path);
	struct project p = { .name = "p" };
	struct box box = { .gate = &g, .project = &p, .id = "ix" };
	struct request q = { .host = "api.test", .port = 443 };
	struct egress x = { .box = &box, .kind = "https", .request = &q };
	struct err e = { 0 };
	int i;

	unlink(path);
	CHECK(record_ready(&g, &e) == -ENOLINK);
	err_clear(&e);
	CHECK(loop_init(&g.loop) == 0);
	CHECK(recorder_new(&g.record, &g, fd, &e) == 0);
	CHECK(record_ready(&g, &e) == -ENOLINK);
	err_clear(&e);
	CHECK(record_request(&g, &x, &e) == -ENOLINK && x.number == 0);
	err_clear(&e);
	CHECK(record_event(&g, &box, "budget.over", "", &e) == -ENOLINK);
	for (i = 0; i < 1000; i++)
		record_denied(&g, &x, "no rule");
	CHECK(lseek(fd, 0, SEEK_END) == 32);
	recorder_free(g.record);
	loop_done(&g.loop);
}

int main(void)
{
	test_strings();
	test_entries();
	test_alone();
	return CHECK_DONE();
}
