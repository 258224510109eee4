/*
 * The one foreign program the pool needs. No shell, no search path from the
 * environment, nothing of ours inherited but its output, which becomes the
 * error message.
 */
#include "store/mkfs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/product.h"

static const char *const places[] = {
	"/usr/sbin/mkfs.btrfs",
	"/sbin/mkfs.btrfs",
	"/usr/bin/mkfs.btrfs",
	"/usr/local/sbin/mkfs.btrfs",
};

static const char *find(void)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(places); i++)
		if (access(places[i], X_OK) == 0)
			return places[i];
	return NULL;
}

static void __attribute__((noreturn)) run(const char *program, int dir_fd,
					  const char *name, int out_fd)
{
	const char *const argv[] = { "mkfs.btrfs",    "-q", "-f", "-L",
				     PRODUCT "-pool", "--", name, NULL };
	const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
				    "LC_ALL=C", NULL };
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null_fd >= 0 && fchdir(dir_fd) == 0 && dup2(null_fd, 0) == 0 &&
	    dup2(null_fd, 1) == 1 && dup2(out_fd, 2) == 2)
		execve(program, (char *const *)argv, (char *const *)env);
	_exit(127);
}

/* Keeps the first line, reads to the end so that the child is never stuck. */
static void first_line(int fd, char *out, size_t cap)
{
	char rest[512];
	ssize_t n = read_full(fd, out, cap - 1);

	out[n > 0 ? n : 0] = '\0';
	out[strcspn(out, "\n")] = '\0';
	while (read_full(fd, rest, sizeof(rest)) > 0)
		;
}

int mkfs_btrfs(int dir_fd, const char *name, struct err *e)
{
	AUTO_CLOSE int in_fd = -1, out_fd = -1;
	const char *program = find();
	char said[160];
	int pipe_fds[2], status;
	pid_t pid;

	if (!program)
		return err_set(e, ENOENT,
			       "mkfs.btrfs is missing: install btrfs-progs, or "
			       "set pool_driver = dir");
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_sys(e, "run %s", program);
	in_fd = pipe_fds[0];
	out_fd = pipe_fds[1];
	pid = fork();
	if (pid < 0)
		return err_sys(e, "run %s", program);
	if (pid == 0)
		run(program, dir_fd, name, out_fd);
	auto_close(&out_fd);
	first_line(in_fd, said, sizeof(said));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(e, "wait for %s", program);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return err_set(e, EIO, "%s failed: %s", program,
		       said[0] ? said : "it said nothing");
}
