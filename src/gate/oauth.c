#include "gate/oauth.h"

#include <errno.h>

#include "base/buf.h"

struct oauth *oauth_new(struct opened *o)
{
	(void)o;
	return NULL;
}

void oauth_free(struct oauth *a)
{
	(void)a;
}

const char *oauth_token(const struct oauth *a)
{
	(void)a;
	return NULL;
}

void oauth_fetch(struct oauth *a, struct box *b, struct oauth_wait *w)
{
	struct err e = { 0 };

	(void)a;
	(void)b;
	err_set(&e, EACCES, "no token can be fetched");
	w->fn(w, &e);
}

void oauth_cancel(struct oauth_wait *w)
{
	(void)w;
}
