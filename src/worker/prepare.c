#include "worker/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "worker/limits.h"
#include "worker/tree.h"
#include "worker/users.h"

static const struct {
	const char *name;
	mode_t mode;  /* set always when `owned`, else when made */
	bool owned;   /* ours to define: something is mounted there */
	bool emptied; /* what the image has in it would only be in the way */
} dirs[] = {
	{ "proc", 0755, true, true },  { "sys", 0755, true, true },
	{ "dev", 0755, true, true },   { "tmp", 01777, true, false },
	{ "run", 0755, false, false }, { "home", 0755, false, false },
	{ "etc", 0755, false, false },
};

static int prepare_dir(int root_fd, size_t i, struct err *e)
{
	AUTO_CLOSE int fd = -1;
	bool made;
	int r;

	made = mkdirat(root_fd, dirs[i].name, 0755) == 0;
	if (!made && errno != EEXIST)
		return err_sys(e, "make /%s", dirs[i].name);
	fd = tree_open(root_fd, dirs[i].name, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return err_set(e, EBADMSG,
			       "/%s of this image is not a real directory: "
			       "refused, because a sandbox mounts on it",
			       dirs[i].name);
	r = dirs[i].emptied ? tree_clear(fd) : 0;
	if (r < 0) {
		errno = -r;
		return err_sys(e, "empty /%s", dirs[i].name);
	}
	if ((made || dirs[i].owned) &&
	    (fchown(fd, 0, 0) < 0 || fchmod(fd, dirs[i].mode) < 0))
		return err_sys(e, "set owner and mode of /%s", dirs[i].name);
	return 0;
}

/*
 * Opens the directory `path` of `parent`, followed as if chrooted, making it
 * when there is nothing of that name.
 */
static int open_or_make(int root_fd, const char *parent, const char *path,
			struct err *e)
{
	AUTO_CLOSE int dir_fd =
		tree_open_inside(root_fd, parent, O_PATH | O_DIRECTORY, 0);
	const char *name = strrchr(path, '/');
	int fd;

	if (dir_fd >= 0)
		(void)mkdirat(dir_fd, name ? name + 1 : path, 0755);
	fd = tree_open_inside(root_fd, path, O_PATH | O_DIRECTORY, 0);
	if (fd < 0) {
		errno = -fd;
		return err_sys(e, "/%s of this image is not a directory", path);
	}
	return fd;
}

/*
 * By offset: the warden opened the file once for all imports, whose position
 * in it would be one and the same.
 */
static int copy_shim(int from_fd, int to_fd, struct err *e)
{
	char block[64 * 1024];
	uint64_t total = 0;
	ssize_t n;
	int r;

	while ((n = pread(from_fd, block, sizeof(block), (off_t)total)) > 0) {
		total += (uint64_t)n;
		if (total > SHIM_BYTES_MAX)
			return err_set(e, EFBIG, "the sudo program is not one");
		r = write_full(to_fd, block, (size_t)n);
		if (r < 0) {
			errno = -r;
			return err_sys(e, "write /usr/local/bin/sudo");
		}
	}
	if (n == 0 && total > 0)
		return 0;
	if (n == 0)
		errno = ENODATA;
	return err_sys(e, "read the sudo program");
}

static int install_shim(int root_fd, int shim_fd, struct err *e)
{
	static const char *const steps[] = { "", "usr", "usr/local",
					     "usr/local/bin" };
	AUTO_CLOSE int dir_fd = -1, fd = -1;
	size_t i;
	int r;

	for (i = 1; i < ARRAY_LEN(steps); i++) {
		auto_close(&dir_fd);
		dir_fd = open_or_make(root_fd, steps[i - 1], steps[i], e);
		if (dir_fd < 0)
			return dir_fd;
	}
	r = tree_remove(dir_fd, "sudo");
	fd = r < 0 ? r
		   : tree_open(dir_fd, "sudo", O_WRONLY | O_CREAT | O_EXCL,
			       0700);
	if (fd < 0) {
		errno = -fd;
		return err_sys(e, "make /usr/local/bin/sudo");
	}
	r = copy_shim(shim_fd, fd, e);
	if (r < 0)
		return r;
	if (fchown(fd, 0, 0) < 0 || fchmod(fd, 0755) < 0)
		return err_sys(e, "set owner and mode of /usr/local/bin/sudo");
	/* The same program by its other name; an image's own stays. */
	if (symlinkat("sudo", dir_fd, "drive") < 0 && errno != EEXIST)
		return err_sys(e, "make /usr/local/bin/drive");
	return 0;
}

/* For scripts that say /usr/bin/sudo. Absolute: /usr/bin may be a link. */
static int link_shim(int root_fd, struct err *e)
{
	AUTO_CLOSE int dir_fd =
		tree_open_inside(root_fd, "usr/bin", O_PATH | O_DIRECTORY, 0);

	if (dir_fd < 0)
		return 0;
	if (symlinkat("/usr/local/bin/sudo", dir_fd, "sudo") < 0 &&
	    errno != EEXIST)
		return err_sys(e, "make /usr/bin/sudo");
	return 0;
}

/* Programs look up "localhost" before they ask anyone. */
static int make_hosts(int root_fd, struct err *e)
{
	static const char text[] =
		"127.0.0.1\tlocalhost\n"
		"::1\tlocalhost ip6-localhost ip6-loopback\n";
	AUTO_CLOSE int fd = tree_open(root_fd, "etc/hosts",
				      O_WRONLY | O_CREAT | O_EXCL, 0644);
	int r;

	if (fd == -EEXIST)
		return 0;
	r = fd < 0 ? fd : write_full(fd, text, sizeof(text) - 1);
	if (r < 0) {
		errno = -r;
		return err_sys(e, "make /etc/hosts");
	}
	return 0;
}

int prepare(int root_fd, int shim_fd, struct err *e)
{
	size_t i;
	int r = 0;

	if (fchown(root_fd, 0, 0) < 0 || fchmod(root_fd, 0755) < 0)
		return err_sys(e, "set owner and mode of the root");
	for (i = 0; i < ARRAY_LEN(dirs) && r == 0; i++)
		r = prepare_dir(root_fd, i, e);
	if (r == 0)
		r = users_prepare(root_fd, e);
	if (r == 0)
		r = install_shim(root_fd, shim_fd, e);
	if (r == 0)
		r = link_shim(root_fd, e);
	return r == 0 ? make_hosts(root_fd, e) : r;
}
