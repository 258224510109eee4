/*
 * Datagrams of the door: what the sandbox asks a resolver, whichever one it
 * believes to ask. Where an answer has to come from is what the kernel said of
 * the question.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "guest/door.h"

enum { TURN_MAX = 32, DNS_PORT = 53 };

/* What the kernel said about where it went to, as it wants it back. */
static bool keep_control(struct gram *g, struct msghdr *m, struct door_addr *to)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);

	*to = (struct door_addr){ .port = DNS_PORT };
	to->ip[10] = to->ip[11] = 0xff;
	g->control_len = 0;
	if (!c) {
		/* The resolver's own address, of which there is one. */
		to->ip[12] = 127;
		to->ip[15] = 1;
		return true;
	}
	if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO &&
	    c->cmsg_len == CMSG_LEN(sizeof(struct in6_pktinfo))) {
		struct in6_pktinfo *i = (struct in6_pktinfo *)CMSG_DATA(c);

		memcpy(to->ip, &i->ipi6_addr, sizeof(to->ip));
		i->ipi6_ifindex = 0;
		g->control_len = CMSG_SPACE(sizeof(*i));
	} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO &&
		   c->cmsg_len == CMSG_LEN(sizeof(struct in_pktinfo))) {
		struct in_pktinfo *i = (struct in_pktinfo *)CMSG_DATA(c);

		memcpy(to->ip + 12, &i->ipi_addr, sizeof(i->ipi_addr));
		i->ipi_spec_dst = i->ipi_addr;
		i->ipi_ifindex = 0;
		g->control_len = CMSG_SPACE(sizeof(*i));
	}
	return g->control_len > 0;
}

/* False: there is none. */
static bool read_one(struct door *d, int fd)
{
	struct {
		struct door_addr to;
		char bytes[DOOR_GRAM_MAX];
	} body;
	const uint32_t id = d->next_gram;
	struct gram *g = &d->grams[id % GRAMS_MAX];
	struct iovec v = { body.bytes, sizeof(body.bytes) };
	struct msghdr m = { .msg_name = &g->from,
			    .msg_namelen = sizeof(g->from),
			    .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = g->control,
			    .msg_controllen = sizeof(g->control) };
	ssize_t n;

	g->fd = -1;
	n = recvmsg(fd, &m, MSG_DONTWAIT);
	if (n < 0)
		return errno != EAGAIN;
	d->next_gram++;
	if (n == 0 || (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ||
	    !keep_control(g, &m, &body.to))
		return true;
	g->id = id;
	g->fd = fd;
	g->from_len = m.msg_namelen;
	/* Lost is what datagrams may be. */
	mux_say(&d->mux, DOOR_GRAM, id, &body,
		offsetof(__typeof__(body), bytes) + (size_t)n);
	return true;
}

void grams_read(struct door *d, int fd)
{
	unsigned i;

	for (i = 0; i < TURN_MAX && read_one(d, fd); i++)
		;
}

void gram_answer(struct door *d, const struct door_msg *msg)
{
	struct gram *g = &d->grams[msg->id % GRAMS_MAX];
	struct iovec v = { (void *)msg->body, msg->len };
	struct msghdr m = { .msg_name = &g->from,
			    .msg_namelen = g->from_len,
			    .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = g->control,
			    .msg_controllen = g->control_len };

	if (g->id != msg->id || g->fd < 0)
		return;
	(void)sendmsg(g->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	g->fd = -1;
}
