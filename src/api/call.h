/*
 * One request as its handler sees it: who asks, for which row of the table of
 * routes, and the {parts} of the path. Valid during the handler only: what is
 * needed later is copied.
 */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/guards.h"
#include "base/str.h"

struct api;
struct http_conn;
struct http_head;
struct route;

/* Each includes the ones in front of it. */
enum scope { SCOPE_READ, SCOPE_USE, SCOPE_APPROVE, SCOPE_POLICY, SCOPE_ADMIN };

enum { WHO_CAP = 96, CALL_ARGS = 2, CALL_ARG_CAP = 128 };

struct identity {
	/* Whose things it sees and makes. "": everybody's (the operator, who
	 * came over the unix socket); what it makes is DEFAULT_PROJECT's. */
	char project[NAME_CAP];
	char name[WHO_CAP]; /* for the log: "uid:0", "key:3f2a90c1" */
	enum scope scope;
};

#define DEFAULT_PROJECT "default"

/* Does it see what is of this project? */
static inline bool who_sees(const struct identity *who, const char *project)
{
	return *who->project == '\0' || !GUARD(PROJECT) ||
	       strcmp(who->project, project) == 0;
}

/* The project of what it makes. */
static inline const char *who_project(const struct identity *who)
{
	return *who->project ? who->project : DEFAULT_PROJECT;
}

struct call {
	const struct route *route;
	struct identity who;
	char arg[CALL_ARGS][CALL_ARG_CAP];
	const char *rest; /* behind a pattern that ends in a "*", decoded */
};

/* The project that ?project= names, or the own one: EINVAL, ENOENT. */
int call_project(const struct call *call, const struct http_head *h,
		 char out[NAME_CAP], struct err *e) MUST_CHECK;

typedef void handler_fn(struct api *a, struct http_conn *c,
			const struct call *call);
