/*
 * The spec of a sandbox: what a user may ask for. One table drives the JSON
 * of the API, the options of the command line, --help and the documentation.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/opt.h"
#include "base/str.h"

enum { SPEC_IMAGE_CAP = 64, SPEC_ENV_MAX = 64, SPEC_ENV_BYTES = 32 * 1024 };

struct spec {
	char image[SPEC_IMAGE_CAP]; /* name or id; "": the default */
	char name[NAME_CAP];        /* "": none */
	uint64_t cpus_milli, mem_bytes, disk_bytes, pids;
	uint64_t timeout_ms;    /* 0: none */
	uint64_t sudo;          /* 0 or 1 */
	char allow_missing[32]; /* "" or "disk" */
	json_t *env;            /* object of strings, or NULL; owned */
};

enum spec_kind {
	SPEC_TEXT,
	SPEC_NUMBER,
	SPEC_SIZE,
	SPEC_MILLI,
	SPEC_TIME,
	SPEC_BOOL
};

struct spec_field {
	const char *name; /* JSON key and option */
	enum spec_kind kind;
	size_t at, cap;
	uint64_t min, max;
	const char *arg, *help;
};

extern const struct spec_field spec_fields[]; /* ends at name NULL */

void spec_defaults(struct spec *s, const struct conf *c);
void spec_done(struct spec *s);
/*
 * From a JSON object: an unknown key, a wrong type or a value out of bounds is
 * an error that names the key. Keys that are missing keep what `s` has.
 * Sizes are bytes or "512M", times seconds or "1h", cpus 0.5 or "0.5".
 */
int spec_from_json(struct spec *s, const json_t *j, struct err *e) MUST_CHECK;
/* With all fields; a new reference. */
json_t *spec_to_json(const struct spec *s);
/* Bounds, names. spec_from_json() calls it. */
int spec_check(const struct spec *s, struct err *e) MUST_CHECK;
