#include "base/slice.h"

#include <linux/sched.h>
#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SHORT_NS = 200 * 1000, COMMON = 0 };

static int set(unsigned ns, struct err *e)
{
	struct sched_attr a = { 0 };

	if (syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0) < 0)
		return err_sys(e, "ask for the time slice");
	/* Somebody else chose how it is scheduled. */
	if (a.sched_policy != SCHED_NORMAL && a.sched_policy != SCHED_BATCH)
		return 0;
	a.sched_runtime = ns;
	if (syscall(SYS_sched_setattr, 0, &a, 0) < 0)
		return err_sys(e, "set the time slice");
	return 0;
}

int slice_short(struct err *e)
{
	return set(SHORT_NS, e);
}

int slice_common(struct err *e)
{
	return set(COMMON, e);
}
