/*
 * Names of entries. A tar's name is any bytes; a clean one is relative, has
 * no ".", "..", or empty component, and fits the limits.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "worker/limits.h"

struct path {
	char s[ENTRY_PATH_MAX + 1]; /* "" is the root itself */
	size_t name_at;             /* where the last component starts */
};

/*
 * Leading "/" and "./" are dropped: "/etc/passwd" in an archive means the
 * image's. ".." is refused wherever it stands, as are names that no file
 * system could hold. `what` names the thing in the error.
 */
int path_clean(struct path *p, const char *raw, const char *what,
	       struct err *e) MUST_CHECK;
static inline const char *path_name(const struct path *p)
{
	return p->s + p->name_at;
}
