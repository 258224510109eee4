/*
 * Work that the agent does itself, in a child (SPAWN_BUILTIN): for the client
 * a process like any other, with input, output and an exit. The child is a
 * fork of the agent that went through all of child.c, as the user who was
 * asked for, with 0, 1, 2 and nothing else; only the exec is missing. So a
 * mistake in one of these reaches what the user could reach anyway.
 *
 * A builtin writes data to descriptor 1 and, when it fails, one line for
 * people to descriptor 2. It may read what the agent knew when it forked and
 * never gets back to it. The list is closed: a name that is not in it is
 * refused before the fork.
 *
 * It is for its client alone: in no list, not to be attached to, and forgotten
 * with its exit. When the client goes before, it gets SIGHUP, and that before
 * its input ends: what was cut off is never taken for complete.
 */
#pragma once

#include <stdbool.h>

/* Returns the exit code. argv[0] is the name, argv[argc] is NULL. */
typedef int builtin_fn(int argc, char **argv);

struct builtin {
	const char *name;
	builtin_fn *fn;
	/*
	 * For the host alone ("host."): it runs as root whatever the sandbox's
	 * sudo is, and in the agent's own group, so that it goes on while user
	 * processes stand still. No client may ask for it by a frame.
	 */
	bool apart;
};

/* NULL when there is none of this name. */
const struct builtin *builtin_find(const char *name);

builtin_fn builtin_ps, builtin_file, builtin_drive;
