/*
 * The spool's records and the log's lines, byte by byte: what is whole is
 * read, what was changed anywhere is not, and a body cannot be more than one
 * entry.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/entry.h"
#include "audit/segment.h"
#include "audit/spool.h"
#include "audit/spool_file.h"
#include "base/auto.h"
#include "check.h"

#define HEAD                                              \
	"\"time\":\"2026-01-31T08:15:30.125Z\",\"type\":" \
	"\"sandbox.create\",\"sandbox\":\"iabc\",\"project\":\"default\","
#define BODY "{" HEAD "\"who\":\"uid:0\",\"request\":null,\"data\":{\"a\":1}}"
#define ZEROS                              \
	"00000000000000000000000000000000" \
	"00000000000000000000000000000000"

static void test_spool(void)
{
	struct buf b = { 0 };
	struct spool_record r;
	unsigned char head[SPOOL_HEAD];
	struct spool_head h = { .first = 7, .start = SPOOL_HEAD }, got = { 0 };
	size_t i, n, k, wrong = 0;

	for (k = 0; k < 2; k++, h.start = 1ULL << 33) {
		spool_head_put(head, &h);
		CHECK(spool_head_get(head, sizeof(head), &got) == 0);
		CHECK(got.first == 7 && got.start == h.start);
		CHECK(spool_head_get(head, sizeof(head) - 1, &got) == -EBADMSG);
		for (i = 0; i < sizeof(head); i++) {
			head[i] ^= 1;
			wrong += spool_head_get(head, sizeof(head), &got) == 0;
			head[i] ^= 1;
		}
	}
	CHECK(wrong == 0);

	spool_put(&b, 5, "hello", 5);
	spool_put(&b, 6, "x", 1);
	CHECK(spool_get(buf_data(&b), buf_len(&b), &r) == 1);
	CHECK(r.number == 5 && r.n == 5 && memcmp(r.body, "hello", 5) == 0);
	n = r.size;
	CHECK(spool_get(buf_data(&b) + n, buf_len(&b) - n, &r) == 1);
	CHECK(r.number == 6 && r.n == 1);
	for (i = 0, wrong = 0; i < n; i++)
		wrong += spool_get(buf_data(&b), i, &r) != 0;
	CHECK(wrong == 0); /* half a record is not a bad one */
	for (i = 0, wrong = 0; i < 8 * n; i++) {
		buf_data(&b)[i / 8] ^= (char)(1 << i % 8);
		wrong += spool_get(buf_data(&b), n, &r) == 1;
		buf_data(&b)[i / 8] ^= (char)(1 << i % 8);
	}
	CHECK(wrong == 0);
	buf_done(&b);
}

static bool body_ok(const char *s)
{
	const char *why = NULL;
	struct entry e;
	int r = entry_read_body(s, strlen(s), &e, &why);

	if (r < 0 && !why)
		abort();
	return r == 0;
}

static bool data_ok(const char *data)
{
	char body[2048];

	snprintf(body, sizeof(body),
		 "{" HEAD "\"who\":null,\"request\":null,\"data\":%s}", data);
	return body_ok(body);
}

static void test_bodies(void)
{
	static const char *const good[] = {
		"{}",
		"{\"a\":[]}",
		"{\"a\":[1,-2,0.5,1e9,1E-3,true,false,null,\"x\",{},[[]]]}",
		"{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00fF\"}",
		"{\"a\":{\"b\":{\"c\":1}},\"d\":2}",
		"{\"\":\"\xc3\xa4\xe2\x82\xac\"}",
	};
	static const char *const bad[] = {
		"",
		"1",
		"[]",
		"null",
		"{",
		"{}}",
		"{\"a\"}",
		"{\"a\":}",
		"{\"a\":1,}",
		"{\"a\":1 }",
		"{ }",
		"{\"a\":01}",
		"{\"a\":1.}",
		"{\"a\":+1}",
		"{\"a\":tru}",
		"{\"a\":\"\n\"}",
		"{\"a\":\"\\x\"}",
		"{\"a\":\"\\u12g4\"}",
		"{\"a\":\"\xff\"}",
		"{\"a\":\"\xed\xa0\x80\"}",
		"{\"a\":[1,2}",
		"{\"a\":[}",
		"{a:1}",
		"{\"a\":[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]}",
		"{},\"spool\":1",
		"{}\n",
		"{}}\n{\"seq\":1",
	};
	static const char *const bodies[] = {
		"",
		"{}",
		BODY " ",
		BODY BODY,
		"[" BODY "]",
		" " BODY,
		"{" HEAD "\"request\":null,\"who\":null,\"data\":{}}",
		"{" HEAD "\"who\":null,\"request\":null,\"data\":{},\"x\":1}",
		"{" HEAD "\"who\":\"a b\",\"request\":null,\"data\":{}}",
		"{" HEAD "\"who\":\"a\\\\b\",\"request\":null,\"data\":{}}",
		"{" HEAD "\"who\":\"\",\"request\":null,\"data\":{}}",
		"{\"seq\":1," HEAD "\"who\":null,\"request\":null,\"data\":{}}",
	};
	char own[] = BODY;
	size_t i;

	CHECK(body_ok(BODY));
	for (i = 0; i < ARRAY_LEN(good); i++)
		CHECK(data_ok(good[i]));
	for (i = 0; i < ARRAY_LEN(bad); i++)
		CHECK(!data_ok(bad[i]));
	for (i = 0; i < ARRAY_LEN(bodies); i++)
		CHECK(!body_ok(bodies[i]));
	memcpy(strstr(own, "sandbox.create"), "log.headcreate", 14);
	CHECK(!body_ok(own)); /* in the scribe's name */
	memcpy(strstr(own, "log.headcreate"), "logo.headcreat", 14);
	CHECK(body_ok(own));
	memcpy(strstr(own, "logo.headcreat"), "logoheadcreate", 14);
	CHECK(!body_ok(own));
	memcpy(strstr(own, "2026"), "20x6", 4);
	CHECK(!body_ok(own));
}

