/* fsync that nobody waits for: by the kernel, and by ourselves without it. */
#include "api/disk_sync.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "check.h"

enum { MANY = DISK_SYNCS * 3 };

static struct loop loop;
static struct disk_sync syncs[MANY];
static int n_done, n_bad, n_inside;

static void count(struct disk_sync *s, int result)
{
	n_inside += s->busy;
	n_bad += result != 0;
	if (++n_done == MANY)
		loop.stop = true;
}

static void run(bool with_kernel)
{
	char path[] = "/tmp/disk_sync_test.XXXXXX";
	AUTO_CLOSE int fd = mkostemp(path, O_CLOEXEC);
	struct disk_syncs d = { 0 };
	struct err e = { 0 };
	int i;

	n_done = n_bad = n_inside = 0;
	CHECK(fd >= 0 && loop_init(&loop) == 0);
	CHECK(disk_syncs_init(&d, &loop, &e) == 0);
	if (!with_kernel)
		d.ctx = 0;
	for (i = 0; i < MANY; i++)
		disk_sync(&d, &syncs[i], i == 7 ? -1 : fd, count);
	/* Never from inside the call. */
	CHECK(n_done == 0 && syncs[0].busy);
	CHECK(d.n <= DISK_SYNCS);
	CHECK(loop_run(&loop) == 0);
	CHECK(n_done == MANY && n_inside == 0);
	CHECK(n_bad == 1); /* the one without a file */
	CHECK(d.n == 0 && list_empty(&d.waiting) && list_empty(&d.ready));
	io_close(&loop, &d.io);
	loop_done(&loop);
	unlink(path);
}

int main(void)
{
	run(true);
	run(false);
	return CHECK_DONE();
}
