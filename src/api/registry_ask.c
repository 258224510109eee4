#include "api/registry_ask.h"

#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "api/fetch.h"
#include "base/auto.h"

static int take_text(json_t *v, const char *key, size_t cap, const char **out,
		     struct err *e)
{
	if (json_is_null(v))
		return 0;
	if (!json_is_string(v) ||
	    strlen(json_string_value(v)) != json_string_length(v) ||
	    json_string_length(v) >= cap)
		return err_set(e, EINVAL, "%s: not a string below %zu bytes",
			       key, cap);
	*out = json_string_value(v);
	return 0;
}

int registry_ask_read(struct registry_ask *q, struct api *a, json_t *body,
		      struct err *e)
{
	const char *reference = "", *platform = "", *key;
	const struct {
		const char *key;
		size_t cap;
		const char **to;
	} keys[] = {
		{ "reference", sizeof(q->text), &reference },
		{ "platform", 64, &platform },
		{ "username", FETCH_SECRET_CAP, &q->user },
		{ "password", FETCH_SECRET_CAP, &q->password },
	};
	json_t *v;
	size_t i;

	q->user = q->password = "";
	json_object_foreach (body, key, v) {
		for (i = 0; i < ARRAY_LEN(keys); i++)
			if (strcmp(keys[i].key, key) == 0)
				break;
		if (i == ARRAY_LEN(keys))
			return err_set(e, EINVAL, "unknown key '%.64s'", key);
		if (take_text(v, key, keys[i].cap, keys[i].to, e) < 0)
			return -e->code;
	}
	memcpy(q->text, reference, strlen(reference) + 1);
	oci_platform_host(&q->platform);
	if (*platform && oci_platform_parse(&q->platform, platform, e) < 0)
		return -e->code;
	if (fetch_ref_parse(&q->ref, reference, e) < 0)
		return -e->code;
	return fetch_allowed(a, q->ref.host, e);
}
