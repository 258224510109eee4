#include "gate/dial.h"

const char *address_forbidden(const struct in6_addr *a)
{
	(void)a;
	return "unknown";
}
