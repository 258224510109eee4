#include "worker/unpack.h"

#include <errno.h>

#include "worker/entry.h"
#include "worker/later.h"
#include "worker/limits.h"

static int unpack_entries(struct job *j, struct err *e)
{
	struct archive_entry *ae;
	int r;

	while ((r = source_next(&j->src, &ae, e)) > 0) {
		if (++j->n.entries > ARCHIVE_ENTRIES_MAX)
			return err_set(e, E2BIG,
				       "over 2000000 entries in the archive");
		r = entry_put(j, ae, e);
		if (r < 0)
			return r;
		r = report_progress(j->report, j->n.entries, j->n.bytes, e);
		if (r < 0)
			return r;
	}
	return r;
}

int unpack(struct job *j, int tar_fd, struct err *e)
{
	int r;

	r = source_open(&j->src, tar_fd, e);
	if (r < 0)
		return r;
	r = unpack_entries(j, e);
	if (r < 0)
		return r;
	r = source_drain(&j->src, e);
	if (r < 0)
		return r;
	return later_apply(&j->dirs, j->root_fd, e);
}

void job_done(struct job *j)
{
	source_done(&j->src);
	later_done(&j->dirs);
}
