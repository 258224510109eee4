/* Limits of the whole host, which the warden raises: in the host's own
 * network, because no other one has all of them. */
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/log.h"
#include "check.h"
#include "warden/warden.h"

static const struct {
	const char *path, *small;
	long most;
} limits[] = {
	{ "/proc/sys/fs/file-max", "2000000", LONG_MAX },
	{ "/proc/sys/net/ipv4/tcp_max_orphans", "100000", INT_MAX },
};

static char before[ARRAY_LEN(limits)][32];

/* False: it is not there, or may not be changed. */
static bool lower(size_t i)
{
	ssize_t n = read_file_at(AT_FDCWD, limits[i].path, before[i],
				 sizeof(before[i]));

	if (n > 0 &&
	    knob_write_at(AT_FDCWD, limits[i].path, limits[i].small) == 0)
		return true;
	printf("# %s cannot be changed here\n", limits[i].path);
	return false;
}

static void check_raised(size_t i)
{
	char after[32];

	CHECK(read_file_at(AT_FDCWD, limits[i].path, after, sizeof(after)) > 0);
	CHECK(strtol(after, NULL, 10) == limits[i].most);
	before[i][strcspn(before[i], "\n")] = '\0';
	CHECK(knob_write_at(AT_FDCWD, limits[i].path, before[i]) == 0);
}

int main(void)
{
	AUTO_CLOSE int net = open("/proc/1/ns/net", O_RDONLY | O_CLOEXEC);
	bool there[ARRAY_LEN(limits)];
	size_t i;

	log_init("test", LOG_ERR);
	if (net < 0 || setns(net, CLONE_NEWNET) < 0)
		printf("# the host's network cannot be entered\n");
	for (i = 0; i < ARRAY_LEN(limits); i++)
		there[i] = lower(i);
	host_limits_raise();
	for (i = 0; i < ARRAY_LEN(limits); i++)
		if (there[i])
			check_raised(i);
	CHECK(true);
	return CHECK_DONE();
}
