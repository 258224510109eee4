#include "gate/prices.h"

int prices_read(struct prices **out, const char *path, struct err *e)
{
	(void)path;
	return prices_parse(out, "", 0, e);
}

int prices_parse(struct prices **out, const char *text, size_t n, struct err *e)
{
	(void)text;
	(void)n;
	(void)e;
	*out = NULL;
	return 0;
}

void prices_free(struct prices *p)
{
	(void)p;
}
