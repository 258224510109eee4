#include "scribe/role.h"

#include <string.h>

#include "base/str.h"
#include "scribe/scribe.h"

struct role {
	const char *name;
	bool below;           /* "gate.PROJECT", too */
	const char *types[7]; /* prefixes; none: all but the log's own */
};

static const struct role roles[] = {
	{ .name = "api" },
	{ .name = "gate",
	  .below = true,
	  .types = { "egress.", "approval.", "secret.", "budget.",
		     "canary." } },
};

static bool name_fits(const struct role *r, const char *name)
{
	size_t n = strlen(r->name);

	if (strncmp(name, r->name, n) != 0)
		return false;
	return name[n] == '\0' ||
	       (r->below && name[n] == '.' && name_valid(name + n + 1));
}

const struct role *role_find(const struct scribe *s, uid_t uid,
			     const char *name)
{
	const uid_t users[] = { s->api_uid, s->gate_uid };
	size_t i;

	for (i = 0; i < sizeof(roles) / sizeof(*roles); i++)
		if (name_fits(&roles[i], name))
			return uid == 0 || uid == users[i] ? &roles[i] : NULL;
	return NULL;
}

bool role_may_send(const struct role *r, struct span type)
{
	size_t i;

	if (!r->types[0])
		return true;
	for (i = 0; r->types[i]; i++)
		if (span_starts(type, r->types[i]))
			return true;
	return false;
}
