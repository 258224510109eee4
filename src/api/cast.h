/*
 * Recordings of terminals in asciicast version 2: what was shown, never what
 * was typed (a password is typed and not shown). Files in state_dir/casts,
 * named PROJECT_SANDBOX_TIME-PROCESS.cast.
 *
 * A recording has an end (CAST_BYTES), and a project has a share: its oldest
 * recordings make room for its new ones, never another project's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/conf.h"
#include "base/str.h"

struct api;
struct sandbox;

enum {
	CAST_BYTES = 64 << 20,          /* of one recording */
	CAST_PROJECT_BYTES = 256 << 20, /* of a project, before a new one */
	CAST_PROJECT_FILES = 200,
	CAST_ID = 32, /* TIME-PROCESS */
	CAST_PATH = CONF_PATH + 192,
};

/* Zero-initialise; closed when `path` is "". */
struct cast {
	char path[CAST_PATH];
	int fd;
	uint64_t began_us, size;
	bool full;      /* its end was written */
	struct buf cut; /* a character that has not come to its end */
};

int cast_open(struct cast *c, const struct sandbox *s, uint32_t process,
	      unsigned rows, unsigned cols, struct err *e) MUST_CHECK;
static inline bool cast_is_open(const struct cast *c)
{
	return *c->path != '\0';
}
/* Harmless when it is closed. A full disk ends the recording, nothing else. */
void cast_output(struct cast *c, const char *p, size_t n);
void cast_resize(struct cast *c, unsigned rows, unsigned cols);
void cast_close(struct cast *c);

struct cast_info {
	char project[NAME_CAP], box[ID_CAP], id[CAST_ID];
	uint64_t created_ms, size;
	uint32_t process;
};
/* A file's name; false: it is no recording's. */
bool cast_parse_name(const char *name, struct cast_info *out);
void cast_path(const struct api *a, const struct cast_info *i,
	       char out[CAST_PATH]);
/* All there are, the oldest first; to be freed. NULL when there is none. */
struct cast_info *casts_list(const struct api *a, size_t *n);
