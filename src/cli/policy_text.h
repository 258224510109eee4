/* Verbs of `policy`, a file each. */
#pragma once

#include "cli/cli.h"

/* All of a file; "-" is standard input. No longer than a policy may be. */
void policy_text(struct cli *cli, const char *path, struct buf *out);

/* policy_saved.c */
verb_fn policy_set, policy_ls, policy_show, policy_rm, policy_presets;
/* policy_learn.c */
verb_fn policy_learn;
