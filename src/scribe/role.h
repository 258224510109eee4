/*
 * Who may write what: the user behind a connection says which names it may
 * give itself, the name which types of entries it may send.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "audit/entry.h"

struct scribe;
struct role;

/* The role of a writer of this name, or NULL: there is none, or this user may
 * not have it. */
const struct role *role_find(const struct scribe *s, uid_t uid,
			     const char *name);
bool role_may_send(const struct role *r, struct span type);
