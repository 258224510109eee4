/* Less power, with no way back. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Its ids; root is refused. `key` is where the configuration names it. */
int privs_find_user(const char *name, const char *key, uid_t *uid, gid_t *gid,
		    struct err *e) MUST_CHECK;
/*
 * Gives up every capability and every id but these; sets no_new_privs, no
 * core files and undumpable. The signal that tells of the parent's end stays.
 */
int privs_drop(uid_t uid, gid_t gid, const gid_t *groups, size_t n_groups,
	       struct err *e) MUST_CHECK;
/*
 * For root, who stays that: keeps these of the capabilities that it has, for
 * itself and for whatever program it starts, and can never get another.
 */
int privs_limit(uint64_t caps, struct err *e) MUST_CHECK;
/*
 * For root of a user namespace, who stays that: keeps these capabilities and no
 * others, in no set that a program inherits; sets no_new_privs and undumpable.
 */
int privs_keep(uint32_t caps, struct err *e) MUST_CHECK;
