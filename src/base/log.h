/*
 * One line per event on stderr, `level role key=value ...`; under systemd the
 * level is also the journal's priority. Control bytes become '?': what came
 * from outside cannot forge a line.
 */
#pragma once

#include "base/err.h"

enum log_level { LOG_ERR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_LEVELS };

/* `role` is kept, not copied. */
void log_init(const char *role, enum log_level max);
void log_line(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);

#define log_err(...) log_line(LOG_ERR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

/* Start-up of a program, and the command line: says why and exits with 1. */
void die(const char *fmt, ...) PRINTF_LIKE(1, 2) __attribute__((noreturn));
/*
 * Of a role that starts. A setting that is wrong (EINVAL) has an exit status of
 * its own, because another start does not help: the supervisor ends with it.
 */
enum { EXIT_SETTINGS = 78 };
void die_at_start(const struct err *e) __attribute__((noreturn));
