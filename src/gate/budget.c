#include "gate/budget.h"

enum budget_answer budget_begin(struct budget_hold *h, struct box *b,
				const struct request *r,
				const struct http_head *head, struct err *e)
{
	(void)r;
	(void)head;
	(void)e;
	h->box = b;
	h->open = true;
	return BUDGET_OK;
}

bool budget_up(struct budget_hold *h, uint64_t n)
{
	h->up += n;
	return true;
}

bool budget_down(struct budget_hold *h, uint64_t n)
{
	h->down += n;
	return true;
}

void budget_request_body(struct budget_hold *h, const void *p, size_t n)
{
	(void)h;
	(void)p;
	(void)n;
}

void budget_answer_body(struct budget_hold *h, const void *p, size_t n)
{
	(void)h;
	(void)p;
	(void)n;
}

bool budget_wants_bodies(const struct budget_hold *h)
{
	(void)h;
	return false;
}

bool budget_needs_look(const struct box *b, const char *host, uint16_t port)
{
	(void)b;
	(void)host;
	(void)port;
	return false;
}

void budget_end(struct budget_hold *h)
{
	h->open = false;
}

void box_count(const struct box *b, struct gate_count *out)
{
	(void)b;
	*out = (struct gate_count){ 0 };
}

const char *budget_why(const struct budget_hold *h)
{
	return h->why;
}

void budget_denied(struct box *b)
{
	(void)b;
}

void budget_forget(struct box *b)
{
	(void)b;
}
