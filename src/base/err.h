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
}; /* < PIPE_BUF: a child sends it with one write() */

/* Each returns -code, so that callers can write `return err_set(...)`. */
int err_set(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Takes errno and adds its text. */
int err_sys(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Puts context in front of an error that is already there. */
int err_wrap(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

#ifdef __clang_analyzer__
/* Tells the static analyser what it cannot see: they never return success. */
static inline int err_known(int r)
{
	if (r >= 0)
		__builtin_unreachable();
	return r;
}
#define err_set(...) err_known(err_set(__VA_ARGS__))
#define err_sys(...) err_known(err_sys(__VA_ARGS__))
#define err_wrap(...) err_known(err_wrap(__VA_ARGS__))
#endif

static inline void err_clear(struct err *e)
{
	e->code = 0;
	e->msg[0] = '\0';
}
