/*
 * Output that nobody wants: of background processes whose parent has exited.
 * It is read, at the pace of pace.c, and thrown away.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/agent.h"

enum { SINK_READ = 16 * 1024 };

struct sink {
	struct io io;
	struct paced paced;
	struct list node;
	struct deferred deferred;
	struct agent *agent;
};

static void sink_free(struct deferred *d)
{
	free(container_of(d, struct sink, deferred));
}

static void sink_close(struct sink *s)
{
	struct agent *a = s->agent;

	io_close(&a->loop, &s->io);
	list_del(&s->paced.node);
	list_del(&s->node);
	a->n_sinks--;
	loop_defer(&a->loop, &s->deferred, sink_free);
}

static void sink_readable(struct io *io, uint32_t events)
{
	static char scratch[SINK_READ];
	struct sink *s = container_of(io, struct sink, io);
	ssize_t n;

	(void)events;
	if (!pace_ask(s->agent, &s->paced)) {
		/* Not io_set(0): a hang-up would be told over and over. */
		io_del(&s->agent->loop, io);
		return;
	}
	n = read(io->fd, scratch, sizeof(scratch));
	pace_spend(s->agent, n);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		sink_close(s);
}

static void sink_turn(struct paced *p)
{
	struct sink *s = container_of(p, struct sink, paced);

	if (io_add(&s->agent->loop, &s->io, s->io.fd, EPOLLIN, sink_readable))
		sink_close(s);
}

void sink_add(struct agent *a, int fd)
{
	struct sink *s;

	if (a->n_sinks >= SINKS_MAX)
		sink_close(container_of(a->sinks.next, struct sink, node));
	s = xcalloc(1, sizeof(*s));
	s->agent = a;
	s->paced.turn = sink_turn;
	list_init(&s->paced.node);
	list_add(&a->sinks, &s->node);
	a->n_sinks++;
	if (io_add(&a->loop, &s->io, fd, EPOLLIN, sink_readable) < 0)
		sink_close(s);
}
