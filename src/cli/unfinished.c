/* Files that are written under another name until they are whole. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"

static const char *unfinished;

static void drop(void)
{
	if (unfinished)
		unlink(unfinished);
}

static void on_signal(int number)
{
	drop();
	signal(number, SIG_DFL);
	raise(number);
}

void cli_unfinished(const char *path)
{
	static bool registered;

	unfinished = path;
	if (registered)
		return;
	registered = true;
	atexit(drop);
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	signal(SIGHUP, on_signal);
}
