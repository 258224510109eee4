/*
 * What people have let a sandbox do, beyond its policies: lines of policy, for
 * a time or for as long as it lives. They count where its policies say "ask",
 * and nowhere else.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/str.h"

struct api;
struct buf;
struct identity;
struct sandbox;

enum { GRANTS_OF_BOX = 128, GRANT_RULE_CAP = 320 };

struct grants {
	struct list all;
	struct timer expiry;
};

/* When the sandboxes have been loaded. */
int grants_load(struct api *a, struct err *e) MUST_CHECK;
/*
 * One more; on disk when it returns. The door hears of it by gate_box_up().
 * One with the same rule is replaced.
 */
int grant_add(struct sandbox *s, const char *rule, uint64_t until_ms,
	      const char *who, struct err *e) MUST_CHECK;
/* All that `who` sees: [{"number", "sandbox", "rule", "until", "by"...}]. */
json_t *grants_list(struct api *a, const struct identity *who);
/* Withdraws one, on record; its sandbox, whose door does not know it yet. NULL:
 * `e`. */
struct sandbox *grant_withdraw(struct api *a, const struct identity *who,
			       uint64_t number, const char *request_id,
			       struct err *e);
/* Its lines, for the door. */
void grants_text(const struct sandbox *s, struct buf *out);
/* The same for people: [{"number", "rule", "until", "by"}]; NULL: none. */
json_t *grants_json(const struct sandbox *s);
/* It has ended. */
void grants_forget(struct sandbox *s);
