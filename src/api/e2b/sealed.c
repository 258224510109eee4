#include "api/e2b/sealed.h"

#include <string.h>

#include "api/gate.h"
#include "api/inner.h"
#include "base/auto.h"
#include "base/base64.h"
#include "vault/secret_json.h"

void e2b_wipe(json_t *value)
{
	explicit_bzero((char *)json_string_value(value),
		       json_string_length(value));
	json_string_set(value, "");
}

int e2b_vault_key(int status, const json_t *answer, unsigned char key[SEAL_KEY],
		  struct err *e)
{
	const char *text =
		json_string_value(json_object_get(answer, "public_key"));
	AUTO(buf_done) struct buf b = { 0 };

	if (status != 200 || !text || base64_get(&b, text, strlen(text)) < 0 ||
	    buf_len(&b) != SEAL_KEY)
		return err_set(e, GATE_AWAY,
			       "the vault does not answer: %.200s",
			       inner_message(status, answer));
	memcpy(key, buf_data(&b), SEAL_KEY);
	return 0;
}

json_t *e2b_sealed(const struct secret *s, const unsigned char key[SEAL_KEY],
		   json_t *value, struct err *e)
{
	AUTO(buf_done) struct buf sealed = { 0 };
	AUTO(buf_done) struct buf text = { 0 };
	json_t *j;
	int r = secret_check(s, e);

	if (r == 0)
		r = secret_seal(s, key, json_string_value(value),
				json_string_length(value), &sealed, e);
	e2b_wipe(value);
	if (r < 0)
		return NULL;
	base64_add(&text, buf_data(&sealed), buf_len(&sealed));
	j = secret_to_json(s);
	json_object_set_new(j, "sealed", json_string(buf_str(&text)));
	return j;
}
