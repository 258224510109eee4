/*
 * The agent's unpacking of tars into a directory of its own. A crash, too:
 * anything that appears or changes beside that directory, a device, a set-id
 * file. Checksums are made right first, or nothing would be looked at.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The agent's files are not in the library. */
#include "agent/file/out.c"
#include "agent/file/place.c"
#include "agent/file/tree.c"
#include "agent/file/unpack.c"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static char top[] = "/tmp/agent_tar_fuzz.XXXXXX";
static int top_fd = -1;

static void clean_up(void)
{
	umount2(top, MNT_DETACH);
	rmdir(top);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const struct rlimit no_large = { 1 << 20, 1 << 20 };
	int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	(void)argc;
	(void)argv;
	/* A mount namespace of its own: a crash leaves no mount behind. */
	if (!mkdtemp(top) || unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", top, "tmpfs", MS_NOSUID | MS_NODEV,
		  "size=64m,nr_inodes=8192,mode=755") < 0) {
		perror("mount a tmpfs (as root)");
		exit(1);
	}
	atexit(clean_up);
	top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* Only what is unpacked: libFuzzer's own files are small. */
	if (setrlimit(RLIMIT_FSIZE, &no_large) < 0 || top_fd < 0 ||
	    dup2(null_fd, STDOUT_FILENO) < 0)
		abort();
	signal(SIGXFSZ, SIG_IGN);
	return 0;
}

/* Of a header that was changed: the checksum stops no attacker either. */
static void fix_sum(uint8_t block[TAR_BLOCK])
{
	enum { AT = 148, LEN = 8 };
	unsigned sum = 0, i;

	memset(block + AT, ' ', LEN);
	for (i = 0; i < TAR_BLOCK; i++)
		sum += block[i];
	snprintf((char *)block + AT, LEN - 1, "%06o", sum);
}

static int input_fd(const uint8_t *data, size_t n)
{
	int fd = memfd_create("tar", MFD_CLOEXEC);
	uint8_t block[TAR_BLOCK];
	size_t i, part;

	for (i = 0; i < n; i += part) {
		part = n - i < TAR_BLOCK ? n - i : TAR_BLOCK;
		memcpy(block, data + i, part);
		if (part == TAR_BLOCK && memcmp(block + 257, "ustar", 5) == 0)
			fix_sum(block);
		if (write_full(fd, block, part) < 0)
			abort();
	}
	if (lseek(fd, 0, SEEK_SET) != 0)
		abort();
	return fd;
}

static void check_tree(int dir_fd)
{
	AUTO_DIR DIR *d = dir_stream(dir_fd);
	const char *name;
	struct stat st;

	if (!d)
		abort();
	while ((name = dir_next(d))) {
		if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			abort();
		if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode) ||
		    S_ISSOCK(st.st_mode) || st.st_mode & (S_ISUID | S_ISGID))
			abort();
		if (S_ISDIR(st.st_mode))
			check_tree(dir_open(dir_fd, name, true));
	}
}

/* Nothing but "root" and "victim", which is empty. */
static void check_top(void)
{
	AUTO_DIR DIR *d = dir_stream(dir_open(top_fd, ".", true));
	const char *name;

	while (d && (name = dir_next(d)))
		if (strcmp(name, "root") != 0 && strcmp(name, "victim") != 0)
			abort();
	if (!d || unlinkat(top_fd, "victim", AT_REMOVEDIR) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	AUTO_CLOSE int tar_fd = input_fd(data, n);
	AUTO_CLOSE int root_fd = -1;
	struct err e = { 0 };
	int r;

	if (mkdirat(top_fd, "root", 0755) < 0 ||
	    mkdirat(top_fd, "victim", 0755) < 0 ||
	    dup2(tar_fd, STDIN_FILENO) < 0)
		abort();
	root_fd = openat(top_fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	notes = 0;
	r = unpack_into(root_fd, &e);
	if (r < 0 && e.code != -r)
		abort();
	err_clear(&e);
	if (out_flush(&e) < 0)
		abort();
	check_tree(dup(root_fd));
	check_top();
	if (tree_unlink(top_fd, "root", "root", &e) < 0)
		abort();
	return 0;
}
