/*
 * Keys: who may use the API without being root on this host. A key is shown
 * once, when it is made; what is kept is its SHA-256. That needs no salt and
 * no slow hash: a key is 160 random bits, which nobody guesses.
 */
#pragma once

#include <stdint.h>

#include "api/call.h"
#include "base/err.h"
#include "base/list.h"
#include "base/str.h"
#include "registry/registry.h"

struct api;

#define KEY_PREFIX "e2b_"

enum {
	KEY_CAP = 4 + 40 + 1,
	KEY_ID_CAP = 8 + 1,
	KEY_NAME_CAP = 64,
	KEY_BUCKETS = 256,
	KEYS_MAX = 10000,
};

struct key {
	struct list node, by_hash;
	char id[KEY_ID_CAP];
	char name[KEY_NAME_CAP];
	char project[NAME_CAP]; /* "": all of them */
	unsigned char hash[REGISTRY_HASH];
	enum scope scope;
	uint64_t created_ms;
	uint64_t used_ms; /* to the minute; 0: never */
};

struct keys {
	struct list all, by_hash[KEY_BUCKETS];
	unsigned n;
};

const char *scope_word(enum scope s);
/* 0 or -EINVAL. */
int scope_parse(const char *name, enum scope *out) MUST_CHECK;

void keys_init(struct api *a);
int keys_load(struct api *a, struct err *e) MUST_CHECK;
/* NULL: it is none of ours. */
struct key *key_by_secret(struct api *a, const char *secret);
struct key *key_by_id(struct api *a, const char *id);
/* The time of its use is noted, at most once a minute. */
void key_used(struct api *a, struct key *k);

/*
 * On disk when it returns. `secret` is the key itself, which nobody sees
 * again. NULL: EMFILE, or it could not be written.
 */
struct key *key_make(struct api *a, const char *name, const char *project,
		     enum scope scope, char secret[KEY_CAP], struct err *e);
/* From now on it opens nothing. */
int key_drop(struct api *a, struct key *k, struct err *e) MUST_CHECK;
