/*
 * Description of a snapshot in the pool: the spec of the sandbox whose disk the
 * snapshot is, as a line of text beside it. The api needs the line only to
 * adopt a snapshot without a row; a snapshot without the line works all the
 * same.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "warden/warden.h"

/* The flags that a new launch of the same sandbox would have. */
enum { KEPT = LAUNCH_SUDO | LAUNCH_PERSIST | LAUNCH_MICROVM | LAUNCH_STAYED };

void about_text(const struct launch_spec *s, bool stayed,
		char out[STORE_ABOUT_CAP])
{
	uint32_t flags = (s->flags | (stayed ? LAUNCH_STAYED : 0u)) & KEPT;

	snprintf(out, STORE_ABOUT_CAP,
		 "1 %s %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu64 " %" PRIu64
		 " %" PRIu64 " %s",
		 s->image, flags, s->pids, s->nofile, s->cpus_milli,
		 s->mem_bytes, s->disk_bytes, s->hostname);
}

static int parse(const char *text, struct launch_spec *out)
{
	if (sscanf(text,
		   "1 %27s %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu64
		   " %" SCNu64 " %" SCNu64 " %63s",
		   out->image, &out->flags, &out->pids, &out->nofile,
		   &out->cpus_milli, &out->mem_bytes, &out->disk_bytes,
		   out->hostname) != 8)
		return -EBADMSG;
	return id_valid(out->image) && name_valid(out->hostname) ? 0 : -EBADMSG;
}

void about_snapshot(struct warden *w, const char *id, struct launch_spec *out)
{
	char text[STORE_ABOUT_CAP], of[ID_CAP];

	*out = (struct launch_spec){ 0 };
	if (store_snapshot_about(&w->store, id, of, text) < 0 ||
	    !id_valid(of) || parse(text, out) < 0)
		*out = (struct launch_spec){ 0 };
	else
		memcpy(out->from, of, ID_CAP);
	memcpy(out->id, id, ID_CAP);
}
