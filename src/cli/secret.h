/* Values of secrets on their way from a person to the door. */
#pragma once

#include "cli/cli.h"
#include "vault/secret.h"

/* SECRET_VALUE_MAX + 1 bytes that are not swapped, for sodium_free(). */
char *secret_memory(struct cli *cli);
/* From standard input, without its end of line; from a terminal unseen. */
void secret_read_value(struct cli *cli, const char *name, char *p, size_t *n);
/* /v1/secrets/NAME and what follows; the project if there is one. */
void secret_target(struct cli *cli, char *out, const char *name,
		   const char *suffix, const char *project);
/* Sealed to the door of the project (NULL: the usual one); the answer. */
json_t *secret_put(struct cli *cli, const struct secret *s, const char *project,
		   const char *value, size_t n);

/* secret_connect.c */
int secret_connect(struct cli *cli, int argc, char **argv);
