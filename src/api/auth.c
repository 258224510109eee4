#include "api/auth.h"

#include <errno.h>
#include <stdio.h>

#include "api/api.h"
#include "api/routes.h"

/* The socket's mode let it in: root, or a member of the group. */
static int local(struct http_conn *c, struct identity *who)
{
	struct ucred peer;
	int r = http_peer(c, &peer);

	if (r < 0)
		return r;
	*who = (struct identity){ .scope = SCOPE_ADMIN };
	snprintf(who->name, sizeof(who->name), "uid:%u", peer.uid);
	return 0;
}

int auth_check(struct api *a, struct http_conn *c, const struct route *r,
	       struct identity *who, struct err *e)
{
	(void)a;
	(void)r;
	if (local(c, who) < 0)
		return err_set(e, EACCES, "no key was given");
	return 0;
}
