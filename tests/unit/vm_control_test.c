/* What is taken for an answer of a guest. */
#include "sandbox/vm/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
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
	struct control_line line = { .fd = -1 };
	struct err e = { 0 };
	int pair[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	line.fd = pair[0];
	CHECK(control_ask(&line, 20, &e) == -ETIMEDOUT);
	/* Half an answer is none. */
	CHECK(write(pair[1], "half", 4) == 4);
	err_clear(&e);
	CHECK(control_hold(&line, 20, &e) == -ETIMEDOUT);
	close(pair[1]);
	err_clear(&e);
	CHECK(control_ask(&line, 1000, &e) == -ECONNRESET);
	control_close(&line);
	CHECK(line.fd == -1);
}

static bool take(int listen_fd, int *fd, struct guest_req *q)
{
	*fd = accept(listen_fd, NULL, NULL);
	return *fd >= 0 && recv(*fd, q, sizeof(*q), MSG_WAITALL) == sizeof(*q);
}

/* A machine that does not know who came first: it answers to the second, and
 * then to both. */
static bool deaf_once(int listen_fd)
{
	struct guest_req first, q;
	struct guest_rep p = rep();
	int fd, old_fd;

	if (!take(listen_fd, &old_fd, &first) || !take(listen_fd, &fd, &q) ||
	    first.op != q.op || first.seq == q.seq ||
	    q.time_ns - first.time_ns < 1000000000)
		return false;
	p.op = q.op;
	p.seq = first.seq;
	if (write(fd, &p, sizeof(p)) != sizeof(p))
		return false;
	p.seq = q.seq;
	return write(fd, &p, sizeof(p)) == sizeof(p);
}

/* With `late` the machine takes no call for so many seconds, and its queue has
 * one place. */
static void redial(unsigned late)
{
	char dir[] = "/tmp/control-test-XXXXXX";
	struct control_line line;
	struct err e = { 0 };
	int dir_fd, listen_fd, status;
	pid_t pid;

	CHECK(mkdtemp(dir) != NULL);
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	listen_fd = unix_listen_at(dir_fd, "control.sock", SOCK_STREAM, 0600);
	CHECK(listen_fd >= 0 && fd_set_nonblock(listen_fd, false) == 0);
	CHECK(!late || listen(listen_fd, 0) == 0);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		alarm(60); /* no second call comes: it failed */
		sleep(late);
		_exit(deaf_once(listen_fd) ? 0 : 1);
	}
	CHECK(control_open(&line, dir_fd, ".", &e) == 0);
	CHECK(control_sync(&line, 20000, &e) == 0);
	control_close(&line);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(unlinkat(dir_fd, "control.sock", 0) == 0 && rmdir(dir) == 0);
	CHECK(control_open(&line, dir_fd, ".", &e) < 0 && line.fd < 0);
	close(listen_fd);
	close(dir_fd);
}

int main(void)
{
	answers();
	words();
	silence();
	redial(0);
	redial(4);
	return CHECK_DONE();
}
