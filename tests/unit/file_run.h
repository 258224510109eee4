/* Runs a builtin of file work as the agent does, in a directory of its own. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/builtin.h"
#include "base/buf.h"
#include "base/fd.h"
#include "wire/file.h"

enum { RUN_WORDS = 16 };

static char top[64];           /* the directory; the current one, too */
static uid_t run_as;           /* 0: as we are */
static struct buf run_in;      /* what it reads; eaten by the run */
static struct buf run_out;     /* what it wrote */
static struct err run_why;     /* how it failed */
static struct file_record rec; /* the last record of it */

static void top_make(void)
{
	snprintf(top, sizeof(top), "/tmp/file_test.XXXXXX");
	if (!mkdtemp(top) || chdir(top) < 0 || chmod(top, 0777) < 0)
		abort();
}

static void top_remove(void)
{
	char cmd[] = "/bin/rm", *argv[] = { cmd, (char *)"-rf", top, NULL };
	pid_t pid = fork();

	if (pid == 0) {
		execv(cmd, argv);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
}

static int bytes_fd(const void *p, size_t n)
{
	int fd = memfd_create("bytes", MFD_CLOEXEC);

	if (fd < 0 || write_full(fd, p, n) < 0 || lseek(fd, 0, SEEK_SET) != 0)
		abort();
	return fd;
}

static void slurp(int fd, struct buf *b)
{
	lseek(fd, 0, SEEK_SET);
	while (buf_read(b, fd, 65536) > 0)
		;
	close(fd);
}

static void child(const char *name, va_list ap, const int fds[3])
{
	char *argv[RUN_WORDS] = { (char *)name };
	int n = 0, i;

	while (argv[n])
		argv[++n] = va_arg(ap, char *);
	for (i = 0; i < 3; i++)
		dup2(fds[i], i);
	if (run_as && (setgid(run_as) < 0 || setuid(run_as) < 0))
		_exit(99);
	umask(022);
	alarm(60);
	_exit(builtin_find(name)->fn(n, argv));
}

/* The exit code, or -signal; words end with NULL. */
static int run(const char *name, ...)
{
	int fds[3] = { bytes_fd(buf_data(&run_in), buf_len(&run_in)),
		       bytes_fd("", 0), bytes_fd("", 0) };
	struct buf line = { 0 };
	va_list ap;
	int status;
	pid_t pid;

	fflush(stdout);
	buf_clear(&run_in);
	buf_clear(&run_out);
	err_clear(&run_why);
	pid = fork();
	if (pid == 0) {
		va_start(ap, name);
		child(name, ap, fds);
		va_end(ap);
	}
	waitpid(pid, &status, 0);
	close(fds[0]);
	slurp(fds[1], &run_out);
	slurp(fds[2], &line);
	if (buf_len(&line) > 0)
		file_error_get(buf_data(&line), buf_len(&line), &run_why);
	buf_done(&line);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}
#define RUN(...) run(__VA_ARGS__, NULL)
/* It must fail with this code, and name this in its message. */
#define FAILS(want, text, ...)                              \
	(RUN(__VA_ARGS__) == 1 && run_why.code == (want) && \
	 (strstr(run_why.msg, text) || !printf("# %s\n", run_why.msg)))

/* The next record of what the last run wrote, in `rec`: its kind, or 0. */
static inline int next_record(void)
{
	static struct buf kept;
	int n = file_record_get(&run_out, &rec);

	if (n <= 0)
		return 0;
	/* Its strings stay valid until the next call. */
	buf_clear(&kept);
	buf_add(&kept, buf_data(&run_out), (size_t)n);
	buf_eat(&run_out, (size_t)n);
	return file_record_get(&kept, &rec) == n ? (int)rec.kind : 0;
}

static void put_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (fd < 0 || write_full(fd, text, strlen(text)) < 0)
		abort();
	close(fd);
}

/* The text of a small file; "" when there is none. */
static inline const char *get_file(const char *path)
{
	static char text[8192];

	if (read_file_at(AT_FDCWD, path, text, sizeof(text)) < 0)
		text[0] = '\0';
	return text;
}

static inline bool exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static inline mode_t mode_of(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 ? st.st_mode : 0;
}
