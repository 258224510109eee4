/*
 * Requests that wait for a person. The doors hold them (gate/ask.h); here is
 * what they ask for, under a number that no other ever had. A door that comes
 * back tells again what waits; what it does not tell is over.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/str.h"
#include "policy/policy.h"
#include "wire/gate.h"

struct api;
struct gate_link;
struct sandbox;

enum {
	APPROVALS_MAX = 1024,     /* of a door */
	APPROVAL_PATH_CAP = 1100, /* with a query */
	APPROVAL_RULE_CAP = 256,
	APPROVAL_REASON_CAP = 401,
	APPROVAL_NUMBERS = 100, /* taken from the registry at once */
};

struct approval {
	struct list node;
	struct gate_link *link;
	uint64_t number, at_door;
	char sandbox[ID_CAP], project[NAME_CAP];
	char method[32], scheme[8], host[POLICY_HOST_CAP];
	char path[APPROVAL_PATH_CAP];
	char part[GATE_PART_CAP], rule[APPROVAL_RULE_CAP];
	uint32_t port, line;
	uint64_t asked_ms; /* wall time, when we heard of it */
	bool deciding;     /* somebody's answer is on its way to the log */
	bool unheard;      /* its door went away since */
	/* Asked for ahead of any request: no door holds it (api/access.h). */
	bool ahead;
	bool denied; /* and remembered until it expires */
	bool hooked; /* the door was told to call `ask_webhook` */
	char reason[APPROVAL_REASON_CAP];
	struct api *api;
	struct timer expiry;
	struct list waiters;
};

struct approvals {
	struct list all;     /* in the order of their numbers, mostly */
	uint64_t next, last; /* numbers that are ours to give */
};

void approvals_init(struct api *a);
unsigned approvals_count(const struct api *a);
struct approval *approval_find(struct api *a, uint64_t number);
/* One more, with a number; NULL: there is none to be had. */
struct approval *approval_add(struct api *a, const struct approval *want,
			      struct err *e);
/* Of one sandbox, to one place? */
bool approval_same_place(const struct approval *p, const struct approval *q);
json_t *approval_json(struct api *a, const struct approval *p);
/* The same for the log, where no query is written down. */
json_t *approval_entry(struct api *a, const struct approval *p);
/* Is it about a budget that is used up? Then it is about one request. */
bool approval_of_budget(const struct approval *p);
/* Where it goes, as a line of policy: all of this host. */
void approval_rule(const struct approval *p, struct buf *out);
/* Does somebody still wait for the answer? */
bool approval_waits(const struct approval *p);
/*
 * The answer; forgets it, and with `host` all others of the same sandbox to the
 * same host.
 */
void approval_answer(struct api *a, struct approval *p, bool allow, bool host);

/* What doors say. */
void approval_asked(struct gate_link *l, const struct gate_msg *m);
void approval_gone(struct gate_link *l, const struct gate_msg *m);
/* Its door is away; its door is back and has told all. */
void approvals_lost(struct gate_link *l);
void approvals_settle(struct gate_link *l);
bool approvals_any(const struct gate_link *l);
