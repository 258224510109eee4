#include "gate/dns.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum {
	LABEL_MAX = 63,
	CLASS_IN = 1,
	EDE_OPTION = 15,
	EDE_BLOCKED = 15,
	WHY_MAX = 200,
	FLAG_ANSWER = 0x8000,
	FLAG_OPCODE = 0x7800,
	FLAG_RECURSION = 0x0100,
	FLAG_RECURSIVE = 0x0080,
	/* A pointer back to the question's name. */
	NAME_OF_QUESTION = 0xc000 | DNS_HEADER,
};

static uint16_t get16(const unsigned char *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

/*
 * The name at the front of `p`, with its last byte; 0: it does not end, or
 * points elsewhere (a question has nothing to point to). What is no host name
 * is left "".
 */
static size_t read_name(struct dns_query *q, const unsigned char *p, size_t n)
{
	char text[DNS_NAME_MAX + 1];
	size_t at = 0, len = 0;
	bool address, odd = false;

	while (at < n && p[at] != 0) {
		size_t label = p[at];

		if (label > LABEL_MAX || at + 1 + label >= n ||
		    at + 1 + label >= DNS_NAME_MAX)
			return 0;
		if (len)
			text[len++] = '.';
		memcpy(text + len, p + at + 1, label);
		odd = odd || memchr(text + len, '.', label);
		len += label;
		at += 1 + label;
	}
	if (at >= n)
		return 0;
	/* The dot at the end is not part of a name here: one that is there is
	 * in the label. An address is no name either. */
	if (odd || host_read(text, len, q->host, &address) < 0 || address)
		q->host[0] = '\0';
	return at + 1;
}

/* The one record that a question may bring along: OPT, and all of it. */
static bool read_opt(const unsigned char *p, size_t n)
{
	return n >= 11 && p[0] == 0 && get16(p + 1) == DNS_OPT &&
	       get16(p + 9) == n - 11;
}

static int read_question(struct dns_query *q, const unsigned char *p, size_t n)
{
	unsigned more = get16(p + 10);
	size_t name = read_name(q, p + DNS_HEADER, n - DNS_HEADER);
	size_t at = DNS_HEADER + name + 4;

	if (name == 0 || at > n)
		return DNS_FORMERR;
	q->type = get16(p + at - 4);
	q->question_n = name + 4;
	memcpy(q->question, p + DNS_HEADER, q->question_n);
	if (more > 1 || (more == 0) != (at == n))
		return DNS_FORMERR;
	if (more && !read_opt(p + at, n - at))
		return DNS_FORMERR;
	q->edns = more == 1;
	return get16(p + at - 2) == CLASS_IN ? DNS_OK : DNS_REFUSED;
}

int dns_read(struct dns_query *q, const void *data, size_t n)
{
	const unsigned char *p = data;
	uint16_t flags;

	*q = (struct dns_query){ 0 };
	if (n < DNS_HEADER || n > DNS_QUERY_MAX)
		return -EBADMSG;
	flags = get16(p + 2);
	if (flags & FLAG_ANSWER)
		return -EBADMSG;
	q->id = get16(p);
	q->recursion = flags & FLAG_RECURSION;
	if (flags & FLAG_OPCODE)
		return DNS_NOTIMP;
	/* One question, no answers, no authorities. */
	if (get16(p + 4) != 1 || get16(p + 6) != 0 || get16(p + 8) != 0)
		return DNS_FORMERR;
	return read_question(q, p, n);
}

struct out {
	unsigned char *p;
	size_t n;
};

static void put(struct out *o, const void *p, size_t n)
{
	memcpy(o->p + o->n, p, n);
	o->n += n;
}

static void put16(struct out *o, unsigned v)
{
	const unsigned char two[] = { (unsigned char)(v >> 8),
				      (unsigned char)v };

	put(o, two, sizeof(two));
}

static void put_address(struct out *o, const struct in_addr *a)
{
	put16(o, NAME_OF_QUESTION);
	put16(o, DNS_A);
	put16(o, CLASS_IN);
	put16(o, 0);
	put16(o, DNS_TTL);
	put16(o, sizeof(a->s_addr));
	put(o, &a->s_addr, sizeof(a->s_addr));
}

static void put_opt(struct out *o, const char *why)
{
	size_t n = why ? strlen(why) : 0;

	if (n > WHY_MAX)
		n = WHY_MAX;
	put(o, "", 1);
	put16(o, DNS_OPT);
	put16(o, DNS_QUERY_MAX);
	put16(o, 0);
	put16(o, 0);
	put16(o, n ? (unsigned)n + 6 : 0);
	if (n == 0)
		return;
	put16(o, EDE_OPTION);
	put16(o, (unsigned)n + 2);
	put16(o, EDE_BLOCKED);
	put(o, why, n);
}

size_t dns_answer(const struct dns_query *q, enum dns_rcode code,
		  const struct in_addr *address, const char *why,
		  unsigned char out[DNS_ANSWER_MAX])
{
	static_assert(DNS_HEADER + DNS_NAME_MAX + 4 + 16 + 17 + WHY_MAX <=
			      DNS_ANSWER_MAX,
		      "the longest answer fits");
	struct out o = { out, 0 };

	put16(&o, q->id);
	put16(&o, FLAG_ANSWER | FLAG_RECURSIVE |
			  (q->recursion ? FLAG_RECURSION : 0) | code);
	put16(&o, q->question_n != 0);
	put16(&o, address != NULL);
	put16(&o, 0);
	put16(&o, q->edns);
	put(&o, q->question, q->question_n);
	if (address)
		put_address(&o, address);
	if (q->edns)
		put_opt(&o, why);
	return o.n;
}
