/*
 * Questions for names. Each has a socket of its own, for one answer and for a
 * few seconds; when there are too many, the oldest is forgotten, as datagrams
 * may be.
 */
#include <string.h>
#include <sys/socket.h>

#include "relay/relay.h"

enum { DNS_PORT = 53, LATE_MS = 10 * 1000 };

static void gram_drop(struct gram *g)
{
	timer_del(&g->r->loop, &g->late);
	io_close(&g->r->loop, &g->io);
}

static void on_late(struct timer *t)
{
	gram_drop(container_of(t, struct gram, late));
}

static void on_answer(struct io *io, uint32_t events)
{
	struct gram *g = container_of(io, struct gram, io);
	char body[DOOR_GRAM_MAX];
	ssize_t n = recv(io->fd, body, sizeof(body), MSG_TRUNC);

	(void)events;
	if (n > 0 && n <= (ssize_t)sizeof(body))
		mux_say(&g->r->mux, DOOR_GRAM, g->id, body, (size_t)n);
	gram_drop(g);
}

void grams_init(struct relay *r)
{
	unsigned i;

	for (i = 0; i < GRAMS_MAX; i++)
		r->grams[i] = (struct gram){ .r = r, .io = { .fd = -1 } };
}

void grams_drop(struct relay *r)
{
	unsigned i;

	for (i = 0; i < GRAMS_MAX; i++)
		gram_drop(&r->grams[i]);
}

void gram_send(struct relay *r, const struct door_msg *msg)
{
	struct gram *g = &r->grams[r->next_gram++ % GRAMS_MAX];
	struct door_addr a;
	int fd;

	if (msg->len <= sizeof(a))
		return;
	memcpy(&a, msg->body, sizeof(a));
	if (a.port != DNS_PORT)
		return;
	gram_drop(g);
	fd = mux_dial(&a, SOCK_DGRAM);
	if (fd < 0)
		return;
	g->id = msg->id;
	if (io_add(&r->loop, &g->io, fd, EPOLLIN, on_answer) < 0 ||
	    send(fd, msg->body + sizeof(a), msg->len - sizeof(a),
		 MSG_NOSIGNAL) < 0) {
		gram_drop(g);
		return;
	}
	timer_set(&r->loop, &g->late, LATE_MS, on_late);
}
