#include "gate/scan.h"

struct scan_set *scan_set_new(void)
{
	return NULL;
}

void scan_set_free(struct scan_set *s)
{
	(void)s;
}

bool scan_set_add(struct scan_set *s, const void *word, size_t n,
		  unsigned label)
{
	(void)s;
	(void)word;
	(void)n;
	(void)label;
	return false;
}

bool scan_set_empty(const struct scan_set *s)
{
	(void)s;
	return true;
}

void scan_mask(struct scan *s, const void *p, size_t n, bool last,
	       struct buf *out)
{
	(void)s;
	(void)last;
	buf_add(out, p, n);
}

bool scan_look(struct scan *s, const void *p, size_t n)
{
	(void)s;
	(void)p;
	(void)n;
	return false;
}

void scan_done(struct scan *s)
{
	buf_done(&s->held);
}
