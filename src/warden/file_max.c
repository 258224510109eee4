/*
 * fs.file-max: how many files all processes of the host may have open. At it
 * every process without CAP_SYS_ADMIN fails, also our own roles. The kernel
 * makes it of a tenth of the memory, which one large sandbox can use up.
 *
 * The number protects memory, and memory groups do that already: an open file
 * is charged to its sandbox. So the warden takes the number away, as systemd
 * does at boot since version 240. Where that is not possible, sandboxes start
 * all the same.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "warden/warden.h"

static const char path[] = "/proc/sys/fs/file-max";

void file_max_raise(void)
{
	char text[32];
	int r = (int)read_file_at(AT_FDCWD, path, text, sizeof(text));

	if (r > 0 && strtoull(text, NULL, 10) >= LONG_MAX)
		return;
	snprintf(text, sizeof(text), "%ld", LONG_MAX);
	if (r >= 0)
		r = knob_write_at(AT_FDCWD, path, text);
	if (r < 0)
		log_warn("cannot raise fs.file-max: %s; a sandbox can use up "
			 "the host's open files: set it to %ld with sysctl",
			 strerror(-r), LONG_MAX);
	else
		log_info("raised fs.file-max to %ld: open files count as "
			 "memory of their sandbox",
			 LONG_MAX);
}
