/*
 * Limits of the kernel that all processes of the host share, and that one
 * large sandbox can use up. The kernel makes them of the size of the host's
 * memory, which they are to protect. Memory groups do that already: an open
 * file and a closing connection are charged to their sandbox. So the warden
 * takes these limits away at its start, as systemd does with fs.file-max at
 * boot since version 240. Sandboxes start even if that fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "warden/warden.h"

static const struct {
	const char *path;
	long most;
} limits[] = {
	/* Open files. At this limit open() fails for every process without
	 * CAP_SYS_ADMIN, our own roles included. */
	{ "/proc/sys/fs/file-max", LONG_MAX },
	/* Connections that were closed with data on the way. At it, others lose
	 * the end of their answers. Only the host's own network has it. */
	{ "/proc/sys/net/ipv4/tcp_max_orphans", INT_MAX },
};

static void raise_limit(const char *path, long most)
{
	char text[32];
	int r = (int)read_file_at(AT_FDCWD, path, text, sizeof(text));

	if (r == -ENOENT ||
	    (r > 0 && strtoull(text, NULL, 10) >= (unsigned long long)most))
		return;
	snprintf(text, sizeof(text), "%ld", most);
	if (r >= 0)
		r = knob_write_at(AT_FDCWD, path, text);
	if (r < 0)
		log_warn("cannot write %s to %s: %s; a sandbox can use up this "
			 "limit of the host",
			 text, path, strerror(-r));
	else
		log_info("%s is %s now", path, text);
}

void host_limits_raise(void)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(limits); i++)
		raise_limit(limits[i].path, limits[i].most);
}
