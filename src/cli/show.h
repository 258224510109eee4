/* Values of the daemon's JSON as people read them. */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum { SHOW_CAP = 96 };

/* A string of object `j`, or "" when it is missing or something else. */
const char *show_str(const json_t *j, const char *key);
/* "2", "0.5" */
void show_number(const json_t *j, const char *key, char out[SHOW_CAP]);
/* "512 MiB" */
void show_size(const json_t *j, const char *key, char out[SHOW_CAP]);
/* Milliseconds of an RFC 3339 stamp in UTC, or 0. */
uint64_t stamp_ms(const char *stamp);
/* "5 min" since a stamp; "in 5 min" until it; "-" without one. */
void show_age(const json_t *j, const char *key, char out[SHOW_CAP]);
void show_until(const json_t *j, const char *key, char out[SHOW_CAP]);
/* "1.2 MiB up, 30 MiB down" of its "egress", or "-" without one. */
void show_egress(const json_t *j, char out[SHOW_CAP]);
/* The first 12 letters of an id. */
void show_id(const json_t *j, const char *key, char out[SHOW_CAP]);
/* `j` as indented lines of "key: value", sizes and times in words. */
void show_tree(const json_t *j, int depth);
