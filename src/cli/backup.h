/*
 * A backup is a tar:
 *
 *	FORMAT			of the state directory it was taken from
 *	registry/registry.db	projects, keys, usage, names of images
 *	audit/...		the log, its head and its public key
 *	carrel.conf
 *	SHA256SUMS		of all that is in front of it, as sha256sum does
 *
 * Images and sandboxes are not in it, and neither is the key that signs the
 * log: whoever has a backup must not be able to write history. Secrets are in
 * the registry as they were sealed; what opens them, state_dir/gate/vault, is
 * not here: whoever has a backup must not be able to use them.
 */
#pragma once

#include "base/err.h"

#define BACKUP_FORMAT "FORMAT"
#define BACKUP_REGISTRY "registry/registry.db"
#define BACKUP_AUDIT "audit"
#define BACKUP_CONF PRODUCT ".conf"
#define BACKUP_SUMS "SHA256SUMS"
#define AUDIT_SECRET "key"
#define AUDIT_PUBLIC "key.pub"

/* What was unpacked into a directory is a backup, and whole. */
int backup_check(int dir_fd, struct err *e) MUST_CHECK;
