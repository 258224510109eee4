/*
 * A project's keys at rest: a pair for what is sealed to its door, and the
 * authority that its sandboxes trust. One file each, `vault/PROJECT.keys`,
 * encrypted with the vault's key: `vault/key`, or what `vault_key_command`
 * prints (64 hexadecimal digits).
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/conf.h"
#include "base/err.h"

enum { VAULT_KEY = 32, PAIR_KEY = 32 };

struct vault {
	int dir_fd;
	unsigned char key[VAULT_KEY];
};

/* One of the two: what the command prints, run as whoever we are; or the file,
 * made when nothing needs one that is gone. */
int vault_run_command(struct vault *v, const char *command,
		      struct err *e) MUST_CHECK;
int vault_read_key(struct vault *v, struct err *e) MUST_CHECK;
void vault_close(struct vault *v);

struct keys {
	unsigned char public[PAIR_KEY], private[PAIR_KEY];
	struct buf cert, key; /* PEM */
};

/* Those of the project; made if it has none. */
int keys_get(struct vault *v, const char *project, struct keys *out,
	     struct err *e) MUST_CHECK;
/* Wipes. */
void keys_done(struct keys *k);
