#include "vault/secret_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "wire/gate.h"

json_t *secret_to_json(const struct secret *s)
{
	json_t *j = json_object(), *hosts = json_array(),
	       *methods = json_array();
	const struct secret_text *t;
	unsigned i;

	json_object_set_new(j, "name", json_string(s->name));
	json_object_set_new(j, "kind", json_string(secret_kind_name(s->kind)));
	for (i = 0; i < s->n_hosts; i++)
		json_array_append_new(hosts, json_string(s->hosts[i]));
	json_object_set_new(j, "hosts", hosts);
	for (i = 0; method_name(i); i++)
		if (s->methods & 1U << i)
			json_array_append_new(methods,
					      json_string(method_name(i)));
	json_object_set_new(j, "methods", methods);
	if (s->private_url)
		json_object_set_new(j, "private_url", json_true());
	for (t = secret_texts; t->name; t++)
		if (*((const char *)s + t->at))
			json_object_set_new(
				j, t->name,
				json_string((const char *)s + t->at));
	return j;
}

/* A string without a NUL in it, or NULL. */
static const char *text_of(const json_t *v)
{
	const char *s = json_string_value(v);

	return s && strlen(s) == json_string_length(v) ? s : NULL;
}

static int take_kind(struct secret *s, const char *text, struct err *e)
{
	int k;

	for (k = 0; text && k < SECRET_KINDS; k++)
		if (strcmp(secret_kind_name(k), text) == 0) {
			s->kind = k;
			return 0;
		}
	return err_set(
		e, EINVAL,
		"kind: not header, basic, query, aws, oauth2, totp, text or "
		"fill");
}

static int take_hosts(struct secret *s, const json_t *v, struct err *e)
{
	const json_t *host;
	size_t i;

	if (!json_is_array(v))
		return err_set(e, EINVAL, "hosts: not a list");
	s->n_hosts = 0;
	json_array_foreach ((json_t *)v, i, host) {
		if (!text_of(host))
			return err_set(e, EINVAL, "hosts: not a list of texts");
		if (secret_add_host(s, text_of(host), e) < 0)
			return -e->code;
	}
	return 0;
}

static int take_methods(struct secret *s, const json_t *v, struct err *e)
{
	const json_t *method;
	unsigned bit;
	size_t i;

	if (!json_is_array(v))
		return err_set(e, EINVAL, "methods: not a list");
	s->methods = 0;
	json_array_foreach ((json_t *)v, i, method) {
		const char *m = text_of(method);

		bit = m ? method_bit(m, strlen(m)) : 0;
		if (!bit)
			return err_set(e, EINVAL,
				       "methods: '%.32s' is not a method that "
				       "rules know",
				       m ? m : "?");
		s->methods |= bit;
	}
	return 0;
}

static int take_sealed(struct secret *s, const json_t *v, struct err *e)
{
	struct buf b = { 0 };
	const char *text = text_of(v);

	if (!text || strlen(text) > 2 * GATE_SEALED_MAX ||
	    base64_get(&b, text, strlen(text)) < 0 || buf_len(&b) == 0 ||
	    buf_len(&b) > GATE_SEALED_MAX) {
		buf_done(&b);
		return err_set(e, EINVAL,
			       "sealed: not the base64 of a sealed value");
	}
	free(s->sealed);
	s->sealed_n = buf_len(&b);
	s->sealed = xcalloc(1, s->sealed_n);
	memcpy(s->sealed, buf_data(&b), s->sealed_n);
	buf_done(&b);
	return 0;
}

static int take_text(struct secret *s, const char *key, const json_t *v,
		     struct err *e)
{
	const struct secret_text *t;

	for (t = secret_texts; t->name; t++) {
		if (strcmp(t->name, key) != 0)
			continue;
		if (!text_of(v) ||
		    str_copy((char *)s + t->at, t->cap, text_of(v)) < 0)
			return err_set(e, EINVAL,
				       "%s: not a text of at most %zu bytes",
				       key, t->cap - 1);
		return 0;
	}
	return err_set(e, EINVAL, "%.64s: no such key", key);
}

int secret_from_json(struct secret *s, const json_t *j, struct err *e)
{
	const char *key;
	json_t *v;
	int r = json_is_object(j) ? 0 : err_set(e, EINVAL, "not an object");

	json_object_foreach ((json_t *)j, key, v) {
		if (r < 0)
			return r;
		if (strcmp(key, "kind") == 0)
			r = take_kind(s, text_of(v), e);
		else if (strcmp(key, "hosts") == 0)
			r = take_hosts(s, v, e);
		else if (strcmp(key, "methods") == 0)
			r = take_methods(s, v, e);
		else if (strcmp(key, "sealed") == 0)
			r = take_sealed(s, v, e);
		else if (strcmp(key, "private_url") == 0)
			s->private_url = json_is_true(v);
		else if (strcmp(key, "name") != 0)
			r = take_text(s, key, v, e);
		else if (!text_of(v) || strcmp(text_of(v), s->name) != 0)
			r = err_set(e, EINVAL, "name: it is '%s'", s->name);
	}
	return r < 0 ? r : secret_check(s, e);
}
