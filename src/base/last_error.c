#include "base/last_error.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

enum { PATH_CAP = 160 };

static int error_fd = -1;

static void error_path(const char *run_dir, const char *role,
		       char out[PATH_CAP])
{
	snprintf(out, PATH_CAP, "%s/%s.error", run_dir, role);
}

void last_error_open(const char *run_dir, const char *role)
{
	char path[PATH_CAP];

	error_path(run_dir, role, path);
	error_fd =
		open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
}

void last_error_close(void)
{
	if (error_fd >= 0)
		close(error_fd);
	error_fd = -1;
}

void last_error_clear(void)
{
	if (error_fd >= 0)
		(void)!ftruncate(error_fd, 0);
	last_error_close();
}

void last_error_put(const char *text, size_t n)
{
	/* Readers get the old text or the new one, cut at worst: the length is
	 * set last. */
	if (error_fd >= 0 && pwrite(error_fd, text, n, 0) == (ssize_t)n)
		(void)!ftruncate(error_fd, (off_t)n);
}

bool last_error_read(const char *run_dir, const char *role, char *out,
		     size_t cap)
{
	char path[PATH_CAP];

	error_path(run_dir, role, path);
	if (read_file_at(AT_FDCWD, path, out, cap) <= 0)
		return false;
	out[strcspn(out, "\n")] = '\0';
	return true;
}

void last_error_remove(const char *run_dir, const char *role)
{
	char path[PATH_CAP];

	error_path(run_dir, role, path);
	unlink(path);
}
