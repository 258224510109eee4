#include "gate/model.h"

enum {
	BYTES_PER_TOKEN = 4, /* more or less, of English and of code */
	OUT_UNSAID = 4096,   /* of a request without a maximum */
	TOKENS_MOST = 1 << 30,
	CHOICES_MOST = 128,
};

static uint64_t at_most(uint64_t n, uint64_t most)
{
	return n < most ? n : most;
}

struct model_tokens model_most(const struct model_use *m)
{
	const struct usage *u = &m->request.found;
	uint64_t each = u->max_tokens ? u->max_tokens : OUT_UNSAID;
	uint64_t times = u->choices ? at_most(u->choices, CHOICES_MOST) : 1;

	if (m->request_bytes == 0)
		return (struct model_tokens){ 0 };
	return (struct model_tokens){
		.in = at_most(m->request_bytes / BYTES_PER_TOKEN + 1,
			      TOKENS_MOST),
		.out = at_most(each * times, TOKENS_MOST),
	};
}

static uint64_t at_least(uint64_t n, uint64_t least)
{
	return n > least ? n : least;
}

/* Tokens of an answer that was cut off, or that does not tell its usage. */
static struct model_tokens estimate(const struct model_use *m)
{
	struct model_tokens t = model_most(m);

	if (!m->cut && m->request.found.max_tokens == 0)
		t.out = at_most(m->answer_bytes / BYTES_PER_TOKEN + 1, t.out);
	if (m->answer.found.pieces > 1)
		t.out = at_least(t.out, m->answer.found.pieces);
	return t;
}

struct model_tokens model_used(const struct model_use *m, int status)
{
	const struct usage *u = &m->answer.found;
	struct model_tokens t = { .in = u->tokens_in, .out = u->tokens_out };

	/* The others count what they had in store among the rest. */
	if (m->shape == MODEL_ANTHROPIC)
		t.in += u->tokens_cached;
	if ((!u->final || u->wrong) && (m->cut || status / 100 == 2)) {
		const struct model_tokens x = estimate(m);

		t.in = t.in ? t.in : x.in;
		t.out = at_least(t.out, x.out);
	}
	t.in = at_most(t.in, TOKENS_MOST);
	t.out = at_most(t.out, TOKENS_MOST);
	return t;
}

void model_request(struct model_use *m, const void *p, size_t n)
{
	m->request_bytes += n;
	usage_request(&m->request, p, n);
}

void model_answer(struct model_use *m, const void *p, size_t n)
{
	m->answer_bytes += n;
	usage_answer(&m->answer, p, n);
}
