#include "gate/names.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "gate/decide.h"
#include "gate/dns.h"
#include "gate/record.h"
#include "gate/state.h"

enum {
	TURN_MAX = 64, /* datagrams at once; the rest waits for a turn */
	WAYS = 16,     /* places that a name can have */
	BLOCKS = 128,  /* of STATE_NAMES addresses */
	DNS_PORT = 53,
	NET = 0xc6120000, /* 198.18.0.0 */
	NET_BITS = 15,
};
static_assert(STATE_NAMES % WAYS == 0, "whole sets");
static_assert((uint64_t)BLOCKS * STATE_NAMES == 1ULL << (32 - NET_BITS),
	      "the blocks are the network");

/* FNV-1a. Who chooses names that meet only loses their own. */
static uint32_t hash(const char *s)
{
	uint32_t h = 2166136261U;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 16777619U;
	return h ^ h >> 15;
}

/* The first address of the sandbox's block. */
static uint32_t block_of(const struct box *b)
{
	return NET + hash(b->id) % BLOCKS * STATE_NAMES;
}

/* Where the name is, or takes the place of the one that was not used for
 * longest. */
static struct state_name *name_slot(struct box_state *s, const char *host)
{
	struct state_name *set =
		&s->names[hash(host) % (STATE_NAMES / WAYS) * WAYS];
	struct state_name *oldest = set;
	unsigned i;

	for (i = 0; i < WAYS; i++) {
		if (strncmp(set[i].host, host, sizeof(set[i].host)) == 0)
			return &set[i];
		if (set[i].used_ms < oldest->used_ms)
			oldest = &set[i];
	}
	memset(oldest, 0, sizeof(*oldest));
	memcpy(oldest->host, host, strlen(host));
	return oldest;
}

static struct in_addr name_address(struct box *b, const char *host)
{
	struct state_name *n = name_slot(b->state, host);
	uint32_t at = (uint32_t)(n - b->state->names);

	n->used_ms = clock_wall_ms();
	return (struct in_addr){ htonl(block_of(b) + at) };
}

static bool read_v4(const struct in6_addr *a, uint32_t *out)
{
	if (!IN6_IS_ADDR_V4MAPPED(a))
		return false;
	memcpy(out, &a->s6_addr[12], sizeof(*out));
	*out = ntohl(*out);
	return true;
}

bool names_is_synthetic(const struct in6_addr *a)
{
	uint32_t v4;

	return read_v4(a, &v4) &&
	       v4 >> (32 - NET_BITS) == (uint32_t)NET >> (32 - NET_BITS);
}

const char *names_host(struct box *b, const struct in6_addr *a)
{
	struct state_name *n;
	uint32_t v4;

	if (!b->state || !read_v4(a, &v4) || v4 < block_of(b) ||
	    v4 - block_of(b) >= STATE_NAMES)
		return NULL;
	n = &b->state->names[v4 - block_of(b)];
	if (n->host[0] == '\0')
		return NULL;
	n->used_ms = clock_wall_ms();
	return n->host;
}

/* --- answers --- */

static size_t deny(struct box *b, const struct dns_query *q,
		   unsigned char out[DNS_ANSWER_MAX])
{
	const struct ruling none = { .verdict = VERDICT_DENY,
				     .part = "no rule" };
	const struct request r = { .scheme = SCHEME_TCP,
				   .host = q->host,
				   .port = DNS_PORT };
	const struct egress x = {
		.box = b, .kind = "dns", .request = &r, .ruling = &none
	};
	struct buf why = { 0 };
	size_t n;

	ruling_text(b, &none, &why);
	buf_puts(&why, " allows it");
	record_denied(b->gate, &x, buf_str(&why));
	n = dns_answer(q, DNS_NXDOMAIN, NULL, buf_str(&why), out);
	buf_done(&why);
	return n;
}

static size_t answer(struct box *b, const struct dns_query *q,
		     unsigned char out[DNS_ANSWER_MAX])
{
	struct in_addr a = { htonl(INADDR_LOOPBACK) };

	if (q->host[0] == '\0')
		return dns_answer(q, DNS_NXDOMAIN, NULL, "not a host name",
				  out);
	if (strcmp(q->host, "localhost") != 0) {
		if (!b->state)
			return dns_answer(q, DNS_SERVFAIL, NULL, NULL, out);
		if (!box_knows_host(b, q->host, 0))
			return deny(b, q, out);
		if (q->type == DNS_A)
			a = name_address(b, q->host);
	}
	return dns_answer(q, DNS_OK, q->type == DNS_A ? &a : NULL, NULL, out);
}

/*
 * An answer comes from where the question went to. What the kernel said about
 * that is said back to it, but for the interface.
 */
static void answer_from(struct msghdr *m)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);

	if (c && c->cmsg_level == IPPROTO_IPV6 &&
	    c->cmsg_type == IPV6_PKTINFO &&
	    c->cmsg_len == CMSG_LEN(sizeof(struct in6_pktinfo))) {
		((struct in6_pktinfo *)CMSG_DATA(c))->ipi6_ifindex = 0;
		m->msg_controllen = CMSG_SPACE(sizeof(struct in6_pktinfo));
	} else if (c && c->cmsg_level == IPPROTO_IP &&
		   c->cmsg_type == IP_PKTINFO &&
		   c->cmsg_len == CMSG_LEN(sizeof(struct in_pktinfo))) {
		struct in_pktinfo *info = (struct in_pktinfo *)CMSG_DATA(c);

		info->ipi_ifindex = 0;
		info->ipi_spec_dst = info->ipi_addr;
		m->msg_controllen = CMSG_SPACE(sizeof(*info));
	} else {
		m->msg_control = NULL;
		m->msg_controllen = 0;
	}
}

/* One datagram; false: there is none. */
static bool read_one(struct box *b, struct io *io)
{
	unsigned char in[DNS_QUERY_MAX + 1], out[DNS_ANSWER_MAX];
	union {
		struct cmsghdr align;
		char room[128];
	} control;
	struct sockaddr_storage from;
	struct iovec v = { in, sizeof(in) };
	struct msghdr m = { .msg_name = &from,
			    .msg_namelen = sizeof(from),
			    .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(io->fd, &m, MSG_DONTWAIT);
	struct dns_query q;
	int code;

	if (n < 0)
		/* An error that was waiting is not the end of the line. */
		return errno != EAGAIN && errno != EBADF;
	code = dns_read(&q, in, (size_t)n);
	if (code < 0)
		return true;
	v = (struct iovec){ out, code == DNS_OK
					 ? answer(b, &q, out)
					 : dns_answer(&q, (enum dns_rcode)code,
						      NULL, NULL, out) };
	m.msg_flags = 0;
	answer_from(&m);
	/* Lost is what datagrams may be. */
	(void)sendmsg(io->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	return true;
}

void names_read(struct box *b, struct io *io)
{
	unsigned i;

	for (i = 0; i < TURN_MAX && read_one(b, io); i++)
		;
}
