#include "wire/view.h"

#include <errno.h>
#include <string.h>

#include "check.h"

static const struct file_entry before = {
	.type = FILE_SYMLINK,
	.mode = 0777,
	.uid = 1000,
	.gid = 7,
	.size = 3,
	.mtime_ms = -5,
	.path = "/a b/c\nd",
	.target = "old",
};

static struct file_entry after(void)
{
	struct file_entry e = before;

	e.target = "new";
	e.uid = 0;
	e.mtime_ms = 1LL << 41;
	return e;
}

static void test_change(void)
{
	struct view_record r = { .kind = VIEW_CHANGE,
				 .change = { WHAT_CONTENT | WHAT_OWNER, before,
					     after() } },
			   q = { 0 };
	struct buf b = { 0 };
	int n;

	view_record_put(&b, &r);
	n = view_record_get(&b, &q);
	CHECK(n == (int)buf_len(&b) && q.kind == VIEW_CHANGE);
	CHECK(q.change.what == (WHAT_CONTENT | WHAT_OWNER));
	CHECK_STR(q.change.before.path, "/a b/c\nd");
	CHECK_STR(q.change.after.path, "/a b/c\nd");
	CHECK_STR(q.change.before.target, "old");
	CHECK_STR(q.change.after.target, "new");
	CHECK(q.change.before.mtime_ms == -5 && q.change.before.uid == 1000 &&
	      q.change.before.gid == 7 && q.change.before.mode == 0777);
	CHECK(q.change.after.mtime_ms == 1LL << 41 && q.change.after.uid == 0);
	buf_done(&b);
}

static bool refused(const struct view_record *r)
{
	struct view_record q;
	struct buf b = { 0 };
	int n;

	view_record_put(&b, r);
	n = view_record_get(&b, &q);
	buf_done(&b);
	return n == -EBADMSG;
}

static void test_change_refused(void)
{
	struct view_record r = { .kind = VIEW_CHANGE,
				 .change = { WHAT_MODE, before, before } };

	CHECK(!refused(&r));
	r.change.what = 0;
	CHECK(refused(&r));
	r.change.what = WHAT_ALL + 1;
	CHECK(refused(&r));
	r.change.what = WHAT_TYPE; /* but the types are the same */
	CHECK(refused(&r));
	r.change.after.type = FILE_NONE;
	CHECK(!refused(&r));
	r.change.what = WHAT_TYPE | WHAT_MODE;
	CHECK(refused(&r));
	r.change.what = WHAT_TYPE;
	r.change.before.type = FILE_NONE;
	CHECK(refused(&r));
	r.change.before = before;
	r.change.before.mode = 010000;
	CHECK(refused(&r));
	r.change.before = before;
	r.change.before.size = 1ULL << 63;
	CHECK(refused(&r));
	r.change.before = before;
	r.change.before.path = "/a/../b";
	CHECK(refused(&r));
}

static void test_step(void)
{
	struct file_entry none = { .path = "/gone" };
	struct view_record r = { .kind = VIEW_STEP,
				 .step = { MERGE_SAME, none, none } },
			   q = { 0 };
	struct buf b = { 0 };

	view_record_put(&b, &r);
	CHECK(view_record_get(&b, &q) > 0 && q.kind == VIEW_STEP);
	CHECK(q.step.step == MERGE_SAME && q.step.ours.type == FILE_NONE);
	CHECK_STR(q.step.theirs.path, "/gone");
	CHECK_STR(q.step.ours.path, "/gone");
	r.step.step = MERGE_STEPS;
	CHECK(refused(&r));
	buf_done(&b);
}

static void test_others(void)
{
	static char bytes[VIEW_DATA_MAX];
	struct view_record r = { .kind = VIEW_DATA }, q = { 0 };
	struct buf b = { 0 };
	int n;

	r.data.p = bytes;
	r.data.n = sizeof(bytes);
	view_record_put(&b, &r);
	n = view_record_get(&b, &q);
	CHECK(n > 0 && q.kind == VIEW_DATA && q.data.n == sizeof(bytes));
	buf_eat(&b, (size_t)n);
	r = (struct view_record){ .kind = VIEW_PROGRESS, .progress = { 3, 4 } };
	view_record_put(&b, &r);
	r = (struct view_record){ .kind = VIEW_SPACED, .space = { 9, 5, 2 } };
	view_record_put(&b, &r);
	r = (struct view_record){ .kind = VIEW_DONE };
	view_record_put(&b, &r);
	n = view_record_get(&b, &q);
	CHECK(q.kind == VIEW_PROGRESS && q.progress.bytes == 4);
	buf_eat(&b, (size_t)n);
	n = view_record_get(&b, &q);
	CHECK(q.kind == VIEW_SPACED && q.space.shared == 5);
	buf_eat(&b, (size_t)n);
	n = view_record_get(&b, &q);
	CHECK(n == 5 && q.kind == VIEW_DONE);
	r = (struct view_record){ .kind = VIEW_SPACED, .space = { 5, 9, 2 } };
	CHECK(refused(&r));
	buf_done(&b);
}

