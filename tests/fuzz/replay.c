/*
 * The main() of a fuzz target without libFuzzer: each file of the directories
 * that are its arguments is one input. So the suite gives every target its
 * corpus, with what once was a finding in it.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int __attribute__((weak)) LLVMFuzzerInitialize(int *argc, char ***argv);

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* In memory of exactly its size, so that a byte too far is seen. */
static void replay(int dir_fd, const char *name)
{
	AUTO_CLOSE int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	struct stat st;
	uint8_t *data;

	if (fd < 0 || fstat(fd, &st) < 0)
		fail(name);
	data = malloc(st.st_size > 0 ? (size_t)st.st_size : 1);
	if (!data || read_full(fd, data, (size_t)st.st_size) < 0)
		fail(name);
	fprintf(stderr, "# %s\n", name);
	(void)LLVMFuzzerTestOneInput(data, (size_t)st.st_size);
	free(data);
}

static unsigned replay_all(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *ent;
	unsigned n = 0;

	if (!d)
		fail(path);
	while ((ent = readdir(d)))
		if (ent->d_name[0] != '.') {
			replay(fd, ent->d_name);
			n++;
		}
	closedir(d);
	return n;
}

int main(int argc, char **argv)
{
	unsigned n = 0;
	int i;

	if (LLVMFuzzerInitialize && LLVMFuzzerInitialize(&argc, &argv) != 0)
		return 1;
	for (i = 1; i < argc; i++)
		n += replay_all(argv[i]);
	fprintf(stderr, "%u inputs\n", n);
	return n == 0; /* a target without a corpus is a mistake */
}
