#include "worker/supply.h"

#include <errno.h>
#include <unistd.h>

#include "base/list.h"

static int fd_next(struct supply *s, struct block *b, struct err *e)
{
	struct supply_fd *f = container_of(s, struct supply_fd, supply);
	ssize_t n;

	do
		n = read(f->fd, f->block, sizeof(f->block));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(e, "read the stream");
	*b = (struct block){ f->block, (size_t)n, f->n };
	f->n += (uint64_t)n;
	return n > 0;
}

void supply_fd_init(struct supply_fd *s, int fd)
{
	s->supply.next = fd_next;
	s->fd = fd;
	s->n = 0;
}

static int part_next(struct supply *s, struct block *b, struct err *e)
{
	struct supply_part *f = container_of(s, struct supply_part, supply);
	size_t want =
		f->left < sizeof(f->block) ? (size_t)f->left : sizeof(f->block);
	ssize_t n;

	if (want == 0)
		return 0;
	do
		n = pread(f->fd, f->block, want, (off_t)(f->start + f->n));
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? err_sys(e, "read the spool")
			     : err_set(e, EIO, "the spool is cut off");
	*b = (struct block){ f->block, (size_t)n, f->n };
	f->n += (uint64_t)n;
	f->left -= (uint64_t)n;
	return 1;
}

void supply_part_init(struct supply_part *s, int fd, uint64_t start,
		      uint64_t size)
{
	s->supply.next = part_next;
	s->fd = fd;
	s->start = start;
	s->n = 0;
	s->left = size;
}

static int hashed_next(struct supply *s, struct block *b, struct err *e)
{
	struct supply_hashed *h = container_of(s, struct supply_hashed, supply);
	int r = supply_next(h->from, b, e);

	if (r <= 0)
		return r;
	if (b->offset != h->n)
		return err_set(e, EBADMSG,
			       "a file with holes where a blob "
			       "should be");
	sha256_add(&h->sum, b->p, b->n);
	h->n += b->n;
	return 1;
}

void supply_hashed_init(struct supply_hashed *s, struct supply *from)
{
	s->supply.next = hashed_next;
	s->from = from;
	s->n = 0;
	sha256_init(&s->sum);
}
