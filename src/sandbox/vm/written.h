/*
 * Which pages of its memory a QEMU has written since it was last asked: of a
 * large memory little has changed between two looks at it. The kernel knows
 * (Linux 6.7), if the process itself has asked it to, see qemu/track.h. What it
 * cannot be asked, one has to look at all.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "sandbox/vm/ram.h"

/* The library that QEMU is started with: a nameless file, sealed. */
int written_library(struct err *e) MUST_CHECK;
/* Fails for a QEMU that was started without it, which a dynamic linker does
 * with a word on the console: nothing would be closed behind its start. Asked
 * when QEMU has answered: what the library does is done by then. */
int written_loaded(int process_fd, struct err *e) MUST_CHECK;

/* From now on it is known. False: it is not. */
bool written_watch(struct ram_save *s);
void written_leave(struct ram_save *s);
/* Calls for each run of pages that were written since, and has them be known
 * anew. -ENOTSUP: one has to look at all. */
int written_each(struct ram_save *s,
		 int (*fn)(struct ram_save *s, uint64_t page, uint64_t n,
			   struct err *e),
		 struct err *e) MUST_CHECK;
