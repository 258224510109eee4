#include "gate/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"

struct waiting {
	struct list node;
	int fds[FD_PASS_MAX], n_fds;
	size_t n;
	char bytes[];
};

static void drop(struct outbox *o, struct waiting *w)
{
	int i;

	for (i = 0; i < w->n_fds; i++)
		auto_close(&w->fds[i]);
	o->n--;
	o->bytes -= w->n;
	list_del(&w->node);
	explicit_bzero(w->bytes, w->n);
	free(w);
}

static int keep(struct outbox *o, const void *p, size_t n, const int *fds,
		int n_fds)
{
	struct waiting *w;

	if (o->n >= OUTBOX_MSGS || o->bytes + n > OUTBOX_BYTES)
		return -ENOBUFS;
	w = xcalloc(1, sizeof(*w) + n);
	w->n = n;
	memcpy(w->bytes, p, n);
	list_add(&o->msgs, &w->node);
	o->n++;
	o->bytes += n;
	for (; w->n_fds < n_fds; w->n_fds++) {
		int fd = fcntl(fds[w->n_fds], F_DUPFD_CLOEXEC, 0);

		if (fd < 0) {
			int r = -errno;

			drop(o, w);
			return r;
		}
		w->fds[w->n_fds] = fd;
	}
	return 0;
}

void outbox_init(struct outbox *o, struct loop *l, struct io *io)
{
	*o = (struct outbox){ .loop = l, .io = io };
	list_init(&o->msgs);
}

int outbox_send(struct outbox *o, const void *p, size_t n, const int *fds,
		int n_fds)
{
	ssize_t r = -EAGAIN;

	if (n_fds > FD_PASS_MAX)
		return -EINVAL;
	if (o->n == 0)
		r = send_msg_fds(o->io->fd, p, n, fds, n_fds);
	if (r >= 0)
		return 0;
	if (r == -EAGAIN)
		r = keep(o, p, n, fds, n_fds);
	if (r < 0)
		return (int)r;
	return io_set(o->loop, o->io, o->io->events | EPOLLOUT);
}

int outbox_flush(struct outbox *o)
{
	struct list *at, *next;

	list_each (at, next, &o->msgs) {
		struct waiting *w = container_of(at, struct waiting, node);
		ssize_t r = send_msg_fds(o->io->fd, w->bytes, w->n, w->fds,
					 w->n_fds);

		if (r == -EAGAIN)
			return 0;
		if (r < 0)
			return (int)r;
		drop(o, w);
	}
	return io_set(o->loop, o->io, o->io->events & ~(uint32_t)EPOLLOUT);
}

void outbox_clear(struct outbox *o)
{
	struct list *at, *next;

	list_each (at, next, &o->msgs)
		drop(o, container_of(at, struct waiting, node));
}
