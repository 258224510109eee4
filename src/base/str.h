/*
 * Strings from people: numbers with units, names, ids. Parsers take the whole
 * string or refuse it with -EINVAL (-ERANGE when it does not fit).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Plain decimal. */
int parse_u64(const char *s, uint64_t max, uint64_t *out) MUST_CHECK;
/* "512M", "2G", "1048576"; K, M, G, T are powers of 1024; "MiB", "MB" too. */
int parse_size(const char *s, uint64_t *bytes) MUST_CHECK;
/* "90", "90s", "5m", "1h", "2d", "500ms"; a bare number is seconds. */
int parse_duration(const char *s, uint64_t *ms) MUST_CHECK;
/* "2", "0.5", "1.25": thousandths. */
int parse_milli(const char *s, uint64_t *milli) MUST_CHECK;

/* "1.5 GiB"; whole numbers stay whole. */
enum { SIZE_TEXT = 24 };
void size_text(uint64_t bytes, char out[SIZE_TEXT]);
/* "3 s", "5 min", "2 h", "4 d": the largest unit, rounded down. */
void age_text(uint64_t ms, char out[SIZE_TEXT]);

/*
 * Ids: 'i' and 26 of [a-z2-7], 130 random bits, never reused.
 * Names: 1 to 63 of [a-z0-9-], no hyphen at either end (a host name label),
 * and never of the form of an id.
 */
enum { ID_LEN = 27, ID_CAP = ID_LEN + 1, NAME_CAP = 64 };
int id_make(char out[ID_CAP]) MUST_CHECK;
/* Of so many bytes, which are a hash: the same bytes, the same id. */
void id_from(const unsigned char bytes[ID_LEN], char out[ID_CAP]);
bool id_valid(const char *s);
bool name_valid(const char *s);

bool str_starts(const char *s, const char *prefix);
/* Copies if it fits, with the NUL; else -ENAMETOOLONG and out is empty. */
int str_copy(char *out, size_t cap, const char *s) MUST_CHECK;
/* Is this valid UTF-8 (no surrogates, no overlong forms)? */
bool str_is_utf8(const char *s, size_t n);
