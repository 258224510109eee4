/*
 * Access that is asked for ahead, before any request is made: what the
 * policies of a sandbox say about a URL, and if a person has to decide, an
 * approval that no door holds (api/approvals.h).
 *
 * It waits in memory for `ask_timeout`, ACCESS_OF_BOX of a sandbox. One that
 * was denied stays that long as well, unseen: who asks again hears so, and
 * nobody is bothered twice. One that is allowed becomes a grant of the host.
 * Where no rule says anything of the host, the sandbox gets one of its own
 * that says "ask", behind all others, because grants count nowhere else.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"

struct approval;
struct gate_link;
struct identity;
struct sandbox;

enum {
	ACCESS_OF_BOX = 32,
	ACCESS_WAIT_MAX_S = 3600,
	/* What is let pass without a time. */
	ACCESS_GRANT_MS = 3600 * 1000,
};

/*
 * The grant of an approval that was asked for ahead; the rule in front of it,
 * if there has to be one, is made now. `who` allows it.
 */
int access_open(struct sandbox *s, const struct approval *p, const char *rule,
		const struct identity *who, const char *request_id,
		struct err *e) MUST_CHECK;
/* It is decided. True: there is nothing left of it to be remembered. */
bool access_decided(struct approval *p, bool allow);
/* The shared door is there: it calls who wants to be (`ask_webhook`). */
void access_hook(struct gate_link *l);
/* The sandbox has ended. */
void access_forget(struct sandbox *s);
