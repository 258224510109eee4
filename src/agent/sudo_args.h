/* What `sudo` was asked for: its options, and the environment it passes on. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "wire/frame.h"

struct request {
	struct spawn spawn; /* argc 0: there is nothing to run */
	struct buf text;    /* of a command that is quoted for a shell */
};

/* Prints help or version and exits where that is asked for. */
int request_parse(struct request *q, int argc, char **argv,
		  struct err *e) MUST_CHECK;
