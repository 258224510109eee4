/* Verbs of `policy`, a file each. */
#pragma once

#include "cli/cli.h"

/* All of a file; "-" is standard input. No longer than a policy may be. */
void policy_text(struct cli *cli, const char *path, struct buf *out);

/* The same, as what it says. */
struct policy;
void policy_load(struct cli *cli, const char *path, struct policy *p);

/* policy_saved.c */
/* /v1/policies/NAME?project=PROJECT (NULL: the own one) */
void policy_target(struct cli *cli, const char *name, const char *project,
		   struct buf *out);
verb_fn policy_set, policy_ls, policy_show, policy_rm, policy_presets;
/* policy_test.c */
verb_fn policy_test;
/* policy_learn.c */
verb_fn policy_learn;
