/* What is taken for an answer of a guest. */
#include "sandbox/vm/control.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

static struct guest_req req(void)
{
	return (struct guest_req){ .magic = GUEST_MAGIC,
				   .version = GUEST_VERSION,
				   .op = GUEST_WAKE,
				   .seq = 77 };
}

static struct guest_rep rep(void)
{
	return (struct guest_rep){ .magic = GUEST_MAGIC,
				   .version = GUEST_VERSION,
				   .op = GUEST_WAKE,
				   .seq = 77 };
}

static int check_one(const struct guest_rep *p, struct err *e)
{
	const struct guest_req q = req();

	err_clear(e);
	return control_check(&q, p, e);
}

static void answers(void)
{
	struct guest_rep p = rep();
	struct err e = { 0 };

	CHECK(check_one(&p, &e) == 0);
	p.magic++;
	CHECK(check_one(&p, &e) == -EBADMSG);
	p = rep();
	p.version++;
	CHECK(check_one(&p, &e) == -EBADMSG);
	p = rep();
	p.op = GUEST_HOLD;
	CHECK(check_one(&p, &e) == -EBADMSG);
	p = rep();
	p.seq++;
	CHECK(check_one(&p, &e) == -EBADMSG);
	p = rep();
	p.end = 1;
	CHECK(check_one(&p, &e) == -EBADMSG);
}

/* The guest's words are text, and end. */
static void words(void)
{
	struct guest_rep p = rep();
	struct err e = { 0 };

	p.code = -5;
	memset(p.text, 'x', sizeof(p.text));
	p.text[0] = '\033';
	CHECK(check_one(&p, &e) == -EIO);
	CHECK(strchr(e.msg, '\033') == NULL);
	CHECK(strstr(e.msg, "?xxx") != NULL);
	CHECK(strlen(e.msg) < sizeof(e.msg));
}

static void silence(void)
{
	struct err e = { 0 };
	int pair[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	CHECK(control_ask(pair[0], 20, &e) == -ETIMEDOUT);
	/* Half an answer is none. */
	CHECK(write(pair[1], "half", 4) == 4);
	err_clear(&e);
	CHECK(control_hold(pair[0], 20, &e) == -ETIMEDOUT);
	close(pair[1]);
	err_clear(&e);
	CHECK(control_ask(pair[0], 1000, &e) == -ECONNRESET);
	close(pair[0]);
}

int main(void)
{
	answers();
	words();
	silence();
	return CHECK_DONE();
}
