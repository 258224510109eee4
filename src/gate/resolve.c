/* The calls that replace the deprecated ones came after c-ares 1.18, which is
 * Debian 12's. */
#define CARES_NO_DEPRECATED

#include "gate/resolve.h"

#include <ares.h>
#include <arpa/nameser.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "gate/dial.h"

enum {
	TRY_MS = 1500,      /* that a server has for its answer */
	ALL_MS = 5000,      /* that a name has */
	OTHER_MS = 200,     /* for the other family, when one has an address */
	ROUNDS = 3,         /* of all servers */
	UDP_SIZE = 1232,    /* that passes every path unbroken */
	ANSWER_MAX = 8192,  /* a longer one is no answer to us */
	HEAD = 12,          /* of a message */
	TYPE_AND_CLASS = 4, /* of a question, after its name */
	LENGTH = 2,         /* in front of a message over TCP */
	RCODE_NO_NAME = 3,
};

/* The bits of the third and fourth byte of a message. */
enum { IS_ANSWER = 0x80, OPCODE = 0x78, TRUNCATED = 0x02, RCODE = 0x0f };

struct cached {
	char host[POLICY_HOST_CAP], box[ID_CAP];
	uint64_t until_ms;
	struct in6_addr found[RESOLVE_FOUND];
	unsigned n_found;
};

struct resolver {
	struct gate *gate;
	struct resolve_conf conf;
	struct list queries;
	unsigned n_queries;
	struct cached cache[RESOLVE_CACHED];
	unsigned next_cached;
};

static void ask(struct question *q);

static struct loop *loop_of(struct question *q)
{
	return &q->query->resolver->gate->loop;
}

/* --- what is known --- */

static void add_found(struct resolve *q, const struct in6_addr *a)
{
	unsigned i;

	for (i = 0; i < q->n_found; i++)
		if (IN6_ARE_ADDR_EQUAL(&q->found[i], a))
			return;
	if (q->n_found < RESOLVE_FOUND)
		q->found[q->n_found++] = *a;
}

static bool find_hosts(struct resolve *q)
{
	const struct resolve_conf *c = &q->resolver->conf;
	unsigned i;

	for (i = 0; i < c->n_hosts; i++)
		if (strcmp(c->hosts[i].host, q->host) == 0)
			add_found(q, &c->hosts[i].address);
	return q->n_found > 0;
}

static bool find_cached(struct resolve *q)
{
	const struct resolver *r = q->resolver;
	uint64_t now = clock_boot_ms();
	unsigned i;

	for (i = 0; i < RESOLVE_CACHED; i++) {
		const struct cached *c = &r->cache[i];

		if (c->until_ms <= now || strcmp(c->host, q->host) != 0 ||
		    strcmp(c->box, q->box) != 0)
			continue;
		memcpy(q->found, c->found, sizeof(q->found));
		q->n_found = c->n_found;
		return true;
	}
	return false;
}

static void keep(const struct resolve *q)
{
	struct resolver *r = q->resolver;
	uint64_t ms = (uint64_t)q->ttl_s * 1000;
	struct cached *c = &r->cache[r->next_cached];

	if (ms == 0)
		return;
	r->next_cached = (r->next_cached + 1) % RESOLVE_CACHED;
	memcpy(c->host, q->host, sizeof(c->host));
	memcpy(c->box, q->box, sizeof(c->box));
	memcpy(c->found, q->found, sizeof(c->found));
	c->n_found = q->n_found;
	c->until_ms =
		clock_boot_ms() + (ms < RESOLVE_KEEP_MS ? ms : RESOLVE_KEEP_MS);
}

/* --- the end of a query --- */

static void question_done(struct question *q)
{
	q->done = true;
	io_close(loop_of(q), &q->io);
	timer_del(loop_of(q), &q->timer);
	free(q->out);
	q->out = NULL;
	buf_done(&q->in);
}

void resolve_cancel(struct resolve *q)
{
	unsigned i;

	if (!q->fn)
		return;
	q->fn = NULL;
	for (i = 0; i < ARRAY_LEN(q->question); i++)
		question_done(&q->question[i]);
	timer_del(&q->resolver->gate->loop, &q->timer);
	list_del(&q->node);
	q->resolver->n_queries--;
}

static void finish(struct resolve *q)
{
	resolve_fn *fn = q->fn;
	struct err e = { 0 };

	if (q->n_found > 0)
		keep(q);
	else if (q->refused)
		err_set(&e, ENOENT, "there is no host %s", q->host);
	else
		err_set(&e, ETIMEDOUT,
			"the host's resolver has no answer about %s", q->host);
	resolve_cancel(q);
	fn(q, &e);
}

static void on_end(struct timer *t)
{
	finish(container_of(t, struct resolve, timer));
}

