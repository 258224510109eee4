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
/* The n-th method that rules may name, or NULL. */
const char *method_name(unsigned n);

struct word {
	const char *s;
	size_t n;
};

/* Adds the rule EFFECT METHODS TARGET, or EFFECT * for everything: `n` words,
 * three at most. */
int rule_read(struct policy *p, unsigned line, const struct word *w, size_t n,
	      struct err *e) MUST_CHECK;

/* A word of the budget and its value: "requests" "500/h", "up" "20MB". */
int budget_read(struct budget *b, const char *word, const char *value,
		struct err *e) MUST_CHECK;
/* Calls `fn` for each limit that there is, with the words of budget_read(). */
void budget_each(const struct budget *b,
		 void (*fn)(void *arg, const char *word, const char *value),
		 void *arg);
