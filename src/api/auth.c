#include "api/auth.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "api/inner.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/guards.h"

enum { WRONG_MAX = 10, WRONG_STEP_MS = 2000 };

/* The socket's mode let it in: root, or a member of the group. */
static int local(struct http_conn *c, struct identity *who)
{
	struct ucred peer = { 0 };
	int r = http_peer(c, &peer);

	if (r < 0 && GUARD(KEY))
		return r;
	*who = (struct identity){ .scope = SCOPE_ADMIN };
	snprintf(who->name, sizeof(who->name), "uid:%u", peer.uid);
	return 0;
}

/* The key that came with a request; NULL: none, or "" when it is no key. */
static const char *given(const struct http_head *h)
{
	static const char scheme[] = "Bearer ";
	const char *v = http_header(h, "Authorization");

	if (!v)
		return http_header(h, "X-API-Key");
	if (strncasecmp(v, scheme, strlen(scheme)) != 0)
		return "";
	return v + strlen(scheme);
}

/* A user, or an address; of IPv6 what a site has to itself. */
static uint64_t peer_of(struct http_conn *c)
{
	struct ucred peer = { 0 };
	char text[HTTP_PEER_TEXT];
	struct in6_addr v6;
	struct in_addr v4;
	uint64_t site;

	if (http_peer(c, &peer) == 0)
		return 1 + (uint64_t)peer.uid;
	http_peer_text(c, text);
	if (inet_pton(AF_INET, text, &v4) == 1)
		return (1ULL << 32) + v4.s_addr;
	if (inet_pton(AF_INET6, text, &v6) != 1)
		return 0;
	memcpy(&site, &v6, sizeof(site));
	return site;
}

/* Counts one more; too many? Tries come back one by one. */
static bool wrong_too_often(struct api *a, uint64_t peer)
{
	uint64_t now = clock_boot_ms();
	unsigned at = (unsigned)((peer * 0x9e3779b97f4a7c15u) >> 56);

	if (a->auth.wrong[at].peer != peer || a->auth.wrong[at].full_ms < now)
		a->auth.wrong[at].full_ms = now;
	a->auth.wrong[at].peer = peer;
	if (a->auth.wrong[at].full_ms - now >= WRONG_MAX * WRONG_STEP_MS)
		return true;
	a->auth.wrong[at].full_ms += WRONG_STEP_MS;
	return false;
}

static int by_key(struct api *a, struct http_conn *c, const char *secret,
		  struct identity *who, struct err *e)
{
	struct key *k = key_by_secret(a, secret);

	if (!k && GUARD(WRONGKEYS) && wrong_too_often(a, peer_of(c)))
		return err_set(e, EUSERS, "too many wrong keys: wait a while");
	if (!k)
		return err_set(e, EACCES,
			       "this is not a key, or not one any more");
	key_used(a, k);
	*who = (struct identity){ .scope = k->scope };
	snprintf(who->name, sizeof(who->name), "key:%s", k->id);
	memcpy(who->project, k->project, sizeof(who->project));
	return 0;
}

static int may(const struct route *r, const struct identity *who, struct err *e)
{
	if (GUARD(SCOPE) && who->scope < r->scope)
		return err_set(e, EPERM,
			       "the scope of this key is '%s', '%s' is needed",
			       scope_word(who->scope), scope_word(r->scope));
	if ((r->flags & ROUTE_OPERATOR) && *who->project)
		return err_set(e, EPERM,
			       "this concerns all projects, and this key is of "
			       "project '%s' only",
			       who->project);
	return 0;
}

int auth_check(struct api *a, struct http_conn *c, const struct route *r,
	       struct identity *who, struct err *e)
{
	const char *secret = given(http_request(c));
	int rc;

	/* "-" is no project's name: nobody sees nothing. */
	*who = (struct identity){ .project = "-", .name = "nobody" };
	if (r->flags & (ROUTE_OPEN | ROUTE_TOKEN))
		return 0;
	if (inner_who(c)) {
		*who = *inner_who(c);
		return may(r, who, e);
	}
	if (secret)
		rc = by_key(a, c, secret, who, e);
	else if (local(c, who) < 0)
		rc = err_set(e, EACCES,
			     "no key was given: send 'Authorization: Bearer "
			     "KEY'");
	else
		rc = 0;
	http_trust(c, rc == 0);
	return rc < 0 ? rc : may(r, who, e);
}
