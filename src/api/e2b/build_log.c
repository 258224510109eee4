#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/build.h"
#include "api/json_text.h"
#include "base/clock.h"

/* Text as it came from inside: cut, and made to be UTF-8. */
void build_log(struct build *b, const char *level, const char *step,
	       const char *text, size_t n)
{
	static const char last[] = "the log is full, the rest is left out";
	char stamp[CLOCK_STAMP];
	size_t rows;

	if (!b->log)
		b->log = json_array();
	rows = json_array_size(b->log);
	if (rows > BUILD_LOG_MAX)
		return;
	if (n > BUILD_LOG_LINE)
		n = BUILD_LOG_LINE;
	if (rows == BUILD_LOG_MAX || b->log_bytes + n > BUILD_LOG_BYTES) {
		if (b->log_bytes > BUILD_LOG_BYTES)
			return;
		b->log_bytes = BUILD_LOG_BYTES + 1;
		text = last;
		n = strlen(last);
	}
	b->log_bytes += n;
	clock_stamp(clock_wall_ms(), stamp);
	json_array_append_new(b->log,
			      json_pack("{s:s, s:s, s:s, s:o}", "timestamp",
					stamp, "level", level, "step", step,
					"message", json_lossy(text, n)));
}

void build_logf(struct build_work *w, const char *level, const char *fmt, ...)
{
	char text[BUILD_LOG_LINE];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	build_log(w->build, level, w->step, text, strlen(text));
}

void build_logs_prune(struct api *a)
{
	for (;;) {
		struct build *oldest = NULL;
		struct list *n, *next, *m, *after;
		unsigned kept = 0;

		list_each (n, next, &a->templates.all) {
			struct template *t =
				container_of(n, struct template, node);

			list_each (m, after, &t->builds) {
				struct build *b =
					container_of(m, struct build, node);

				if (!b->log || b->work)
					continue;
				kept++;
				if (!oldest ||
				    b->finished_ms < oldest->finished_ms)
					oldest = b;
			}
		}
		if (kept <= BUILD_LOGS_KEPT)
			return;
		json_decref(oldest->log);
		oldest->log = NULL;
	}
}
