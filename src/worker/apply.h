/*
 * A snapshot becomes an image: the directory to fill starts as a copy of the
 * image that the snapshot lies over, and gets what the sandbox changed. The
 * rules are those of unpack.h: set-id bits and all attributes but `user.*` are
 * dropped, sockets and devices left out.
 */
#pragma once

#include "base/err.h"
#include "worker/report.h"

int apply(int root_fd, int view_fd, int upper_fd, struct report *report,
	  struct err *e) MUST_CHECK;
