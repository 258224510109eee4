#include "worker/unpack.h"

#include <errno.h>

#include "worker/entry.h"
#include "worker/later.h"
#include "worker/layout.h"
#include "worker/limits.h"

static int put(struct job *j, struct archive_entry *ae, struct err *e)
{
	int r;

	if (++j->n.entries > ARCHIVE_ENTRIES_MAX)
		return err_set(e, E2BIG, "over 2000000 entries in the archive");
	r = entry_put(j, ae, e);
	if (r < 0)
		return r;
	return report_progress(j->report, j->n.entries, j->n.bytes, e);
}

int unpack_entries(struct job *j, struct err *e)
{
	struct archive_entry *ae;
	int r;

	while ((r = source_next(j->src, &ae, e)) > 0) {
		r = put(j, ae, e);
		if (r < 0)
			return r;
	}
	return r;
}

/* The first entry that says something decides what the archive is. */
static int unpack_archive(struct job *j, struct err *e)
{
	struct archive_entry *ae;
	enum layout_guess guess = GUESS_NONE;
	int r;

	while (guess == GUESS_NONE) {
		r = source_next(j->src, &ae, e);
		if (r <= 0)
			return r;
		guess = layout_guess(ae);
		if (guess == GUESS_IMAGE) {
			j->n.entries = 0; /* of the image, not of the archive */
			return layout_unpack(j, ae, e);
		}
		r = put(j, ae, e);
		if (r < 0)
			return r;
	}
	return unpack_entries(j, e);
}

int unpack(struct job *j, int tar_fd, struct err *e)
{
	int r;

	supply_fd_init(&j->tar, tar_fd);
	j->src = &j->archive;
	r = source_open(j->src, &j->tar.supply, SOURCE_TAR, e);
	if (r < 0)
		return r;
	r = unpack_archive(j, e);
	if (r < 0)
		return r;
	r = supply_drain(&j->tar.supply, e);
	if (r < 0)
		return r;
	return later_apply(&j->dirs, j->root_fd, e);
}

void job_done(struct job *j)
{
	source_done(&j->archive);
	seen_done(&j->seen);
	later_done(&j->dirs);
}
