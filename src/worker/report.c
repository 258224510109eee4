#include "worker/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "wire/worker.h"

enum { PROGRESS_MS = 100 };

static int put_text(struct report *r, const char *text, size_t n, struct err *e)
{
	int w = write_full(r->fd, text, n);

	if (w == 0)
		return 0;
	errno = -w;
	return err_sys(e, "report to whoever asked for the import");
}

static int put_counts(struct report *r, const char *word, uint64_t entries,
		      uint64_t bytes, struct err *e)
{
	char line[WORKER_LINE_MAX];
	int n = snprintf(line, sizeof(line), "%s %" PRIu64 " %" PRIu64 "\n",
			 word, entries, bytes);

	return put_text(r, line, (size_t)n, e);
}

int report_config(struct report *r, const char *json, struct err *e)
{
	struct buf line = { 0 };
	int w;

	buf_printf(&line, "config %s\n", json);
	w = put_text(r, buf_data(&line), buf_len(&line), e);
	buf_done(&line);
	return w;
}

int report_progress(struct report *r, uint64_t entries, uint64_t bytes,
		    struct err *e)
{
	uint64_t now = clock_boot_ms();

	if (now - r->last_ms < PROGRESS_MS)
		return 0;
	r->last_ms = now;
	return put_counts(r, "progress", entries, bytes, e);
}

int report_done(struct report *r, uint64_t entries, uint64_t bytes,
		struct err *e)
{
	return put_counts(r, "done", entries, bytes, e);
}

void report_error(struct report *r, const struct err *why)
{
	char line[WORKER_LINE_MAX];
	size_t i, n;

	snprintf(line, sizeof(line) - 1, "error %s", why->msg);
	n = strlen(line);
	for (i = 0; i < n; i++)
		if (line[i] < ' ' || line[i] > '~')
			line[i] = '?';
	line[n++] = '\n';
	if (write_full(r->fd, line, n) < 0)
		log_warn("nobody hears: %s", why->msg);
}
