#include "worker/look.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/fd.h"
#include "wire/worker.h"

static int (*const works[])(struct look *l, struct err *e) = {
	[VIEW_DIFF] = look_diff,   [VIEW_MERGE] = look_merge,
	[VIEW_PACK] = look_pack,   [VIEW_READ] = look_read,
	[VIEW_SPACE] = look_space,
};
_Static_assert(ARRAY_LEN(works) == VIEW_WORKS, "every work is done");

int look_describe(struct look *l, const char *text, struct err *e)
{
	unsigned i;
	int n;

	if (sscanf(text, "%u%n", &l->work, &n) != 1)
		return err_set(e, EINVAL, "not a work: %s", text);
	for (text += n; *text && l->n < VIEW_SIDES; text += n, l->n++) {
		struct look_side *s = &l->side[l->n];
		unsigned long long made;
		char kind;

		if (sscanf(text, " %c:%u:%u:%llu%n", &kind, &s->image, &s->tree,
			   &made, &n) != 4)
			return err_set(e, EINVAL, "not a side:%s", text);
		s->snap = kind == 's';
		s->made_ns = made;
	}
	if (*text || l->n == 0 || l->work >= VIEW_WORKS || !works[l->work])
		return err_set(e, EINVAL, "not a work on %u sides", l->n);
	for (i = 0; i < l->n; i++) {
		l->side[i].fd = WORKER_VIEW_FD + (int)i;
		l->side[i].upper_fd = WORKER_VIEW_FD + (int)(l->n + i);
	}
	return 0;
}

int look(struct look *l, int ask_fd, struct err *e)
{
	static char ask[VIEW_ASK_MAX + 1];
	ssize_t n = read_full(ask_fd, ask, sizeof(ask));

	if (n < 0) {
		errno = (int)-n;
		return err_sys(e, "read what is asked");
	}
	if (view_ask_get(ask, (size_t)n, &l->ask) < 0)
		return err_set(e, EBADMSG, "not a question to a view");
	return works[l->work](l, e);
}