static void test_size(void)
{
	static char body[ENTRY_BODY_MAX + 64];
	struct entry e;
	const char *why;
	size_t n, i;

	n = (size_t)snprintf(body, sizeof(body),
			     "{" HEAD "\"who\":null,\"request\":null,"
			     "\"data\":{\"a\":\"");
	for (i = n; i < sizeof(body); i++)
		body[i] = 'x';
	memcpy(body + ENTRY_BODY_MAX - 3, "\"}}", 3);
	CHECK(entry_read_body(body, ENTRY_BODY_MAX, &e, &why) == 0);
	memcpy(body + ENTRY_BODY_MAX - 3, "xx\"}}", 5);
	CHECK(entry_read_body(body, ENTRY_BODY_MAX + 2, &e, &why) == -EINVAL);
}

static void test_lines(bool with)
{
	AUTO(buf_done) struct buf b = { 0 };
	const char *why;
	struct entry e;
	size_t n, i, wrong = 0;

	entry_begin(&b, 12,
		    &(struct entry_from){ BODY, strlen(BODY),
					  with ? "gate.x" : NULL, 9 },
		    ZEROS);
	n = buf_len(&b);
	buf_puts(&b, ",\"hash\":\"" ZEROS "\"}");
	CHECK(entry_parse(buf_data(&b), buf_len(&b), &e, &why) == 0);
	CHECK(e.seq == 12 && e.spool == 9 && e.signed_n == n);
	CHECK(with ? span_is(e.source, "gate.x") : !e.source.p);
	CHECK(e.hashed_n == n && !e.signature.p && e.hash.n == HASH_HEX);
	CHECK(span_is(e.type, "sandbox.create") && span_is(e.who, "uid:0"));
	CHECK(span_is(e.sandbox, "iabc") && span_is(e.project, "default"));
	CHECK(span_is(e.data, "{\"a\":1}") && !e.request.p);
	CHECK(span_starts(e.type, "sandbox.") && !span_is(e.type, "sandbox."));
	for (i = 0; i < buf_len(&b); i++)
		wrong += entry_parse(buf_data(&b), i, &e, &why) == 0;
	CHECK(wrong == 0);
	buf_puts(&b, " ");
	CHECK(entry_parse(buf_data(&b), buf_len(&b), &e, &why) == -EINVAL);
}

static char dir[] = "/tmp/audit_test.XXXXXX";

static void put_file(int dir_fd, uint64_t first, const char *text, size_t n)
{
	AUTO_CLOSE int fd =
		segment_open(dir_fd, first, O_WRONLY | O_CREAT | O_TRUNC);

	if (fd < 0 || write(fd, text, n) != (ssize_t)n)
		abort();
}

static void put_line(struct buf *b, uint64_t seq)
{
	entry_begin(b, seq,
		    &(struct entry_from){ BODY, strlen(BODY), NULL, seq * 10 },
		    ZEROS);
	buf_puts(b, ",\"hash\":\"" ZEROS "\"}\n");
}

