/* Targets of rules, and methods. Internal to src/policy/. */
#pragma once

#include "policy/policy.h"

/* `s` has `n` bytes; fills schemes, kind, host, port and path of the rule. */
int target_read(struct rule *r, const char *s, size_t n,
		struct err *e) MUST_CHECK;
void target_print(const struct rule *r, struct buf *out);

/* "*", "tcp", or methods with commas. */
int methods_read(struct rule *r, const char *s, size_t n,
		 struct err *e) MUST_CHECK;
void methods_print(const struct rule *r, struct buf *out);

struct word {
	const char *s;
	size_t n;
};

/* Adds the rule EFFECT METHODS TARGET, or EFFECT * for everything: `n` words,
 * three at most. */
/* `require WHAT VALUE` */
int require_set(struct policy *p, const char *what, const char *value,
		struct err *e) MUST_CHECK;
int rule_read(struct policy *p, unsigned line, const struct word *w, size_t n,
	      struct err *e) MUST_CHECK;

/* Hosts as rules compare them: `n` and `m` are their lengths. */
bool host_fits(enum host_kind kind, const char *pattern, size_t n,
	       const char *host, size_t m);
/* What is in front of its name: "*.", "." or nothing. */
const char *host_prefix(enum host_kind kind);
/* A whole host of a rule: "*" is one, too. */
int host_kind_read(enum host_kind *kind, char out[POLICY_HOST_CAP],
		   const char *s, size_t n, struct err *e) MUST_CHECK;

/* places.c: lines that are no rules. Each takes one thing and says what is
 * wrong with it. */
int private_add(struct policy *p, const char *s, struct err *e) MUST_CHECK;
int model_add(struct policy *p, const char *host, const char *shape,
	      struct err *e) MUST_CHECK;
int over_set(struct policy *p, const char *word, struct err *e) MUST_CHECK;
/* The budget of a host, made when there is none; NULL with `e`. */
struct budget *budget_of(struct policy *p, const char *host, struct err *e);
void private_print(const struct private_place *x, struct buf *out);

/* A word of the budget and its value: "requests" "500/h", "up" "20MB". */
int budget_read(struct budget *b, const char *word, const char *value,
		struct err *e) MUST_CHECK;
/* Calls `fn` for each limit that there is, with the words of budget_read(). */
void budget_each(const struct budget *b,
		 void (*fn)(void *arg, const char *word, const char *value),
		 void *arg);
