/*
 * Rows of the drive: every version of every file, by project and path. The
 * bytes themselves are files of the api role, named by their SHA-256.
 */
#pragma once

#include "registry/registry.h"

enum { DRIVE_SHA = 65, DRIVE_PATH_CAP = 1025, DRIVE_WHO = 128 };

struct drive_row {
	char project[64];
	char path[DRIVE_PATH_CAP];
	uint64_t version;
	bool removed; /* the file ended with this version: no bytes */
	char sha256[DRIVE_SHA];
	uint64_t size;
	char who[DRIVE_WHO];
	char sandbox[32]; /* that wrote it; "": none */
	uint64_t created_ms;
};

/* One content of a project. */
typedef int drive_object_fn(void *arg, const char *sha256, uint64_t size);

/*
 * A new version; on disk when it returns. Versions of the path up to
 * `forget` go in the same commit; `gone` is called for the content of each
 * that had one, before the commit.
 */
int registry_drive_add(struct registry *r, const struct drive_row *row,
		       uint64_t forget, drive_object_fn *gone, void *arg,
		       struct err *e) MUST_CHECK;
/* All versions of a path up to that of `last`, the same way. */
int registry_drive_forget(struct registry *r, const struct drive_row *last,
			  drive_object_fn *gone, void *arg,
			  struct err *e) MUST_CHECK;
/* 1 when there is one; `version` 0: the newest, which may be a removal. */
int registry_drive_get(struct registry *r, const char *project,
		       const char *path, uint64_t version,
		       struct drive_row *out, struct err *e) MUST_CHECK;
/* Which files: those whose path starts with `prefix`... */
struct drive_range {
	const char *project, *prefix;
	const char *from; /* ...and is not less */
	bool removed;     /* also those whose newest version is a removal */
};
/* 1 and the newest version of the first of them; 0: there is none. */
int registry_drive_next(struct registry *r, const struct drive_range *range,
			struct drive_row *out, struct err *e) MUST_CHECK;
/* The newest first; anything but 0 from `fn` ends it. */
int registry_drive_versions(struct registry *r, const char *project,
			    const char *path,
			    int (*fn)(void *arg, const struct drive_row *row),
			    void *arg, struct err *e) MUST_CHECK;
/* What a project has: bytes, each content once, and rows. */
int registry_drive_usage(struct registry *r, const char *project,
			 uint64_t *bytes, uint64_t *rows,
			 struct err *e) MUST_CHECK;
/* 1 when any version of the project has this content. */
int registry_drive_refers(struct registry *r, const char *project,
			  const char *sha256, struct err *e) MUST_CHECK;
