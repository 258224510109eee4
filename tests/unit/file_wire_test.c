/* Records and errors of file work, as a hostile agent may send them. */
#include "wire/file.h"

#include <errno.h>
#include <string.h>

#include "check.h"
#include "wire/pack.h"

static struct buf b;

static void test_round(void)
{
	struct file_record r = { .kind = FILE_ENTRY }, q;
	int n;

	r.entry = (struct file_entry){ .type = FILE_SYMLINK,
				       .target_type = FILE_DIRECTORY,
				       .mode = 07777,
				       .uid = 1,
				       .gid = 2,
				       .size = 3,
				       .mtime_ms = -4,
				       .unreadable = true,
				       .path = "/a\xff\n",
				       .target = "b",
				       .user = "u",
				       .group = "" };
	file_record_put(&b, &r);
	n = file_record_get(&b, &q);
	CHECK(n == (int)buf_len(&b) && q.kind == FILE_ENTRY);
	CHECK(q.entry.type == FILE_SYMLINK && q.entry.mtime_ms == -4 &&
	      q.entry.target_type == FILE_DIRECTORY && q.entry.unreadable &&
	      q.entry.mode == 07777 && q.entry.uid == 1 && q.entry.size == 3);
	CHECK_STR(q.entry.path, "/a\xff\n");
	CHECK_STR(q.entry.user, "u");
	for (b.len--; buf_len(&b) > 4; b.len--)
		if (file_record_get(&b, &q) != 0)
			break;
	CHECK(buf_len(&b) == 4);
	buf_clear(&b);
	r = (struct file_record){ .kind = FILE_EVENT };
	r.event.what = EVENT_RENAME;
	r.event.path = "x";
	r.event.to = "y";
	file_record_put(&b, &r);
	CHECK(file_record_get(&b, &q) > 0);
	CHECK_STR(q.event.to, "y");
	buf_clear(&b);
	r = (struct file_record){ .kind = FILE_DETAIL };
	r.detail = (struct file_detail){ .mode = 0644,
					 .path = "/p",
					 .n_attrs = 1,
					 .attr = { { "user.a", "b" } } };
	file_record_put(&b, &r);
	CHECK(file_record_get(&b, &q) == (int)buf_len(&b));
	CHECK(q.detail.mode == 0644 && q.detail.n_attrs == 1);
	CHECK_STR(q.detail.attr[0].value, "b");
	buf_clear(&b);
}

/* A record of this kind with these bytes behind it. */
static int get(uint8_t kind, const void *p, size_t n)
{
	struct file_record q;
	int r;

	buf_clear(&b);
	pack_u32(&b, (uint32_t)n + 1);
	pack_u8(&b, kind);
	buf_add(&b, p, n);
	r = file_record_get(&b, &q);
	buf_clear(&b);
	return r;
}

static int content(uint64_t size, uint64_t first, uint64_t length)
{
	struct buf p = { 0 };
	int r;

	pack_u64(&p, size);
	pack_u64(&p, first);
	pack_u64(&p, length);
	r = get(FILE_CONTENT, buf_data(&p), buf_len(&p));
	buf_done(&p);
	return r;
}

static void test_bad(void)
{
	static const char zeros[64];
	struct file_record q;
	struct buf p = { 0 };
	int i;

	CHECK(get(FILE_END, "\0", 1) > 0 && get(FILE_END, "\1", 1) > 0);
	CHECK(get(FILE_END, "\2", 1) == -EBADMSG);
	CHECK(get(FILE_END, "", 0) == -EBADMSG);
	CHECK(get(FILE_END, "\0\0", 2) == -EBADMSG);
	CHECK(get(0, zeros, 8) == -EBADMSG);
	CHECK(get(FILE_KINDS, zeros, 8) == -EBADMSG);
	CHECK(get(255, zeros, 8) == -EBADMSG);
	for (i = 1; i < FILE_KINDS; i++)
		CHECK(i == FILE_END || get((uint8_t)i, "", 0) == -EBADMSG);
	CHECK(content(10, 0, 10) > 0 && content(10, 10, 0) > 0);
	CHECK(content(10, 0, 11) == -EBADMSG);
	CHECK(content(10, 11, 0) == -EBADMSG);
	CHECK(content(10, 5, UINT64_MAX - 4) == -EBADMSG);
	CHECK(content(0, 0, FILE_TO_END) > 0);
	CHECK(content(1, 0, FILE_TO_END) == -EBADMSG);
	CHECK(content(UINT64_MAX, 0, 1) == -EBADMSG);
	pack_u32(&p, 0);
	CHECK(file_record_get(&p, &q) == -EBADMSG);
	buf_clear(&p);
	pack_u32(&p, FILE_RECORD_MAX + 1);
	CHECK(file_record_get(&p, &q) == -EBADMSG);
	buf_clear(&p);
	/* A path over the limit, and a string with a NUL in it. */
	pack_u8(&p, EVENT_CREATE);
	pack_u8(&p, FILE_NONE);
	pack_u32(&p, FILE_PATH_MAX + 1);
	for (i = 0; i <= FILE_PATH_MAX; i++)
		pack_u8(&p, 'a');
	pack_u8(&p, 0);
	pack_str(&p, "");
	CHECK(get(FILE_EVENT, buf_data(&p), buf_len(&p)) == -EBADMSG);
	buf_clear(&p);
	pack_u8(&p, EVENT_CREATE);
	pack_u8(&p, FILE_NONE);
	pack_u32(&p, 3);
	buf_add(&p, "a\0b", 4);
	pack_str(&p, "");
	CHECK(get(FILE_EVENT, buf_data(&p), buf_len(&p)) == -EBADMSG);
	buf_done(&p);
}

static int error(const char *line, const char *message)
{
	struct err e = { 0 };

	file_error_get(line, strlen(line), &e);
	if (strcmp(e.msg, message) != 0)
		printf("# %s\n", e.msg);
	return strcmp(e.msg, message) == 0 ? e.code : 0;
}

static void test_errors(void)
{
	static const char none[] = "file work failed without saying why";
	struct err e = { 0 };
	char long_line[2000];

	err_set(&e, ENOENT,
		"a\nb\x7f"
		"c: gone");
	file_error_put(&b, &e);
	CHECK_STR(buf_str(&b), "2 a?b?c: gone\n");
	CHECK(error(buf_str(&b), "a?b?c: gone") == ENOENT);
	buf_clear(&b);
	CHECK(error("17 x\nmore\n", "x") == EEXIST);
	CHECK(error("17 x\x1b[31m", "x?[31m") == EEXIST);
	CHECK(error("", none) == EIO);
	CHECK(error("\n", none) == EIO);
	CHECK(error("2", none) == EIO);
	CHECK(error("0 nothing", none) == EIO);
	CHECK(error("-2 x", none) == EIO);
	CHECK(error("4096 x", none) == EIO);
	CHECK(error("99999999999999999999 x", none) == EIO);
	CHECK(error("no number", none) == EIO);
	memset(long_line, 'x', sizeof(long_line));
	memcpy(long_line, "2 ", 2);
	err_clear(&e);
	file_error_get(long_line, sizeof(long_line), &e);
	CHECK(e.code == ENOENT && strlen(e.msg) == sizeof(e.msg) - 1);
}

int main(void)
{
	test_round();
	test_bad();
	test_errors();
	buf_done(&b);
	return CHECK_DONE();
}
