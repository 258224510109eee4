/*
 * Output that nobody wants: of background processes whose parent has exited,
 * and of detached ones. Closing the pipe would kill them with SIGPIPE, leaving
 * it full would block them; so it is read and thrown away.
 *
 * The agent is outside of the sandbox's processor limit, so this is done at a
 * bounded pace: a process that only writes must not keep us busy.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/agent.h"

enum {
	SINK_READ = 16 * 1024,
	SINK_READS = 4, /* at a time, then a pause */
	SINK_PAUSE_MS = 5,
};

struct sink {
	struct io io;
	struct timer timer;
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
	timer_del(&a->loop, &s->timer);
	list_del(&s->node);
	a->n_sinks--;
	loop_defer(&a->loop, &s->deferred, sink_free);
}

static void sink_readable(struct io *io, uint32_t events);

static void sink_resume(struct timer *t)
{
	struct sink *s = container_of(t, struct sink, timer);

	if (io_add(&s->agent->loop, &s->io, s->io.fd, EPOLLIN, sink_readable))
		sink_close(s);
}

static void sink_readable(struct io *io, uint32_t events)
{
	static char scratch[SINK_READ];
	struct sink *s = container_of(io, struct sink, io);
	int i;

	(void)events;
	for (i = 0; i < SINK_READS; i++) {
		ssize_t n = read(io->fd, scratch, sizeof(scratch));

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			sink_close(s);
			return;
		}
	}
	/* Not io_set(0): a hang-up would still be told, over and over. */
	io_del(&s->agent->loop, io);
	timer_set(&s->agent->loop, &s->timer, SINK_PAUSE_MS, sink_resume);
}

void sink_add(struct agent *a, int fd)
{
	struct sink *s;

	if (a->n_sinks >= SINKS_MAX)
		sink_close(container_of(a->sinks.next, struct sink, node));
	s = xcalloc(1, sizeof(*s));
	s->agent = a;
	list_add(&a->sinks, &s->node);
	a->n_sinks++;
	if (io_add(&a->loop, &s->io, fd, EPOLLIN, sink_readable) < 0)
		sink_close(s);
}
