/* carrel image build FILE; what a file says is in build_plan.h. */
#pragma once

#include "cli/cli.h"

struct build_file {
	const char *path;
	const char *name; /* NULL: that of the file without its endings */
	bool fresh;       /* take nothing that was made before */
	bool json;
};

/* The exit code. */
int build_file(struct cli *cli, const struct build_file *f);
