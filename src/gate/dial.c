#include "gate/dial.h"

#include <errno.h>

static void over(struct deferred *x)
{
	struct dial *d = container_of(x, struct dial, later);

	if (d->done)
		d->done(d, &d->err);
}

void dial_start(struct dial *d, dial_fn *done)
{
	d->done = done;
	err_set(&d->err, ENOSYS, "no way to %s", d->host);
	loop_defer(&d->box->gate->loop, &d->later, over);
}

void dial_cancel(struct dial *d)
{
	d->done = NULL;
}
