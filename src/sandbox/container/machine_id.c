/*
 * /etc/machine-id: what programs take for the identity of their machine. An
 * image may have one for all that start from it, or an empty one, with which
 * programs fail, and a snapshot has its sandbox's; so each sandbox gets its
 * own, made of its id: the same again in its next life, and another one in
 * every fork. A new file in the overlay costs a create about 0.1 ms.
 *
 * What is there was made by somebody inside: only names below /etc are
 * touched, no link is followed, and whatever is in the way is left alone. An
 * image without the file has no use for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/sha.h"
#include "sandbox/container/machine_id.h"
#include "sandbox/container/steps.h"
#include "sandbox/mount.h"

enum { MACHINE_ID = 32 + 1 }; /* hex digits and a newline */

#define NAME "machine-id"
#define FRESH ".machine-id.new"

static void make_id(const char *sandbox, char out[MACHINE_ID + 1])
{
	static const char salt[] = "machine-id of a sandbox";
	unsigned char sum[SHA256_LEN];
	struct sha256 sha;
	int i;

	sha256_init(&sha);
	sha256_add(&sha, salt, sizeof(salt));
	sha256_add(&sha, sandbox, strlen(sandbox));
	sha256_end(&sha, sum);
	for (i = 0; i < 16; i++)
		snprintf(out + 2 * (size_t)i, 3, "%02x", sum[i]);
	memcpy(out + 32, "\n", 2);
}

static bool has_one(int etc_fd)
{
	struct stat st;

	return fstatat(etc_fd, NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(st.st_mode);
}

static bool is_ours(int etc_fd, const char *id)
{
	char old[MACHINE_ID + 1] = "";

	return read_file_at(etc_fd, NAME, old, sizeof(old)) == MACHINE_ID &&
	       memcmp(old, id, MACHINE_ID) == 0;
}

/* A new file in place of the old one, which may not be ours to write to. */
static void replace(int etc_fd, const char *id)
{
	AUTO_CLOSE int fd = -1;

	(void)unlinkat(etc_fd, FRESH, 0);
	fd = openat(etc_fd, FRESH,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
	if (fd < 0)
		return;
	if (write(fd, id, MACHINE_ID) != MACHINE_ID || fchmod(fd, 0444) < 0 ||
	    renameat(etc_fd, FRESH, etc_fd, NAME) < 0)
		(void)unlinkat(etc_fd, FRESH, 0);
}

void machine_id_set(int root_fd, const char *id)
{
	AUTO_CLOSE int etc_fd =
		open_beneath(root_fd, "etc", O_RDONLY | O_DIRECTORY);
	char text[MACHINE_ID + 1];

	if (etc_fd < 0 || !has_one(etc_fd))
		return;
	make_id(id, text);
	if (!is_ours(etc_fd, text))
		replace(etc_fd, text);
}

int step_machine_id(struct launch_ctx *l, struct err *e)
{
	(void)e;
	machine_id_set(l->root_fd, l->spec->id);
	return 0;
}
