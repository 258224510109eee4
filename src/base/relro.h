/* What a dynamic linker would do, for a program that has none. */
#pragma once

#include "base/err.h"

/* Tables of pointers become read-only. 0 or -errno. */
int relro_protect(void) MUST_CHECK;
