#include "api/project_disk.h"

#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/auto.h"
#include "base/buf.h"

/* A sandbox that is gone, and what one of its snapshots says it had. */
struct left {
	const char *sandbox;
	uint64_t bytes;
};

/* Of one sandbox together, the largest first. */
static int by_sandbox(const void *a, const void *b)
{
	const struct left *x = a, *y = b;
	int r = strcmp(x->sandbox, y->sandbox);

	return r ? r : (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

/* Snapshots share with each other: of each sandbox the largest counts. */
static uint64_t sum_largest(struct left *v, size_t n)
{
	uint64_t sum = 0;
	size_t i;

	qsort(v, n, sizeof(*v), by_sandbox);
	for (i = 0; i < n; i++)
		if (i == 0 || strcmp(v[i].sandbox, v[i - 1].sandbox) != 0)
			sum += v[i].bytes;
	return sum;
}

/* Those of a sandbox that lives are measured with it. */
static uint64_t snapshots_used(struct api *a, const char *project)
{
	AUTO_FREE struct left *v =
		xcalloc(a->snapshots.n ? a->snapshots.n : 1, sizeof(*v));
	struct list *n, *next;
	size_t count = 0;

	list_each (n, next, &a->snapshots.all) {
		const struct snapshot *snap =
			container_of(n, struct snapshot, node);
		const struct sandbox *s;

		if (strcmp(snap->project, project) != 0)
			continue;
		s = box_by_id(a, snap->sandbox);
		if (!s || s->state == BOX_SUSPENDED)
			v[count++] =
				(struct left){ snap->sandbox, snap->bytes };
	}
	return sum_largest(v, count);
}

static uint64_t sandboxes_used(struct api *a, const char *project)
{
	struct list *n, *next;
	uint64_t sum = 0;

	list_each (n, next, &a->boxes.all) {
		const struct sandbox *s = container_of(n, struct sandbox, all);

		if (!s->spare && s->state != BOX_SUSPENDED &&
		    strcmp(s->project, project) == 0)
			sum += s->meter.last.disk_bytes;
	}
	return sum;
}

static uint64_t drive_used(struct api *a, const char *project)
{
	struct err e = { 0 };
	const struct drive_share *sh = drive_share(a, project, &e);

	return sh ? sh->bytes + sh->coming : 0;
}

/* What was promised: nobody measures a volume that no sandbox has. */
static uint64_t volumes_used(struct api *a, const char *project)
{
	struct list *n, *next;
	uint64_t sum = 0;

	list_each (n, next, &a->volumes.all) {
		const struct volume *v = container_of(n, struct volume, node);

		if (strcmp(v->project, project) == 0)
			sum += v->bytes;
	}
	return sum;
}

uint64_t project_disk_used(struct api *a, const char *project)
{
	return sandboxes_used(a, project) + snapshots_used(a, project) +
	       drive_used(a, project) + volumes_used(a, project);
}

int project_disk_check(struct api *a, const char *project, struct err *e)
{
	return project_disk_room(a, project, 0, e);
}

int project_disk_room(struct api *a, const char *project, uint64_t more,
		      struct err *e)
{
	char used[SIZE_TEXT], max[SIZE_TEXT];
	uint64_t n;

	if (a->conf.project_disk == 0)
		return 0;
	n = project_disk_used(a, project);
	if (n <= a->conf.project_disk && more <= a->conf.project_disk - n)
		return 0;
	size_text(n, used);
	size_text(a->conf.project_disk, max);
	return err_set(e, ERR_PROJECT_FULL,
		       "project %s uses %s of disk, %s are allowed: remove "
		       "snapshots, sandboxes, volumes or files of its drive, "
		       "or set project_disk higher",
		       project, used, max);
}
