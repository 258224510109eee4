#include "wire/ps.h"

#include <errno.h>

#include "check.h"
#include "wire/pack.h"

static const struct ps proc = {
	.kind = PS_PROC,
	.args = "sh\0-c\0\0x",
	.args_len = 9,
	.proc = { .number = 7,
		  .pid = 42,
		  .state = PS_EXITED,
		  .pty = true,
		  .told = true,
		  .user = "me",
		  .tag = "a tag",
		  .started_ms = 1ULL << 41,
		  .out = { 5, 1ULL << 40 },
		  .exit = { 1, 9, 10, 11, 12 } },
};

static const struct ps task = {
	.kind = PS_TASK,
	.args = "[name]",
	.args_len = 6, /* without its NUL, as ps writes it */
	.task = { .pid = 3,
		  .ppid = 1,
		  .uid = 1000,
		  .state = 'Z',
		  .cpu_us = 1ULL << 35,
		  .rss_bytes = 4096 },
};

static void test_round(void)
{
	struct buf b = { 0 };
	size_t at = 0;
	struct ps p;
	int n;

	ps_put(&b, &proc);
	ps_put(&b, &task);
	n = ps_get(&b, &p);
	CHECK(n > 0 && p.kind == PS_PROC && p.proc.number == 7);
	CHECK(p.proc.pid == 42 && p.proc.state == PS_EXITED && p.proc.pty);
	CHECK(p.proc.told);
	CHECK_STR(p.proc.user, "me");
	CHECK_STR(p.proc.tag, "a tag");
	CHECK(p.proc.started_ms == 1ULL << 41);
	CHECK(p.proc.out[0] == 5 && p.proc.out[1] == 1ULL << 40);
	CHECK(p.proc.exit.signaled == 1 && p.proc.exit.code == 9 &&
	      p.proc.exit.max_rss_bytes == 12);
	CHECK_STR(ps_arg(&p, &at), "sh");
	CHECK_STR(ps_arg(&p, &at), "-c");
	CHECK_STR(ps_arg(&p, &at), "");
	CHECK_STR(ps_arg(&p, &at), "x");
	CHECK(!ps_arg(&p, &at) && !p.cut);
	buf_eat(&b, (size_t)n);
	n = ps_get(&b, &p);
	CHECK(n > 0 && p.kind == PS_TASK && p.task.uid == 1000);
	CHECK(p.task.pid == 3 && p.task.ppid == 1 && p.task.state == 'Z');
	CHECK(p.task.cpu_us == 1ULL << 35 && p.task.rss_bytes == 4096);
	at = 0;
	CHECK_STR(ps_arg(&p, &at), "[name]");
	CHECK(!ps_arg(&p, &at));
	buf_eat(&b, (size_t)n);
	CHECK(ps_get(&b, &p) == 0);
	buf_done(&b);
}

static void test_long(void)
{
	static char args[PS_ARGS_MAX + 10];
	struct ps p = { .kind = PS_TASK, .args = args, .task.state = 'R' };
	struct buf b = { 0 };
	size_t at = 0;

	memset(args, 'a', sizeof(args));
	p.args_len = sizeof(args);
	ps_put(&b, &p);
	CHECK(ps_get(&b, &p) == (int)buf_len(&b) && p.cut);
	CHECK(strlen(ps_arg(&p, &at)) == PS_ARGS_MAX && !ps_arg(&p, &at));
	buf_done(&b);
	p = (struct ps){ .kind = PS_TASK, .args = "", .task.state = 'R' };
	at = 0;
	ps_put(&b, &p);
	CHECK(ps_get(&b, &p) > 0 && !ps_arg(&p, &at) && !p.cut);
	buf_done(&b);
}

/* Cut anywhere it is not there yet; with a wrong field it never will be. */
static void test_refused(void)
{
	enum { KIND = 4, STATE = 13, FLAGS = 14 };
	static const struct {
		size_t at;
		uint8_t value;
	} wrong[] = { { KIND, 0 },  { KIND, 3 },      { STATE, PS_STATES },
		      { FLAGS, 4 }, { 2, 1 },         { 3, 0xff },
		      { 0, 10 },    { STATE + 2, 99 } };
	struct buf b = { 0 }, part = { 0 };
	struct ps p;
	size_t i, n;

	ps_put(&b, &proc);
	for (n = buf_len(&b), i = 0; i < n; i++) {
		if (ps_get(&part, &p) != 0)
			break;
		buf_add(&part, buf_data(&b) + i, 1);
	}
	CHECK(i == n && ps_get(&part, &p) == (int)n);
	for (i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		char old = b.p[wrong[i].at];

		b.p[wrong[i].at] = (char)wrong[i].value;
		CHECK(ps_get(&b, &p) == -EBADMSG);
		b.p[wrong[i].at] = old;
	}
	/* Its last word must have an end. */
	b.p[n - 1] = 'x';
	CHECK(ps_get(&b, &p) == -EBADMSG);
	buf_done(&b);
	buf_done(&part);
}

int main(void)
{
	test_round();
	test_long();
	test_refused();
	return CHECK_DONE();
}