static void test_segments(void)
{
	AUTO_CLOSE int dir_fd = open(dir, O_RDONLY | O_DIRECTORY);
	AUTO(segments_done) struct segments s = { 0 };
	AUTO(buf_done) struct buf b = { 0 };
	char line[ENTRY_LINE_MAX];
	struct err e = { 0 };
	struct entry last;
	uint64_t i;

	CHECK(segments_last(dir_fd, line, &last, &e) == 0);
	put_file(dir_fd, 1, "", 0);
	CHECK(segments_last(dir_fd, line, &last, &e) == 0);
	for (i = 1; i <= 300; i++)
		put_line(&b, i);
	put_file(dir_fd, 1, buf_data(&b), buf_len(&b));
	CHECK(segments_last(dir_fd, line, &last, &e) == 1);
	CHECK(last.seq == 300 && last.spool == 3000);
	/* Half a line, and then a whole file of what is not an entry. */
	buf_puts(&b, "{\"seq\":301,");
	put_file(dir_fd, 1, buf_data(&b), buf_len(&b));
	CHECK(segments_last(dir_fd, line, &last, &e) == 1 && last.seq == 300);
	for (i = 0; i < 80000; i++)
		buf_puts(&b, i % 1000 ? "x" : "\n");
	put_file(dir_fd, 1, buf_data(&b), buf_len(&b));
	CHECK(segments_last(dir_fd, line, &last, &e) == 1 && last.seq == 300);
	put_file(dir_fd, 1000000000000, "\n", 1);
	put_file(dir_fd, 301, "x\n", 2);
	CHECK(segments_last(dir_fd, line, &last, &e) == 1 && last.seq == 300);
	close(openat(dir_fd, "7.log", O_CREAT | O_WRONLY, 0600));
	close(openat(dir_fd, "000000000007.logs", O_CREAT | O_WRONLY, 0600));
	CHECK(segments_list(dir_fd, &s, &e) == 0 && s.n == 3);
	CHECK(s.first[0] == 1 && s.first[1] == 301 &&
	      s.first[2] == 1000000000000);
}

static void test_long_lines(void)
{
	AUTO_CLOSE int dir_fd = open(dir, O_RDONLY | O_DIRECTORY);
	AUTO_CLOSE int fd = -1;
	static char text[SEGMENT_READ * 2];
	struct line_reader r;
	struct span s;

	memset(text, 'x', sizeof(text));
	text[ENTRY_LINE_MAX - 1] = '\n';
	put_file(dir_fd, 5, text, sizeof(text));
	fd = segment_open(dir_fd, 5, O_RDONLY);
	lines_init(&r, fd);
	CHECK(lines_next(&r, &s) == 1 && s.n == ENTRY_LINE_MAX - 1);
	CHECK(r.at == ENTRY_LINE_MAX && r.number == 1);
	CHECK(lines_next(&r, &s) == -EBADMSG);
	lines_done(&r);
}

static struct spool_file again(const char *path, uint64_t in_log)
{
	struct spool_file f = { .fd = open(path, O_RDWR | O_CREAT, 0600),
				.read_fd = -1,
				.name = path,
				.size_max = 1 << 20 };
	struct err e = { 0 };

	if (spool_file_open(&f, in_log, &e) < 0) {
		fprintf(stderr, "%s\n", e.msg);
		abort();
	}
	return f;
}

static void test_spool_file(void)
{
	char path[64];
	struct spool_file f;
	uint64_t end;
	int i;

	snprintf(path, sizeof(path), "%s/spool", dir);
	f = again(path, 6);
	for (i = 0; i < 2000; i++)
		if (spool_file_add(&f, BODY, strlen(BODY)) != 7 + i)
			break;
	CHECK(i == 2000);
	spool_file_mark(&f);
	CHECK(spool_file_add(&f, BODY, strlen(BODY)) == 2007);
	end = f.end;
	CHECK(spool_file_cut(&f) == 0 && f.end == end && f.start < end);
	CHECK(spool_file_bytes(&f) == SPOOL_RECORD_HEAD + strlen(BODY));
	spool_file_close(&f);
	f = again(path, 6);
	CHECK(f.next == 2008 && f.end == end && f.start < end);
	/* Half a record of somebody who was killed. */
	CHECK(pwrite(f.fd, "xyz", 3, (off_t)end) == 3);
	spool_file_close(&f);
	f = again(path, 2006);
	CHECK(f.next == 2008 && f.end == end);
	/* All of it: the file gets short; killed before the head says so. */
	CHECK(ftruncate(f.fd, SPOOL_HEAD) == 0);
	spool_file_close(&f);
	f = again(path, 2007);
	CHECK(f.next == 2008 && spool_file_bytes(&f) == 0);
	CHECK(spool_file_add(&f, BODY, strlen(BODY)) == 2008);
	spool_file_mark(&f);
	CHECK(spool_file_cut(&f) == 0 && f.start == SPOOL_HEAD);
	CHECK(f.end == SPOOL_HEAD && f.next == 2009);
	CHECK(spool_file_add(&f, BODY, strlen(BODY)) == 2009);
	spool_file_close(&f);
	/* The log has more than the spool. */
	f = again(path, 3000);
	CHECK(f.next == 3001 && spool_file_bytes(&f) == 0);
	f.size_max = 100;
	for (i = 0; i < 10; i++)
		if (spool_file_add(&f, BODY, strlen(BODY)) < 0)
			break;
	CHECK(i > 0 && i < 4);
	spool_file_close(&f);
}

int main(void)
{
	char cmd[64];

	if (!mkdtemp(dir))
		abort();
	test_spool();
	test_bodies();
	test_size();
	test_lines(false);
	test_lines(true);
	test_segments();
	test_long_lines();
	test_spool_file();
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	if (system(cmd) != 0)
		return 1;
	return CHECK_DONE();
}
