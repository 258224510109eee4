/*
 * Who asks. Over the unix socket the kernel says it: root and the members of
 * the group are the operator. Everybody else shows a key.
 */
#pragma once

#include "api/call.h"
#include "base/err.h"

/* The identity, or EACCES (nobody) or EPERM (not with this scope). */
int auth_check(struct api *a, struct http_conn *c, const struct route *r,
	       struct identity *who, struct err *e) MUST_CHECK;
