#include "api/disk_sync.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"

static void submit_more(struct disk_syncs *d);

static void finish(struct disk_sync *s, int result)
{
	s->busy = false;
	s->fn(s, result);
}

/* Those that were waited for: told from the loop, as the others are. */
static void on_now(struct timer *t)
{
	struct disk_syncs *d = container_of(t, struct disk_syncs, now);
	struct list *n, *next;

	list_each (n, next, &d->ready) {
		struct disk_sync *s = container_of(n, struct disk_sync, node);

		list_del(n);
		finish(s, s->result);
	}
}

static void wait_for_it(struct disk_syncs *d, struct disk_sync *s)
{
	s->result = fsync(s->fd) < 0 ? -errno : 0;
	list_add(&d->ready, &s->node);
	timer_set(d->loop, &d->now, 0, on_now);
}

static void submit(struct disk_syncs *d, struct disk_sync *s)
{
	struct iocb *cb = &s->cb;

	s->cb = (struct iocb){ .aio_data = (uintptr_t)s,
			       .aio_lio_opcode = IOCB_CMD_FSYNC,
			       .aio_fildes = (uint32_t)s->fd,
			       .aio_flags = IOCB_FLAG_RESFD,
			       .aio_resfd = (uint32_t)d->io.fd };
	if (d->ctx && syscall(SYS_io_submit, d->ctx, 1L, &cb) == 1)
		d->n++;
	else
		wait_for_it(d, s);
}

static void submit_more(struct disk_syncs *d)
{
	while (d->n < DISK_SYNCS && !list_empty(&d->waiting)) {
		struct list *n = d->waiting.next;

		list_del(n);
		submit(d, container_of(n, struct disk_sync, node));
	}
}

static void on_done(struct io *io, uint32_t events)
{
	struct disk_syncs *d = container_of(io, struct disk_syncs, io);
	struct io_event done[DISK_SYNCS];
	struct timespec none = { 0 };
	uint64_t count;
	long n, i;

	(void)events;
	if (read(io->fd, &count, sizeof(count)) < 0)
		return;
	n = syscall(SYS_io_getevents, d->ctx, 0L, (long)DISK_SYNCS, done,
		    &none);
	for (i = 0; i < n; i++) {
		d->n--;
		finish((struct disk_sync *)(uintptr_t)done[i].data,
		       (int)done[i].res);
	}
	submit_more(d);
}

int disk_syncs_init(struct disk_syncs *d, struct loop *l, struct err *e)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), r;

	d->loop = l;
	list_init(&d->waiting);
	list_init(&d->ready);
	if (fd < 0)
		return err_sys(e, "make an eventfd");
	r = io_add(l, &d->io, fd, EPOLLIN, on_done);
	if (r < 0)
		return err_set(e, -r, "watch an eventfd: %s", strerror(-r));
	if (syscall(SYS_io_setup, (unsigned)DISK_SYNCS, &d->ctx) < 0)
		d->ctx = 0;
	return 0;
}

void disk_sync(struct disk_syncs *d, struct disk_sync *s, int fd,
	       disk_sync_fn *fn)
{
	s->busy = true;
	s->fd = fd;
	s->fn = fn;
	list_add(&d->waiting, &s->node);
	submit_more(d);
}
