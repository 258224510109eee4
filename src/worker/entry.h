/* One entry of an archive made real below the root. */
#pragma once

#include "worker/unpack.h"

/* Reads the entry's content, too. */
int entry_put(struct job *j, struct archive_entry *ae,
	      struct err *e) MUST_CHECK;
