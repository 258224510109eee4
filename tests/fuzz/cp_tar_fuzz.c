/*
 * What `carrel cp` does with a tar that a sandbox sends. A crash, too:
 * anything that appears or changes beside the directory, a device, a set-id
 * file. Checksums are made right first, or nothing would be looked at.
 */
#include <dirent.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>

/* The command line's files are not in the library. */
#include "cli/unpack.c"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static char top[] = "/tmp/cp_tar_fuzz.XXXXXX";
static int top_fd = -1;

void complain(const char *fmt, ...)
{
	(void)fmt;
}

static void clean_up(void)
{
	umount2(top, MNT_DETACH);
	rmdir(top);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
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
	return top_fd < 0;
}

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

/* Takes the tree away; aborts at what must not be there. */
static void take_away(int at, const char *name)
{
	int fd = openat(at, name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fdopendir(fd);
	struct dirent *ent;
	struct stat st;

	if (!d)
		abort();
	while ((ent = readdir(d))) {
		if (strcmp(ent->d_name, ".") == 0 ||
		    strcmp(ent->d_name, "..") == 0)
			continue;
		if (fstatat(fd, ent->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			abort();
		if (S_ISDIR(st.st_mode)) {
			take_away(fd, ent->d_name);
			continue;
		}
		if ((!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode)) ||
		    st.st_mode &
			    (S_ISUID | S_ISGID | S_ISVTX) * S_ISREG(st.st_mode))
			abort();
		if (unlinkat(fd, ent->d_name, 0) < 0)
			abort();
	}
	closedir(d);
	if (unlinkat(at, name, AT_REMOVEDIR) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	AUTO_CLOSE int tar_fd = input_fd(data, n);
	struct err e = { 0 };
	int root_fd, r;

	if (mkdirat(top_fd, "root", 0755) < 0 ||
	    mkdirat(top_fd, "victim", 0755) < 0)
		abort();
	root_fd = openat(top_fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = archive_unpack(tar_fd, root_fd, &e);
	if (r < 0 && e.code != -r)
		abort();
	close(root_fd);
	take_away(top_fd, "root");
	/* Empty, and nothing else beside it. */
	if (unlinkat(top_fd, "victim", AT_REMOVEDIR) < 0)
		abort();
	return 0;
}
