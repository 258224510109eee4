/*
 * How a layer says that something of the layers below it is gone: by the names
 * of entries.
 */
#pragma once

#include "base/str.h"

/* ".wh.NAME": the NAME beside it is gone. */
#define WHITEOUT_PREFIX ".wh."
/* What was in the directory that holds this is gone. */
#define WHITEOUT_OPAQUE ".wh..wh..opq"
/* Other notes of one old file system, which mean nothing to anyone else. */
#define WHITEOUT_NOTE ".wh..wh."

enum whiteout { WHITEOUT_NONE, WHITEOUT_ONE, WHITEOUT_ALL, WHITEOUT_IGNORED };

/* Of the last component of a path; `*gone` is NAME for WHITEOUT_ONE. */
static inline enum whiteout whiteout_kind(const char *name, const char **gone)
{
	if (!str_starts(name, WHITEOUT_PREFIX))
		return WHITEOUT_NONE;
	if (!str_starts(name, WHITEOUT_NOTE)) {
		*gone = name + sizeof(WHITEOUT_PREFIX) - 1;
		return WHITEOUT_ONE;
	}
	return str_starts(name, WHITEOUT_OPAQUE) &&
			       !name[sizeof(WHITEOUT_OPAQUE) - 1]
		       ? WHITEOUT_ALL
		       : WHITEOUT_IGNORED;
}
