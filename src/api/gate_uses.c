/*
 * What a sandbox has instead of secrets: a word per secret that means nothing
 * to anybody but its door, and false credentials that show when something
 * inside carries them out. Both are made of the sandbox's id and a key of
 * ours: the same for as long as it lives, others in a fork, kept nowhere.
 *
 * Canaries are made of the project instead: what a disk brings along, of
 * whichever ancestor, is what its heirs watch for. (Of the id they were made
 * before: what is older may still have such a one.)
 */
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/gate.h"
#include "api/secrets.h"

enum { PLACEHOLDER_BYTES = 16, CANARY_BYTES = 24 };

/* `n` bytes in hexadecimal, behind what `out` has. */
static int put_word(const struct api *a, const char *purpose, const char *of,
		    const char *name, size_t n, char out[GATE_PLACEHOLDER_CAP])
{
	unsigned char mac[EVP_MAX_MD_SIZE];
	char text[2 * NAME_CAP + 64];
	size_t at = strlen(out), i;
	unsigned mac_n = 0;

	snprintf(text, sizeof(text), "%s 1 %s %s", purpose, of, name);
	if (!HMAC(EVP_sha256(), a->ports.key, PORT_KEY_LEN,
		  (const unsigned char *)text, strlen(text), mac, &mac_n) ||
	    mac_n < n)
		return -EIO;
	for (i = 0; i < n; i++)
		snprintf(out + at + 2 * i, 3, "%02x", mac[i]);
	return 0;
}

static int placeholder(const struct sandbox *s, const char *name,
		       char out[GATE_PLACEHOLDER_CAP])
{
	snprintf(out, GATE_PLACEHOLDER_CAP, "carrel-placeholder-");
	return put_word(s->api, "placeholder", s->id, name, PLACEHOLDER_BYTES,
			out);
}

static int canary(const struct sandbox *s, const char *name,
		  char out[GATE_PLACEHOLDER_CAP])
{
	*out = '\0';
	return put_word(s->api, "canary of project", s->project, name,
			CANARY_BYTES, out);
}

static int old_canary(const struct sandbox *s, const char *name,
		      char out[GATE_PLACEHOLDER_CAP])
{
	*out = '\0';
	return put_word(s->api, "canary", s->id, name, CANARY_BYTES, out);
}

typedef int make_fn(const struct sandbox *s, const char *name,
		    char out[GATE_PLACEHOLDER_CAP]);

static int add_uses(const struct sandbox *s, const json_t *names, make_fn *make,
		    struct gate_uses *hold, struct gate_msg *m)
{
	const json_t *v;
	size_t i;

	json_array_foreach (names, i, v) {
		struct gate_use *u;
		char *word;

		if (m->n_uses == GATE_USES_MAX)
			return -E2BIG;
		u = &m->uses[m->n_uses];
		word = hold->word[m->n_uses];
		*u = (struct gate_use){ .name = json_string_value(v),
					.placeholder = word,
					.canary = make != placeholder };
		if (make(s, u->name, word) < 0)
			return -EIO;
		m->n_uses++;
	}
	return 0;
}

int gate_uses(const struct sandbox *s, struct gate_uses *hold,
	      struct gate_msg *m, struct err *e)
{
	if (add_uses(s, s->spec.secrets, placeholder, hold, m) < 0 ||
	    add_uses(s, s->spec.canaries, canary, hold, m) < 0 ||
	    add_uses(s, s->spec.canaries, old_canary, hold, m) < 0)
		return err_set(e, EIO, "no placeholders for its secrets");
	return 0;
}

json_t *gate_env(struct sandbox *s)
{
	char word[GATE_PLACEHOLDER_CAP];
	const struct project_secret *p;
	json_t *env = NULL;
	const json_t *v;
	size_t i;

	if (!s->gate || (!s->spec.secrets && !s->spec.canaries))
		return NULL;
	env = json_object();
	json_array_foreach (s->spec.secrets, i, v) {
		p = project_secret_find(s->api, s->project,
					json_string_value(v));
		if (p && *p->secret.env &&
		    placeholder(s, p->secret.name, word) == 0)
			json_object_set_new(env, p->secret.env,
					    json_string(word));
	}
	json_array_foreach (s->spec.canaries, i, v)
		if (canary(s, json_string_value(v), word) == 0)
			json_object_set_new(env, json_string_value(v),
					    json_string(word));
	return env;
}
