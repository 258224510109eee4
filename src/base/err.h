/*
 * Errors: a caller-owned struct of fixed size, no heap, made once where the
 * failure happens and only wrapped on the way up.
 *
 * Functions in base/ return 0 (or a value) or -errno. Everything above takes
 * a `struct err *e` as its last parameter and returns what err_*() return.
 */
#pragma once

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

struct err {
	int code;      /* positive errno; 0 means "no error yet" */
	char msg[252]; /* always NUL-terminated, cut if too long */
};                     /* < PIPE_BUF: a child sends it with one write() */

/* Each returns -code, so that callers can write `return err_set(...)`. */
int err_set(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Takes errno and adds its text. */
int err_sys(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Puts context in front of an error that is already there. */
int err_wrap(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

static inline void err_clear(struct err *e)
{
	e->code = 0;
	e->msg[0] = '\0';
}
