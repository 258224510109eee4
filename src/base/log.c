#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/last_error.h"

static const char *log_role = "";
static enum log_level log_max = LOG_INFO;
static bool log_journal;

static const struct {
	const char *name;
	int priority; /* of syslog */
} levels[] = {
	[LOG_ERR] = { "error", 3 },
	[LOG_WARN] = { "warning", 4 },
	[LOG_INFO] = { "info", 6 },
	[LOG_DEBUG] = { "debug", 7 },
};
static_assert(ARRAY_LEN(levels) == LOG_LEVELS, "a name for each level");

void log_init(const char *role, enum log_level max)
{
	log_role = role;
	log_max = max;
	log_journal = getenv("JOURNAL_STREAM") != NULL;
}

static void emit(enum log_level level, const char *fmt, va_list ap)
	PRINTF_LIKE(2, 0);

/* One write() per line, so that lines of several roles never mix. */
static void emit(enum log_level level, const char *fmt, va_list ap)
{
	char line[1024];
	int n = 0;
	size_t len, i, start;

	if (log_journal)
		n = snprintf(line, sizeof(line), "<%d>",
			     levels[level].priority);
	n += snprintf(line + n, sizeof(line) - (size_t)n, "%s %s ",
		      levels[level].name, log_role);
	start = (size_t)n;
	n = vsnprintf(line + start, sizeof(line) - start - 1, fmt, ap);
	len = start + (n > 0 ? (size_t)n : 0);
	if (len > sizeof(line) - 2)
		len = sizeof(line) - 2;
	for (i = start; i < len; i++)
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = '?';
	if (level == LOG_ERR)
		last_error_put(line + start, len - start);
	line[len++] = '\n';
	if (write(STDERR_FILENO, line, len) < 0)
		return; /* nowhere left to say so */
}

void log_line(enum log_level level, const char *fmt, ...)
{
	va_list ap;

	if (level > log_max)
		return;
	va_start(ap, fmt);
	emit(level, fmt, ap);
	va_end(ap);
}

void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	emit(LOG_ERR, fmt, ap);
	va_end(ap);
	exit(1);
}

void die_at_start(const struct err *e)
{
	log_err("%s", e->msg);
	exit(e->code == EINVAL ? EXIT_SETTINGS : 1);
}
