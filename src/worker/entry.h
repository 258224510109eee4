/* One entry of an archive made real below the root. */
#pragma once

#include "worker/unpack.h"

/* Counts bytes that were written; an error when the pool is nearly full. */
int check_pool(struct job *j, size_t n, struct err *e) MUST_CHECK;
/* Reads the entry's content, too. */
int entry_put(struct job *j, struct archive_entry *ae,
	      struct err *e) MUST_CHECK;
