/* The last steps of a process of the sandbox, from a root that a test has made.
 * Needs root. */
#include <errno.h>
#include <fcntl.h>
#include <linux/securebits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/child.h"
#include "base/auto.h"
#include "check.h"

static char root[] = "/tmp/agent-child-XXXXXX";

/* The error that the child reports. Its exec fails with ENOENT in this root. */
static struct err finish(struct plan *p)
{
	static char *none[] = { NULL };
	static char *argv[] = { (char *)"/none", NULL };
	const struct confine *c = p->confine;
	struct err e = { 0 };
	int ends[2], r;
	pid_t pid;

	p->argv = argv;
	p->env = none;
	p->fds[0] = p->fds[1] = p->fds[2] = 2;
	if (pipe(ends) < 0)
		abort();
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (chroot(root) < 0 || chdir("/") < 0 ||
		    prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0)
			_exit(99);
		p->confine = c;
		r = child_finish(p, &ends[1], &e);
		(void)r;
		child_fail(ends[1], &e);
	}
	close(ends[1]);
	if (read(ends[0], &e, sizeof(e)) != sizeof(e))
		err_set(&e, EIO, "nothing was said");
	close(ends[0]);
	waitpid(pid, NULL, 0);
	return e;
}

static const struct confine user = { -1, -1, -1, 0, false, 0 };

static struct plan plan_of(uid_t uid)
{
	struct plan p = { .confine = &user, .cwd = "", .cwd_fd = -1 };

	p.user.uid = uid;
	p.user.gid = 1000;
	snprintf(p.user.home, sizeof(p.user.home), "/home");
	return p;
}

static void test_directory(void)
{
	AUTO_CLOSE int out = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSE int in = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct plan p = plan_of(1000);
	struct err e;

	e = finish(&p);
	CHECK(e.code == ENOENT && strstr(e.msg, "exec /none"));
	p.cwd_fd = in;
	e = finish(&p);
	CHECK(e.code == ENOENT && strstr(e.msg, "exec /none"));
	/* A directory of the host would be a way out. */
	p.cwd_fd = out;
	e = finish(&p);
	CHECK(e.code == EXDEV && strstr(e.msg, "outside of the sandbox"));
	p.cwd_fd = -1;
	p.cwd = "/gone";
	e = finish(&p);
	CHECK(e.code == ENOENT && strstr(e.msg, "enter directory /gone"));
}

static void test_root_needs_sudo(void)
{
	struct confine may = user;
	struct plan p = plan_of(0);
	struct err e = finish(&p);

	CHECK(e.code == EPERM && strstr(e.msg, "sudo is turned off"));
	may.sudo = true;
	p.confine = &may;
	e = finish(&p);
	CHECK(e.code == ENOENT && strstr(e.msg, "exec /none"));
}

int main(void)
{
	char home[64];

	if (geteuid() != 0) {
		printf("needs root\n");
		return 77;
	}
	if (!mkdtemp(root))
		abort();
	chmod(root, 0755);
	snprintf(home, sizeof(home), "%s/home", root);
	if (mkdir(home, 0755) < 0)
		abort();
	test_directory();
	test_root_needs_sudo();
	rmdir(home);
	rmdir(root);
	return CHECK_DONE();
}
