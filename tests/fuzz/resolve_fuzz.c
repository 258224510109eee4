/*
 * What a resolver outside answers. The first byte chooses the family and
 * whether the beginning is made right: so the rest is reached. Whatever comes,
 * only addresses of that family are found, and not too many.
 */
#include "../../src/gate/address.c"
#include "../../src/gate/decide.h"
#include "../../src/gate/resolve.c"
#include "../../src/gate/resolve_conf.c"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

bool box_names_address(const struct box *b, const struct request *q, bool asked,
		       const char *host, const struct in6_addr *a,
		       uint16_t port)
{
	(void)b;
	(void)q;
	(void)asked;
	(void)host;
	(void)a;
	(void)port;
	return false;
}

static void answer(struct resolve *r, struct question *q, unsigned char *p,
		   size_t n, bool right)
{
	unsigned i;

	if (right && n >= q->out_n - LENGTH) {
		memcpy(p, message(q), 2);
		p[2] = (unsigned char)(p[2] | IS_ANSWER) & ~OPCODE;
		p[3] &= 0xf0;
		p[4] = 0;
		p[5] = 1;
		memcpy(p + HEAD, message(q) + HEAD, 8 + TYPE_AND_CLASS);
	}
	if (!is_reply_to(q, p, n) || !take_answer(q, p, n))
		return;
	assert(r->n_found <= RESOLVE_FOUND);
	for (i = 0; i < r->n_found; i++)
		assert(q->type == ns_t_aaaa ||
		       IN6_IS_ADDR_V4MAPPED(&r->found[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct resolve r = { .host = "a.test" };
	struct question *q = &r.question[0];
	struct err e = { 0 };
	unsigned char *p;

	if (size < 1 || size > ANSWER_MAX)
		return 0;
	*q = (struct question){ .query = &r, .io.fd = -1 };
	q->type = data[0] & 1 ? ns_t_a : ns_t_aaaa;
	if (make_message(q, &e) < 0)
		abort();
	p = malloc(size - 1); /* exactly: so that a byte too far is seen */
	if (!p && size > 1)
		abort();
	if (size > 1)
		memcpy(p, data + 1, size - 1);
	answer(&r, q, p, size - 1, data[0] & 2);
	free(p);
	free(q->out);
	return 0;
}
