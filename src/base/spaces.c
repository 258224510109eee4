#include "base/spaces.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fd.h"

enum { SUGGESTED = 65536 };

static const struct {
	uint64_t flag;
	const char *name;
} kinds[] = {
	{ CLONE_NEWUSER, "user" },     { CLONE_NEWNS, "mnt" },
	{ CLONE_NEWPID, "pid" },       { CLONE_NEWNET, "net" },
	{ CLONE_NEWIPC, "ipc" },       { CLONE_NEWUTS, "uts" },
	{ CLONE_NEWCGROUP, "cgroup" },
};

/* The limit of our own user namespace, or -1. */
static long long read_limit(const char *kind)
{
	char path[64], text[32];

	snprintf(path, sizeof(path), "/proc/sys/user/max_%s_namespaces", kind);
	if (read_file_at(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return -1;
	return strtoll(text, NULL, 10);
}

int err_spaces(struct err *e, int code, uint64_t flags, const char *what)
{
	const char *kind = "user";
	long long least = -1;
	size_t i;

	if (code != ENOSPC)
		return err_set(e, code, "%s: %s", what, strerror(code));
	/* The kernel does not say which one: the smallest is reached first. */
	for (i = 0; i < ARRAY_LEN(kinds); i++) {
		long long limit =
			flags & kinds[i].flag ? read_limit(kinds[i].name) : -1;

		if (limit >= 0 && (least < 0 || limit < least)) {
			least = limit;
			kind = kinds[i].name;
		}
	}
	return err_set(e, EUSERS,
		       "%s: the limit user.max_%s_namespaces = %lld is "
		       "reached; raise it: sysctl -w "
		       "user.max_%s_namespaces=%d",
		       what, kind, least, kind, SUGGESTED);
}
