/*
 * What a project has on disk altogether: its sandboxes with their snapshots,
 * snapshots whose sandbox is gone, volumes (their whole size), and its drive;
 * as last measured, which is up to a minute ago. Above `project_disk` nothing
 * is made that needs more of it.
 */
#pragma once

#include <errno.h>
#include <stdint.h>

#include "base/err.h"

struct api;

/* The code of an error: the project has all it may have. */
enum { ERR_PROJECT_FULL = EXFULL };

uint64_t project_disk_used(struct api *a, const char *project);
/* May it have more? ERR_PROJECT_FULL says what to do. */
int project_disk_check(struct api *a, const char *project,
		       struct err *e) MUST_CHECK;
/* So many bytes more? */
int project_disk_room(struct api *a, const char *project, uint64_t more,
		      struct err *e) MUST_CHECK;
