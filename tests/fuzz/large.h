/* Files that are too large are an error here, as they are in a worker. */
#pragma once

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

/* libFuzzer takes the place of SIG_IGN, but not that of a handler. */
static void too_large(int number)
{
	(void)number;
}

/* Only what is unpacked: libFuzzer's own files are small. */
static inline void no_large_files(void)
{
	const struct rlimit most = { 1 << 20, 1 << 20 };

	if (setrlimit(RLIMIT_FSIZE, &most) < 0 ||
	    signal(SIGXFSZ, too_large) == SIG_ERR)
		abort();
}
