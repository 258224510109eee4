/* Which requests are to a sandbox, as far as their heads tell. */
#include <string.h>

#include "api/e2b/e2b.h"
#include "http/target.h"

bool e2b_is_signed(const struct http_head *h)
{
	char one[2];

	return strcmp(h->path, "/files") == 0 &&
	       http_query(h, "signature", one, sizeof(one)) != 0;
}

bool e2b_is_to_sandbox(const struct http_head *h)
{
	if (http_header(h, "e2b-sandbox-id") || e2b_is_signed(h))
		return true;
	/* A browser asks whether its page may. */
	return strcmp(h->method, "OPTIONS") == 0 &&
	       http_has_token(h, "access-control-request-headers",
			      "e2b-sandbox-id");
}
