/* What a sandbox that was made over E2B's API hears of itself (gate/self.h):
 * the environment that its processes have, for who has its token. */
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/e2b.h"
#include "api/gate_link.h"
#include "base/auto.h"

void gate_send_self(struct gate_link *l, struct sandbox *s)
{
	json_t *env = s->spec.env ? json_copy(s->spec.env) : json_object();
	json_t *more = gate_env(s);
	unsigned char hash[SHA256_DIGEST_LENGTH];
	char token[E2B_TOKEN_CAP];
	struct gate_msg m = { .kind = GATE_SELF,
			      .id = s->id,
			      .bytes = hash,
			      .n_bytes = sizeof(hash) };
	AUTO_FREE char *text = NULL;

	if (more)
		json_object_update(env, more);
	text = json_dumps(env, JSON_COMPACT);
	json_decref(env);
	json_decref(more);
	e2b_token(s->api, s->id, token);
	SHA256((unsigned char *)token, strlen(token), hash);
	OPENSSL_cleanse(token, sizeof(token));
	m.text = text && strlen(text) <= GATE_SELF_MAX ? text : "{}";
	gate_send(l, &m, NULL, 0);
}
