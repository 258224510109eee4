/*
 * Namespaces that cannot be made. The kernel says ENOSPC ("No space left on
 * device") when a limit in /proc/sys/user is reached; an operator needs the
 * name of that limit.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

/*
 * The error of unshare() or clone3() with these CLONE_NEW* flags. `code` is the
 * positive errno; ENOSPC becomes EUSERS with the sysctl to raise.
 */
int err_spaces(struct err *e, int code, uint64_t flags, const char *what);