/* A question has its answer, or will have none. */
static void answered(struct question *q)
{
	struct resolve *query = q->query;

	question_done(q);
	if (query->question[0].done && query->question[1].done)
		finish(query);
	else if (query->n_found > 0)
		timer_set(&query->resolver->gate->loop, &query->timer, OTHER_MS,
			  on_end);
}

/* --- answers --- */

static const unsigned char *message(const struct question *q)
{
	return q->out + LENGTH;
}

static void take_ttl(struct resolve *q, int ttl)
{
	unsigned s = ttl > 0 ? (unsigned)ttl : 0;

	if (q->n_found == 0 || s < q->ttl_s)
		q->ttl_s = s;
}

static void take_v4(struct resolve *q, const unsigned char *p, int n)
{
	struct ares_addrttl got[RESOLVE_FOUND];
	int i, n_got = RESOLVE_FOUND;
	struct in6_addr a;

	if (ares_parse_a_reply(p, n, NULL, got, &n_got) != ARES_SUCCESS)
		return;
	for (i = 0; i < n_got; i++) {
		address_map(&a, &got[i].ipaddr);
		take_ttl(q, got[i].ttl);
		add_found(q, &a);
	}
}

static void take_v6(struct resolve *q, const unsigned char *p, int n)
{
	struct ares_addr6ttl got[RESOLVE_FOUND];
	int i, n_got = RESOLVE_FOUND;
	struct in6_addr a;

	if (ares_parse_aaaa_reply(p, n, NULL, got, &n_got) != ARES_SUCCESS)
		return;
	for (i = 0; i < n_got; i++) {
		memcpy(&a, &got[i].ip6addr, sizeof(a));
		take_ttl(q, got[i].ttl);
		add_found(q, &a);
	}
}

/* Is it the answer to our question? It repeats the question; only the case of
 * its letters may be another. */
static bool is_reply_to(const struct question *q, const unsigned char *p,
			size_t n)
{
	const unsigned char *own = message(q);
	size_t name = strlen((const char *)own + HEAD) + 1, i;

	if (n < HEAD + name + TYPE_AND_CLASS || p[0] != own[0] ||
	    p[1] != own[1] || !(p[2] & IS_ANSWER) || (p[2] & OPCODE) ||
	    p[4] != 0 || p[5] != 1)
		return false;
	for (i = HEAD; i < HEAD + name; i++)
		if (tolower(p[i]) != tolower(own[i]))
			return false;
	return memcmp(p + i, own + i, TYPE_AND_CLASS) == 0;
}

/* True: this question is over. */
static bool take_answer(struct question *q, const unsigned char *p, size_t n)
{
	int rcode = p[3] & RCODE;

	if (rcode == RCODE_NO_NAME) {
		q->query->refused = true;
		return true;
	}
	if (rcode != 0)
		return false;
	if (q->type == ns_t_a)
		take_v4(q->query, p, (int)n);
	else
		take_v6(q->query, p, (int)n);
	/* None is an answer, too. */
	q->query->refused = true;
	return true;
}

/* --- sending and receiving --- */

static void next_try(struct question *q)
{
	q->tries++;
	q->tcp = false;
	ask(q);
}

static void on_silence(struct timer *t)
{
	next_try(container_of(t, struct question, timer));
}

static void read_udp(struct question *q)
{
	unsigned char p[UDP_SIZE + 512];
	ssize_t n = recv(q->io.fd, p, sizeof(p), MSG_TRUNC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		next_try(q);
		return;
	}
	/* Not ours: somebody guesses. The right one may still come. */
	if ((size_t)n > sizeof(p) || !is_reply_to(q, p, (size_t)n))
		return;
	if (p[2] & TRUNCATED) {
		q->tcp = true;
		ask(q);
	} else if (take_answer(q, p, (size_t)n)) {
		answered(q);
	} else {
		next_try(q);
	}
}

static void read_tcp(struct question *q)
{
	const unsigned char *p;
	ssize_t r = buf_read(&q->in, q->io.fd, UDP_SIZE);
	size_t n;

	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r <= 0) {
		next_try(q);
		return;
	}
	p = (const unsigned char *)buf_data(&q->in);
	if (buf_len(&q->in) < LENGTH)
		return;
	n = (size_t)p[0] << 8 | p[1];
	if (n <= ANSWER_MAX && buf_len(&q->in) < LENGTH + n)
		return;
	if (n <= ANSWER_MAX && is_reply_to(q, p + LENGTH, n) &&
	    take_answer(q, p + LENGTH, n))
		answered(q);
	else
		next_try(q);
}

static void write_tcp(struct question *q)
{
	ssize_t n = send(q->io.fd, q->out + q->sent, q->out_n - q->sent,
			 MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		next_try(q);
		return;
	}
	q->sent += n > 0 ? (size_t)n : 0;
	if (q->sent == q->out_n)
		io_set(loop_of(q), &q->io, EPOLLIN);
}

static void on_io(struct io *io, uint32_t events)
{
	struct question *q = container_of(io, struct question, io);

	if (!q->tcp)
		read_udp(q);
	else if (q->sent < q->out_n)
		write_tcp(q);
	else if (events)
		read_tcp(q);
}

