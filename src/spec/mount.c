#include "spec/mount.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"

/* What the kernel or the daemon has there already. */
static const char *const taken[] = { "/proc", "/sys", "/dev" };

static bool is_below(const char *path, const char *top)
{
	size_t n = strlen(top);

	return strncmp(path, top, n) == 0 &&
	       (path[n] == '/' || path[n] == '\0');
}

static bool path_ok(const char *path)
{
	const char *p = path;
	size_t i;

	while (*p == '/') {
		size_t n = strcspn(++p, "/");

		if (n == 0 || (n == 1 && p[0] == '.') ||
		    (n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		p += n;
	}
	for (i = 0; i < ARRAY_LEN(taken); i++)
		if (is_below(path, taken[i]))
			return false;
	for (i = 0; path[i]; i++)
		if ((unsigned char)path[i] < 0x20 || path[i] == 0x7f)
			return false;
	return p != path && *p == '\0' && str_is_utf8(path, strlen(path));
}

static bool ends_in(const char *s, size_t n, const char *end)
{
	size_t m = strlen(end);

	return n > m && memcmp(s + n - m, end, m) == 0;
}

int volume_mount_parse(const char *text, struct volume_mount *m)
{
	const char *colon = strchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : NAME_CAP;

	*m = (struct volume_mount){ 0 };
	if (n >= NAME_CAP)
		return -EINVAL;
	memcpy(m->name, text, n);
	text = colon + 1;
	n = strlen(text);
	m->read_only = ends_in(text, n, ":ro");
	m->shared = ends_in(text, n, ":shared");
	if (m->shared)
		n -= strlen(":shared");
	else if (m->read_only || ends_in(text, n, ":rw"))
		n -= strlen(":ro");
	if (n >= MOUNT_PATH_CAP)
		return -EINVAL;
	memcpy(m->path, text, n);
	return name_valid(m->name) && path_ok(m->path) ? 0 : -EINVAL;
}
