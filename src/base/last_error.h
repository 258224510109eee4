/*
 * Why a role does not start: its last error, kept in run_dir/ROLE.error for the
 * other roles and for `doctor`. The file is empty once the role is ready, and
 * the supervisor removes it before the first start.
 *
 * A role opens the file when it knows its configuration, because later it may
 * have no way to the host's directories. From then on base/log.c copies every
 * line of level "error" into it, until the role is ready.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Without the directory nothing is kept: a role may run by itself. */
void last_error_open(const char *run_dir, const char *role);
/* The role is ready: empties the file and closes it. */
void last_error_clear(void);
void last_error_close(void);
/* For base/log.c: `n` bytes without control characters. */
void last_error_put(const char *text, size_t n);

/* For readers: the error as text. False: the role has left no error. */
bool last_error_read(const char *run_dir, const char *role, char *out,
		     size_t cap);
/* For the supervisor, before a role starts for the first time. */
void last_error_remove(const char *run_dir, const char *role);
