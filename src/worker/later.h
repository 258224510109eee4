/*
 * Times of directories, set when nothing more is put into them. The memory is
 * bounded (LATER_BYTES_MAX): what does not fit keeps the time of the import.
 */
#pragma once

#include <time.h>

#include "worker/unpack.h"

void later_add(struct later *l, const char *path, const struct timespec *mtime);
/* Sets the times of those that are still directories. */
int later_apply(const struct later *l, int root_fd, struct err *e) MUST_CHECK;
void later_done(struct later *l);
