/*
 * Are two entries the same? What can be proven from the file system's own
 * facts is not read:
 *
 *  - two entries that no sandbox wrote, of the same image, with the same inode
 *    number, are one (and so is all below, if it is a directory);
 *  - two snapshots of the same tree share an inode that was not changed since
 *    the older of them was made, by its number and times;
 *  - two files whose extents lie at the same places of the disk have the same
 *    content.
 *
 * Times alone prove nothing: two forks of one sandbox that do the same at the
 * same moment make files with the same numbers and times, and other content.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "worker/walk.h"

/* One and the same, with all that is below. */
bool compare_is_one(const struct walk *w, const struct visit *v, unsigned a,
		    unsigned b);
/*
 * How two entries differ: 0, or bits of enum view_what. Of directories only
 * the entries themselves are compared.
 */
int compare(struct walk *w, const struct visit *v, unsigned a, unsigned b,
	    unsigned *what, struct err *e) MUST_CHECK;
