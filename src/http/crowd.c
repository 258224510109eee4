/*
 * Which connection gives way when places run out.
 *
 * A connection that waits for a request is idle. Idle connections stand in two
 * orders, oldest first: of strangers, whose last request proved nothing or who
 * have sent none, and of those that http_trust() named. Both the server and
 * each address have these lists, so that an address that uses up its own
 * places makes room among its own connections.
 *
 * The oldest idle stranger is closed first, then the oldest idle connection of
 * a known client, which HTTP permits between requests. Connections with a
 * request under way never give way.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "http/conn.h"

struct http_origin {
	struct list node;
	struct in6_addr site;
	struct http_idle idle;
	unsigned n; /* connections */
};

static void idle_init(struct http_idle *i)
{
	list_init(&i->of[0]);
	list_init(&i->of[1]);
}

void crowd_init(struct http_server *s)
{
	size_t i;

	idle_init(&s->idle);
	for (i = 0; i < HTTP_ORIGIN_LISTS; i++)
		list_init(&s->origins[i]);
	/* Unknown to those who choose addresses that share a list. */
	if (getrandom(&s->origin_seed, sizeof(s->origin_seed), 0) !=
	    sizeof(s->origin_seed))
		abort();
}

/* --- addresses --- */

/* An IPv6 client has a whole /64 to itself. */
static struct in6_addr site_of(const struct in6_addr *a)
{
	struct in6_addr site = *a;

	if (!IN6_IS_ADDR_V4MAPPED(a))
		memset(&site.s6_addr[8], 0, 8);
	return site;
}

static struct list *origin_list(struct http_server *s,
				const struct in6_addr *site)
{
	uint64_t half[2], h;

	memcpy(half, site, sizeof(half));
	h = (half[0] ^ s->origin_seed) * 0x9e3779b97f4a7c15u;
	h = (h ^ (h >> 32) ^ half[1]) * 0x9e3779b97f4a7c15u;
	return &s->origins[(h >> 32) % HTTP_ORIGIN_LISTS];
}

static struct http_origin *origin_find(struct http_server *s,
				       const struct in6_addr *addr)
{
	struct in6_addr site = site_of(addr);
	struct list *pos, *tmp, *in = origin_list(s, &site);

	list_each (pos, tmp, in) {
		struct http_origin *o =
			container_of(pos, struct http_origin, node);

		if (memcmp(&o->site, &site, sizeof(site)) == 0)
			return o;
	}
	return NULL;
}

static struct http_origin *origin_new(struct http_server *s,
				      const struct in6_addr *addr)
{
	struct http_origin *o = xcalloc(1, sizeof(*o));

	o->site = site_of(addr);
	idle_init(&o->idle);
	list_add(origin_list(s, &o->site), &o->node);
	return o;
}

void crowd_join(struct http_conn *c, const struct in6_addr *from)
{
	c->peer = *from;
	c->origin = origin_find(c->server, from);
	if (!c->origin)
		c->origin = origin_new(c->server, from);
	c->origin->n++;
}

void crowd_leave(struct http_conn *c)
{
	struct http_origin *o = c->origin;

	crowd_busy(c);
	c->origin = NULL;
	if (!o || --o->n > 0)
		return;
	list_del(&o->node);
	free(o);
}

/* --- idle connections --- */

void crowd_idle(struct http_conn *c)
{
	if (c->guest)
		return;
	crowd_busy(c);
	list_add(&c->server->idle.of[c->known], &c->idle);
	if (c->origin)
		list_add(&c->origin->idle.of[c->known], &c->origin_idle);
}

void crowd_busy(struct http_conn *c)
{
	list_del(&c->idle);
	list_del(&c->origin_idle);
}

void http_trust(struct http_conn *c, bool known)
{
	c->known = known;
}

/* A known client's next request, of which a part is here, is not lost. */
static bool may_close(const struct http_conn *c)
{
	return !c->known || buf_len(&c->in) == 0;
}

/* The first that may be closed; `node_at`: where its node in `l` is. */
static bool close_first(struct list *l, size_t node_at)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, l) {
		struct http_conn *c = (void *)((char *)pos - node_at);

		if (!may_close(c))
			continue;
		conn_close(c);
		return true;
	}
	return false;
}

bool crowd_make_room(struct http_server *s)
{
	size_t at = offsetof(struct http_conn, idle);

	return close_first(&s->idle.of[0], at) ||
	       close_first(&s->idle.of[1], at);
}

bool crowd_admits(struct http_server *s, const struct in6_addr *from)
{
	size_t at = offsetof(struct http_conn, origin_idle);
	struct http_origin *o = NULL;

	if (!s->is_unix && s->max_per_peer > 0)
		o = origin_find(s, from);
	return !o || o->n < s->max_per_peer ||
	       close_first(&o->idle.of[0], at) ||
	       close_first(&o->idle.of[1], at);
}
