#include "api/keys.h"

#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "api/api.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"

enum { USED_STEP_MS = 60000, KEY_BYTES = 20, ID_BYTES = 4 };

/* `kept`: its number in the registry, which older ones have, too. */
static const struct {
	const char *name;
	unsigned kept;
} scopes[] = {
	[SCOPE_READ] = { "read", 0 },       [SCOPE_USE] = { "use", 1 },
	[SCOPE_APPROVE] = { "approve", 3 }, [SCOPE_POLICY] = { "policy", 4 },
	[SCOPE_ADMIN] = { "admin", 2 },
};
static_assert(ARRAY_LEN(scopes) == SCOPE_ADMIN + 1, "a name for each");

const char *scope_word(enum scope s)
{
	return scopes[s].name;
}

int scope_parse(const char *name, enum scope *out)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(scopes); i++)
		if (strcmp(scopes[i].name, name) == 0) {
			*out = (enum scope)i;
			return 0;
		}
	return -EINVAL;
}

/* -1: unknown number, as in a damaged row. */
static int scope_of_row(const struct key_row *row)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(scopes); i++)
		if (scopes[i].kept == row->scope)
			return (int)i;
	return -1;
}

void keys_init(struct api *a)
{
	size_t i;

	list_init(&a->keys.all);
	for (i = 0; i < KEY_BUCKETS; i++)
		list_init(&a->keys.by_hash[i]);
}

static struct key *insert(struct api *a, const struct key_row *row)
{
	struct key *k = xcalloc(1, sizeof(*k));

	snprintf(k->id, sizeof(k->id), "%s", row->id);
	snprintf(k->name, sizeof(k->name), "%s", row->name);
	snprintf(k->project, sizeof(k->project), "%s", row->project);
	memcpy(k->hash, row->hash, sizeof(k->hash));
	k->scope = (enum scope)scope_of_row(row);
	k->created_ms = row->created_ms;
	k->used_ms = row->used_ms;
	list_add(&a->keys.all, &k->node);
	list_add(&a->keys.by_hash[k->hash[0] % KEY_BUCKETS], &k->by_hash);
	a->keys.n++;
	return k;
}

/* A row that says something else than it was written with opens nothing. */
static int load_key(void *arg, const struct key_row *row)
{
	if (strlen(row->id) != KEY_ID_CAP - 1 || scope_of_row(row) < 0 ||
	    (*row->project && !name_valid(row->project)))
		log_err("key=%.16s bad row in the registry, ignoring", row->id);
	else
		insert(arg, row);
	return 0;
}

int keys_load(struct api *a, struct err *e)
{
	return registry_key_each(&a->registry, load_key, a, e);
}

static void digest(const char *secret, unsigned char out[REGISTRY_HASH])
{
	static_assert(REGISTRY_HASH == SHA256_DIGEST_LENGTH, "SHA-256");
	SHA256((const unsigned char *)secret, strlen(secret), out);
}

struct key *key_by_secret(struct api *a, const char *secret)
{
	unsigned char hash[REGISTRY_HASH];
	struct list *n, *next;

	if (strlen(secret) != KEY_CAP - 1 || !str_starts(secret, KEY_PREFIX))
		return NULL;
	digest(secret, hash);
	list_each (n, next, &a->keys.by_hash[hash[0] % KEY_BUCKETS]) {
		struct key *k = container_of(n, struct key, by_hash);

		if (CRYPTO_memcmp(k->hash, hash, sizeof(hash)) == 0)
			return k;
	}
	return NULL;
}

struct key *key_by_id(struct api *a, const char *id)
{
	struct list *n, *next;

	list_each (n, next, &a->keys.all) {
		struct key *k = container_of(n, struct key, node);

		if (strcmp(k->id, id) == 0)
			return k;
	}
	return NULL;
}

void key_used(struct api *a, struct key *k)
{
	uint64_t now = clock_wall_ms();
	struct err e = { 0 };

	if (now >= k->used_ms && now - k->used_ms < USED_STEP_MS)
		return;
	k->used_ms = now;
	if (registry_key_used(&a->registry, k->id, now, &e) < 0)
		log_warn("key=%s %s, ignoring", k->id, e.msg);
	api_registry_touched(a);
}

static void hex(const unsigned char *bytes, size_t n, char *out)
{
	size_t i;

	for (i = 0; i < n; i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

struct key *key_make(struct api *a, const char *name, const char *project,
		     enum scope scope, char secret[KEY_CAP], struct err *e)
{
	unsigned char random[KEY_BYTES + ID_BYTES];
	char id[KEY_ID_CAP];
	struct key_row row = { .id = id,
			       .name = name,
			       .project = project,
			       .scope = scopes[scope].kept,
			       .created_ms = clock_wall_ms() };

	if (a->keys.n >= KEYS_MAX) {
		err_set(e, EMFILE, "there are %u keys: remove some", a->keys.n);
		return NULL;
	}
	do {
		if (getrandom(random, sizeof(random), 0) != sizeof(random)) {
			err_set(e, EIO, "no random numbers");
			return NULL;
		}
		hex(random, ID_BYTES, id);
	} while (key_by_id(a, id));
	snprintf(secret, KEY_CAP, KEY_PREFIX);
	hex(random + ID_BYTES, KEY_BYTES, secret + strlen(KEY_PREFIX));
	OPENSSL_cleanse(random, sizeof(random));
	digest(secret, row.hash);
	if (registry_key_add(&a->registry, &row, e) < 0)
		return NULL;
	api_registry_touched(a);
	return insert(a, &row);
}

int key_drop(struct api *a, struct key *k, struct err *e)
{
	int r = registry_key_remove(&a->registry, k->id, e);

	if (r < 0)
		return r;
	api_registry_touched(a);
	list_del(&k->node);
	list_del(&k->by_hash);
	a->keys.n--;
	free(k);
	return 0;
}
