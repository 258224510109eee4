/* The environment and the argument list of a new process. */
#pragma once

#include <stdbool.h>

#include "agent/users.h"
#include "base/err.h"
#include "wire/frame.h"

#define DEFAULT_PATH \
	"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct environment {
	char **v; /* NULL-terminated; the requested words are not copied */
	char *text;
};

/*
 * What was asked for, and HOME, USER, LOGNAME, SHELL, PATH, LANG (and TERM on
 * a terminal) where the request does not name them.
 */
int environment_make(struct environment *env, const struct spawn *s,
		     const struct user *u, bool tty, struct err *e) MUST_CHECK;
void environment_done(struct environment *env);
/* The value of `name`, or NULL. */
const char *environment_get(char **v, const char *name);
