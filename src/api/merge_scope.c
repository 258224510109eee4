/*
 * Which paths a merge has to look at. What theirs changed does not depend on
 * ours, so it is found out before anything stands still; then only those paths
 * are looked at. When they are too many for a question, the directories that
 * they are in take their places.
 */
#include <string.h>

#include "api/merge.h"
#include "base/auto.h"

enum { BYTES_MAX = VIEW_ASK_MAX - 16 * VIEW_PATHS_MAX };

static bool within(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strcmp(dir, "/") == 0 || (strncmp(path, dir, n) == 0 &&
					 (path[n] == '\0' || path[n] == '/'));
}

/* Makes "/a/b" of "/a/b/c", and "/" of "/a". */
static void go_up(char *path)
{
	char *slash = strrchr(path, '/');

	slash[slash == path ? 1 : 0] = '\0';
}

/* Drops what is within another one. */
static void squeeze(struct merge_scope *s)
{
	size_t i, k, n = 0;

	for (i = 0; i < s->n; i++) {
		for (k = 0; k < s->n; k++)
			if (k != i && s->v[k] && within(s->v[i], s->v[k]))
				break;
		if (k < s->n)
			free(take_ptr(s->v[i]));
	}
	s->bytes = 0;
	for (i = 0; i < s->n; i++)
		if (s->v[i]) {
			s->bytes += strlen(s->v[i]);
			s->v[n++] = s->v[i];
		}
	s->n = n;
}

void merge_scope_add(struct merge_scope *s, const char *path)
{
	size_t i;

	if (s->n > 0 && within(path, s->v[s->n - 1]))
		return;
	if (!s->v)
		s->v = xcalloc(VIEW_PATHS_MAX, sizeof(*s->v));
	while (s->n == VIEW_PATHS_MAX || s->bytes + strlen(path) > BYTES_MAX) {
		for (i = 0; i < s->n; i++)
			go_up(s->v[i]);
		s->widened = true;
		squeeze(s);
	}
	for (i = 0; i < s->n; i++)
		if (within(path, s->v[i]))
			return;
	s->v[s->n++] = xstrdup(path);
	s->bytes += strlen(path);
}

void merge_scope_done(struct merge_scope *s)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		free(s->v[i]);
	free(s->v);
	*s = (struct merge_scope){ 0 };
}
