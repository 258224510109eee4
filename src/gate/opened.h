/*
 * Values of secrets in a door's memory, and what was made of them: opened when
 * they are first needed, wiped with their secret. For inject.c and its
 * neighbours.
 */
#pragma once

#include "gate/gate.h"
#include "gate/inject.h"
#include "gate/scan.h"
#include "vault/seal.h"
#include "vault/secret.h"

/* Words of a secret that no answer may show; outlives it while one comes. */
struct words {
	unsigned refs;
	struct scan_set *set;
};
struct words *words_new(void);
struct words *words_ref(struct words *w);
void words_unref(struct words *w);

struct opened {
	struct project *project;
	struct secret *secret;
	struct sealed_value value;
	struct words *words;
	struct oauth *oauth; /* oauth.c; NULL: it is none */
};

struct secret *secret_of(const struct project *p, const char *name);
/* NULL with `e`: it cannot be opened. Valid as long as the secret. */
struct opened *opened_get(struct project *p, struct secret *s, struct err *e);
/* Each line of a text is a word. */
void words_add_lines(struct words *w, const char *text);

/* credential.c: what a request gets. Zero-initialise. */
enum { MADE_SECRETS = 4, MADE_FIELDS = MADE_SECRETS * 4 };
struct made {
	struct http_field fields[MADE_FIELDS + 1];
	unsigned n;
	char *owned[MADE_FIELDS];
	unsigned n_owned;
	struct buf target; /* empty: as it is */
	struct words *words[MADE_SECRETS];
	unsigned n_words;
	struct scan_set *all; /* of several secrets */
};
void made_done(struct made *m);
/* Adds what `o` gives to the request of `j`. */
int credential_make(struct made *m, const struct inject *j, struct opened *o,
		    struct err *e) MUST_CHECK;
/* The one place that a secret fills: a field's name, or "?" and a parameter. */
void credential_slot(const struct secret *s, char out[NAME_CAP * 2 + 1]);
/* Does the request say that its body is not signed? */
bool credential_unsigned(const struct http_head *head);