/* A number that cannot be guessed, a port that the kernel chose. */
static int open_socket(struct question *q, const struct server *s)
{
	struct sockaddr_storage to;
	socklen_t n = address_socket(&s->address, s->port, &to);
	int kind = q->tcp ? SOCK_STREAM : SOCK_DGRAM;
	AUTO_CLOSE int fd = -1;

	if (getrandom(&q->id, sizeof(q->id), 0) != sizeof(q->id))
		return -EIO;
	memcpy(q->out + LENGTH, &q->id, sizeof(q->id));
	fd = socket(to.ss_family, kind | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&to, n) < 0 && errno != EINPROGRESS)
		return -errno;
	if (!q->tcp &&
	    send(fd, message(q), q->out_n - LENGTH, MSG_NOSIGNAL) < 0)
		return -errno;
	q->sent = 0;
	buf_clear(&q->in);
	return io_add(loop_of(q), &q->io, take_fd(&fd),
		      q->tcp ? EPOLLOUT : EPOLLIN, on_io);
}

/* Asks the next server; one that cannot be asked is passed over. */
static void ask(struct question *q)
{
	const struct resolve_conf *c = &q->query->resolver->conf;

	io_close(loop_of(q), &q->io);
	for (; q->tries < c->n_servers * ROUNDS; q->tries++) {
		if (open_socket(q, &c->servers[q->tries % c->n_servers]) == 0) {
			timer_set(loop_of(q), &q->timer, TRY_MS, on_silence);
			return;
		}
		q->tcp = false;
	}
	answered(q);
}

/* --- beginning --- */

static int make_message(struct question *q, struct err *e)
{
	unsigned char *made = NULL;
	int n = 0;

	if (ares_create_query(q->query->host, ns_c_in, q->type, 0, 1, &made, &n,
			      UDP_SIZE) != ARES_SUCCESS ||
	    n < HEAD || n > 512)
		return err_set(e, EINVAL, "%s cannot be looked up",
			       q->query->host);
	q->out_n = (size_t)n + LENGTH;
	q->out = xcalloc(1, q->out_n);
	q->out[0] = (unsigned char)(n >> 8);
	q->out[1] = (unsigned char)n;
	memcpy(q->out + LENGTH, made, (size_t)n);
	ares_free_string(made);
	return 0;
}

/* The first send of both, from the loop: it may fail at once. */
static void on_begin(struct timer *t)
{
	struct resolve *q = container_of(t, struct resolve, timer);

	timer_set(&q->resolver->gate->loop, &q->timer, ALL_MS, on_end);
	ask(&q->question[0]);
	if (q->fn)
		ask(&q->question[1]);
}

int resolve_start(struct resolve *q, struct resolver *r, const char *box,
		  const char *host, resolve_fn *fn, struct err *e)
{
	static const int types[] = { ns_t_a, ns_t_aaaa };
	unsigned i;

	q->resolver = r;
	q->n_found = 0;
	if (!r)
		return err_set(e, EIO, "the door knows no resolver yet");
	if (str_copy(q->host, sizeof(q->host), host) < 0 ||
	    str_copy(q->box, sizeof(q->box), box) < 0)
		return err_set(e, EINVAL, "%s cannot be looked up", host);
	if (find_hosts(q) || find_cached(q))
		return 1;
	if (r->n_queries >= RESOLVE_MAX)
		return err_set(e, EAGAIN, "too many names are being looked up");
	for (i = 0; i < ARRAY_LEN(q->question); i++) {
		q->question[i] = (struct question){ .query = q,
						    .type = types[i],
						    .io.fd = -1 };
		if (make_message(&q->question[i], e) < 0) {
			free(q->question[0].out);
			return -e->code;
		}
	}
	q->fn = fn;
	q->ttl_s = 0;
	q->refused = false;
	list_add(&r->queries, &q->node);
	r->n_queries++;
	timer_set(&r->gate->loop, &q->timer, 0, on_begin);
	return 0;
}

int resolver_set(struct gate *g, const char *resolv, const char *hosts,
		 struct err *e)
{
	struct resolver *r = g->resolver;
	struct resolve_conf c;

	if (resolve_conf_read(&c, g->conf->resolver, resolv, hosts, e) < 0)
		return -e->code;
	if (!r) {
		r = g->resolver = xcalloc(1, sizeof(*r));
		r->gate = g;
		list_init(&r->queries);
	}
	resolve_conf_done(&r->conf);
	r->conf = c;
	memset(r->cache, 0, sizeof(r->cache));
	return 0;
}

void resolver_free(struct resolver *r)
{
	if (!r)
		return;
	while (!list_empty(&r->queries))
		resolve_cancel(
			container_of(r->queries.next, struct resolve, node));
	resolve_conf_done(&r->conf);
	free(r);
}
