/*
 * A snapshot becomes an image: the directory to fill starts as a copy of the
 * image that the snapshot lies over, and gets what the sandbox changed. The
 * rules are those of unpack.h: set-id bits and all attributes but `user.*` are
 * dropped, sockets and devices left out.
 */
#pragma once

#include "base/err.h"
#include "worker/report.h"

struct applied {
	uint64_t entries, bytes; /* looked at; of files that were made anew */
};

int apply(int root_fd, int view_fd, int upper_fd, struct report *report,
	  struct applied *out, struct err *e) MUST_CHECK;
