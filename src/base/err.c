#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int(err_set)(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;

	assert(code > 0);
	assert(e->code == 0); /* an earlier error must not be overwritten */
	e->code = code;
	va_start(ap, fmt);
	vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
	va_end(ap);
	return -code;
}

int(err_sys)(struct err *e, const char *fmt, ...)
{
	int code = errno ? errno : EIO;
	size_t n;
	va_list ap;

	assert(e->code == 0);
	e->code = code;
	va_start(ap, fmt);
	vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
	va_end(ap);
	n = strlen(e->msg);
	snprintf(e->msg + n, sizeof(e->msg) - n, ": %s", strerror(code));
	return -code;
}

int(err_wrap)(struct err *e, const char *fmt, ...)
{
	char old[sizeof(e->msg)];
	size_t n;
	va_list ap;

	assert(e->code > 0);
	memcpy(old, e->msg, sizeof(old));
	va_start(ap, fmt);
	vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
	va_end(ap);
	n = strlen(e->msg);
	snprintf(e->msg + n, sizeof(e->msg) - n, ": %s", old);
	return -e->code;
}
