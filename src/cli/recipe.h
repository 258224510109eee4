/*
 * Recipes: data in share/images/NAME/ that `image build` follows.
 *
 *	packages	one per line, '#' starts a comment; "@NAME" are those
 *			of another recipe
 *	customize.sh	run by mmdebstrap when all is installed, with the
 *			directory of the new root as its operand
 *	dpkg.cfg	options of dpkg, as it reads them; may be missing,
 *			as the rest
 *	start		a command that sandboxes of it run, one line
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "base/buf.h"
#include "cli/cli.h"

struct recipe {
	char dir[PATH_MAX];
	char customize[PATH_MAX + 32];
	char dpkg_cfg[PATH_MAX + 32];
	struct buf packages; /* joined by commas */
	char start[1024];    /* "": nothing */
};

bool recipe_exists(const char *name);
/* Exits when there is no such recipe, and says where it looked. */
void recipe_load(struct cli *cli, struct recipe *r, const char *name);
void recipe_done(struct recipe *r);
