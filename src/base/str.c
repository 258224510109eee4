#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"

/* Digits at the front; `*end` is what follows. */
static int digits(const char *s, uint64_t *out, const char **end)
{
	uint64_t v = 0;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	for (; *s >= '0' && *s <= '9'; s++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
			return -ERANGE;
	*out = v;
	*end = s;
	return 0;
}

int parse_u64(const char *s, uint64_t max, uint64_t *out)
{
	const char *end;
	int r = digits(s, out, &end);

	if (r < 0)
		return r;
	if (*end)
		return -EINVAL;
	return *out > max ? -ERANGE : 0;
}

struct unit {
	const char *name;
	uint64_t factor;
};

static int parse_unit(const char *s, const struct unit *units, size_t n,
		      uint64_t *out)
{
	const char *end;
	uint64_t v;
	size_t i;
	int r = digits(s, &v, &end);

	if (r < 0)
		return r;
	for (i = 0; i < n; i++)
		if (strcmp(end, units[i].name) == 0)
			return __builtin_mul_overflow(v, units[i].factor, out)
				       ? -ERANGE
				       : 0;
	return -EINVAL;
}

int parse_size(const char *s, uint64_t *bytes)
{
	static const struct unit units[] = {
		{ "", 1 },
		{ "B", 1 },
		{ "K", 1ULL << 10 },
		{ "KB", 1ULL << 10 },
		{ "KiB", 1ULL << 10 },
		{ "k", 1ULL << 10 },
		{ "M", 1ULL << 20 },
		{ "MB", 1ULL << 20 },
		{ "MiB", 1ULL << 20 },
		{ "m", 1ULL << 20 },
		{ "G", 1ULL << 30 },
		{ "GB", 1ULL << 30 },
		{ "GiB", 1ULL << 30 },
		{ "g", 1ULL << 30 },
		{ "T", 1ULL << 40 },
		{ "TB", 1ULL << 40 },
		{ "TiB", 1ULL << 40 },
	};

	return parse_unit(s, units, ARRAY_LEN(units), bytes);
}

int parse_duration(const char *s, uint64_t *ms)
{
	static const struct unit units[] = {
		{ "", 1000 },          { "ms", 1 },
		{ "s", 1000 },         { "m", 60 * 1000 },
		{ "min", 60 * 1000 },  { "h", 3600 * 1000 },
		{ "d", 86400 * 1000 },
	};

	return parse_unit(s, units, ARRAY_LEN(units), ms);
}

int parse_milli(const char *s, uint64_t *milli)
{
	const char *end;
	unsigned scale = 100;
	int r = digits(s, milli, &end);

	if (r < 0)
		return r;
	if (__builtin_mul_overflow(*milli, 1000, milli))
		return -ERANGE;
	if (*end == '\0')
		return 0;
	if (*end++ != '.' || *end == '\0')
		return -EINVAL;
	for (; *end; end++, scale /= 10) {
		if (*end < '0' || *end > '9' || scale == 0)
			return -EINVAL;
		*milli += scale * (unsigned)(*end - '0');
	}
	return 0;
}

void size_text(uint64_t bytes, char out[SIZE_TEXT])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	uint64_t unit = 1;
	size_t i = 0;

	while (i + 1 < ARRAY_LEN(units) && bytes / unit >= 1024) {
		unit *= 1024;
		i++;
	}
	if (bytes % unit == 0 || bytes / unit >= 100)
		snprintf(out, SIZE_TEXT, "%llu %s",
			 (unsigned long long)(bytes / unit), units[i]);
	else
		snprintf(out, SIZE_TEXT, "%.1f %s",
			 (double)bytes / (double)unit, units[i]);
}

void age_text(uint64_t ms, char out[SIZE_TEXT])
{
	static const struct {
		uint64_t ms;
		const char *name;
	} units[] = {
		{ 86400000, "d" }, { 3600000, "h" }, { 60000, "min" },
		{ 1000, "s" },     { 1, "ms" },
	};
	size_t i = 0;

	while (i + 1 < ARRAY_LEN(units) && ms < units[i].ms)
		i++;
	snprintf(out, SIZE_TEXT, "%llu %s",
		 (unsigned long long)(ms / units[i].ms), units[i].name);
}

static const char id_letters[] = "abcdefghijklmnopqrstuvwxyz234567";

void id_from(const unsigned char bytes[ID_LEN], char out[ID_CAP])
{
	int i;

	out[0] = 'i';
	for (i = 1; i < ID_LEN; i++)
		out[i] = id_letters[bytes[i] & 31];
	out[ID_LEN] = '\0';
}

int id_make(char out[ID_CAP])
{
	unsigned char rnd[ID_LEN];

	if (getrandom(rnd, sizeof(rnd), 0) != (ssize_t)sizeof(rnd))
		return -EIO;
	id_from(rnd, out);
	return 0;
}

bool id_valid(const char *s)
{
	size_t i;

	if (strnlen(s, ID_CAP) != ID_LEN || s[0] != 'i')
		return false;
	for (i = 1; i < ID_LEN; i++)
		if (!strchr(id_letters, s[i]))
			return false;
	return true;
}

bool name_valid(const char *s)
{
	size_t n = strnlen(s, NAME_CAP), i;

	if (n == 0 || n >= NAME_CAP || s[0] == '-' || s[n - 1] == '-')
		return false;
	for (i = 0; i < n; i++)
		if (!(s[i] >= 'a' && s[i] <= 'z') &&
		    !(s[i] >= '0' && s[i] <= '9') && s[i] != '-')
			return false;
	return !id_valid(s);
}

bool str_starts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

int str_copy(char *out, size_t cap, const char *s)
{
	size_t n = strlen(s);

	if (n >= cap) {
		out[0] = '\0';
		return -ENAMETOOLONG;
	}
	memcpy(out, s, n + 1);
	return 0;
}

/* Length of the sequence that starts with `c`, and its smallest code point. */
static size_t utf8_len(unsigned char c, uint32_t *min, uint32_t *v)
{
	if (c < 0x80) {
		*min = 0;
		*v = c;
		return 1;
	}
	if ((c & 0xe0) == 0xc0) {
		*min = 0x80;
		*v = c & 0x1f;
		return 2;
	}
	if ((c & 0xf0) == 0xe0) {
		*min = 0x800;
		*v = c & 0x0f;
		return 3;
	}
	if ((c & 0xf8) == 0xf0) {
		*min = 0x10000;
		*v = c & 0x07;
		return 4;
	}
	return 0;
}

bool str_is_utf8(const char *s, size_t n)
{
	size_t i = 0;

	while (i < n) {
		uint32_t min, v;
		size_t k, len = utf8_len((unsigned char)s[i], &min, &v);

		if (len == 0 || len > n - i)
			return false;
		for (k = 1; k < len; k++) {
			unsigned char c = (unsigned char)s[i + k];

			if ((c & 0xc0) != 0x80)
				return false;
			v = v << 6 | (c & 0x3f);
		}
		if (v < min || v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff))
			return false;
		i += len;
	}
	return true;
}
