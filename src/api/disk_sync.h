/*
 * fsync(2) that nobody waits for. The api role is one thread, and the end of
 * a large file may take the disk seconds: the kernel does it beside us
 * (io_submit(2), IOCB_CMD_FSYNC) and says so through an eventfd. A kernel
 * without it is waited for.
 */
#pragma once

#include <linux/aio_abi.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/list.h"
#include "base/loop.h"

struct disk_sync;
typedef void disk_sync_fn(struct disk_sync *s, int result);

/* Embedded in its owner, which stays until the end: there is no way back. */
struct disk_sync {
	bool busy;
	/* Private. */
	disk_sync_fn *fn;
	int fd, result;
	struct iocb cb;
	struct list node; /* in `waiting`, or `ready` */
};

enum { DISK_SYNCS = 64 }; /* in the kernel at once; more wait here */

struct disk_syncs {
	aio_context_t ctx; /* 0: the kernel has none */
	struct loop *loop;
	struct io io;
	unsigned n;
	struct list waiting, ready;
	struct timer now;
};

int disk_syncs_init(struct disk_syncs *d, struct loop *l,
		    struct err *e) MUST_CHECK;
/* `fn` is called once, from the loop, with 0 or -errno. */
void disk_sync(struct disk_syncs *d, struct disk_sync *s, int fd,
	       disk_sync_fn *fn);
