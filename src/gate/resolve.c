#include "gate/resolve.h"

int resolver_set(struct gate *g, const char *resolv, const char *hosts,
		 struct err *e)
{
	(void)g;
	(void)resolv;
	(void)hosts;
	(void)e;
	return 0;
}

void resolver_free(struct resolver *r)
{
	(void)r;
}
