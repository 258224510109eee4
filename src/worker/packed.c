/* A tar for who asks over a pipe: as it is, or packed. */
#include <errno.h>

#include "worker/look.h"
#include "worker/pack.h"
#include "worker/zip.h"

int look_pack(struct look *l, struct err *e)
{
	static struct zip zip;
	int r;

	if (!(l->ask.flags & VIEW_GZIP))
		return pack(l, e);
	if (l->n == 3)
		return err_set(e, EINVAL, "not flags for %u states", l->n);
	r = zip_open(&zip, &l->say, e);
	if (r == 0)
		r = pack(l, e);
	return r < 0 ? r : zip_end(&zip, e);
}
