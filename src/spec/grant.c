#include "spec/grant.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

static bool part_ok(const char *p, size_t n)
{
	if (n == 0 || n > DRIVE_PART_MAX)
		return false;
	return !(n == 1 && p[0] == '.') && !(n == 2 && !memcmp(p, "..", 2));
}

static bool text_ok(const char *s)
{
	const char *p;

	for (p = s; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return false;
	/* The last character of all is the end of a range of names. */
	return str_is_utf8(s, strlen(s)) && !strstr(s, "\xf4\x8f\xbf\xbf");
}

int drive_path_check(const char *path, bool prefix, struct err *e)
{
	const char *p = path;

	if (strlen(path) > DRIVE_PATH_MAX)
		return err_set(e, ENAMETOOLONG,
			       "a path of the drive has more than %d bytes",
			       DRIVE_PATH_MAX);
	if (!text_ok(path))
		return err_set(e, EINVAL,
			       "a path of the drive is not UTF-8, or has "
			       "control characters");
	while (*p || !prefix) {
		size_t n = strcspn(p, "/");

		if (!part_ok(p, n))
			return err_set(
				e, EINVAL,
				"'%.100s' is no path of the drive: it is "
				"relative, without empty parts, '.' "
				"and '..'",
				path);
		p += n;
		if (*p == '\0')
			return 0;
		p++;
	}
	return 0;
}

static bool ends_in(const char *s, size_t n, const char *end)
{
	size_t m = strlen(end);

	return n >= m && memcmp(s + n - m, end, m) == 0;
}

int drive_grant_parse(const char *text, struct drive_grant *g)
{
	char path[DRIVE_PATH_MAX + 1];
	size_t n = strlen(text);
	struct err e = { 0 };

	*g = (struct drive_grant){ .prefix = text };
	g->write = ends_in(text, n, ":rw");
	if (g->write || ends_in(text, n, ":ro"))
		n -= strlen(":ro");
	/* "/" is the whole drive; "" is more likely a mistake. */
	if (n == 0 || n > DRIVE_PATH_MAX)
		return -EINVAL;
	if (text[n - 1] == '/')
		n--;
	g->n = n;
	snprintf(path, sizeof(path), "%.*s", (int)n, text);
	return n == 0 ? 0 : drive_path_check(path, false, &e);
}

bool drive_grant_covers(const struct drive_grant *g, const char *path)
{
	return g->n == 0 || (strncmp(path, g->prefix, g->n) == 0 &&
			     (path[g->n] == '/' || path[g->n] == '\0'));
}