static void test_error(void)
{
	struct view_record r = { .kind = VIEW_ERROR }, q = { 0 };
	struct buf b = { 0 };

	err_set(&r.err, ENOENT, "no \x1b[31m/file\n");
	view_record_put(&b, &r);
	CHECK(view_record_get(&b, &q) > 0 && q.err.code == ENOENT);
	CHECK_STR(q.err.msg, "no ?[31m/file?");
	r.err.code = 0;
	CHECK(refused(&r));
	buf_done(&b);
}

/* Cut anywhere it is not there yet; a wrong kind or length never will be. */
static void test_cut(void)
{
	struct view_record r = { .kind = VIEW_CHANGE,
				 .change = { WHAT_CONTENT, before, before } };
	struct buf b = { 0 }, part = { 0 };
	size_t i, n;

	view_record_put(&b, &r);
	for (n = buf_len(&b), i = 0; i < n; i++) {
		if (view_record_get(&part, &r) != 0)
			break;
		buf_add(&part, buf_data(&b) + i, 1);
	}
	CHECK(i == n && view_record_get(&part, &r) == (int)n);
	part.p[4] = 0;
	CHECK(view_record_get(&part, &r) == -EBADMSG);
	part.p[4] = VIEW_KINDS;
	CHECK(view_record_get(&part, &r) == -EBADMSG);
	part.p[4] = VIEW_CHANGE;
	part.p[0]--;
	CHECK(view_record_get(&part, &r) == -EBADMSG);
	memset(part.p, 0, 4);
	CHECK(view_record_get(&part, &r) == -EBADMSG);
	part.p[3] = 1;
	CHECK(view_record_get(&part, &r) == -EBADMSG);
	buf_done(&b);
	buf_done(&part);
}

static void test_ask(void)
{
	static const char *const paths[] = { "/", "/etc/a b" };
	static const char *const bad[] = { "",       "a",     "/a/",  "//a",
					   "/a/./b", "/a/..", "/../a" };
	struct buf b = { 0 };
	struct view_ask a;
	size_t i;

	view_ask_put(&b, VIEW_LAYER, paths, 2);
	CHECK(view_ask_get(buf_data(&b), buf_len(&b), &a) == 0);
	CHECK(a.flags == VIEW_LAYER && a.n == 2);
	CHECK_STR(a.paths[0], "/");
	CHECK_STR(a.paths[1], "/etc/a b");
	CHECK(view_ask_get(buf_data(&b), buf_len(&b) - 1, &a) == -EBADMSG);
	buf_add(&b, "", 1);
	CHECK(view_ask_get(buf_data(&b), buf_len(&b), &a) == -EBADMSG);
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		buf_clear(&b);
		view_ask_put(&b, 0, bad + i, 1);
		CHECK(view_ask_get(buf_data(&b), buf_len(&b), &a) == -EBADMSG);
	}
	buf_clear(&b);
	view_ask_put(&b, VIEW_FLAGS_ALL + 1, NULL, 0);
	CHECK(view_ask_get(buf_data(&b), buf_len(&b), &a) == -EBADMSG);
	buf_done(&b);
}

static void test_sum(void)
{
	uint8_t sum[VIEW_SUM_LEN] = { 1, 2, 3 };
	struct view_record r = { .kind = VIEW_SUM, .sum = sum }, q = { 0 };
	struct buf b = { 0 };

	view_record_put(&b, &r);
	CHECK(view_record_get(&b, &q) == (int)buf_len(&b));
	CHECK(q.kind == VIEW_SUM && memcmp(q.sum, sum, sizeof(sum)) == 0);
	/* One byte less. */
	b.len--;
	b.p[0]--;
	CHECK(view_record_get(&b, &q) == -EBADMSG);
	buf_done(&b);
}

int main(void)
{
	test_change();
	test_change_refused();
	test_step();
	test_others();
	test_error();
	test_cut();
	test_ask();
	test_sum();
	return CHECK_DONE();
}
