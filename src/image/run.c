#include "image/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "image/doc.h"

static bool is_text(const json_t *v)
{
	return json_is_string(v) && *json_string_value(v);
}

static bool is_texts(const json_t *v)
{
	const json_t *item;
	size_t i;

	if (!json_is_array(v))
		return false;
	json_array_foreach (v, i, item)
		if (!json_is_string(item))
			return false;
	return true;
}

/* NAME=VALUE, the name not empty. */
static bool is_env(const json_t *v)
{
	const json_t *item;
	size_t i;

	if (!is_texts(v))
		return false;
	json_array_foreach (v, i, item)
		if (strcspn(json_string_value(item), "=") == 0 ||
		    !strchr(json_string_value(item), '='))
			return false;
	return true;
}

static bool is_labels(const json_t *v)
{
	const char *key;
	json_t *item;

	if (!json_is_object(v))
		return false;
	json_object_foreach ((json_t *)v, key, item)
		if (!json_is_string(item))
			return false;
	return true;
}

/* {"80/tcp": {}} */
static bool is_ports(const json_t *v)
{
	const char *key;
	json_t *item;

	if (!json_is_object(v))
		return false;
	json_object_foreach ((json_t *)v, key, item)
		if (!json_is_object(item) || json_object_size(item) > 0)
			return false;
	return true;
}

static const struct member {
	const char *name;
	bool (*good)(const json_t *v);
} members[] = {
	{ "Env", is_env },
	{ "Entrypoint", is_texts },
	{ "Cmd", is_texts },
	{ "WorkingDir", is_text },
	{ "User", is_text },
	{ "StopSignal", is_text },
	{ "ExposedPorts", is_ports },
	{ "Labels", is_labels },
};

static size_t text_size(const json_t *j)
{
	return json_dumpb(j, NULL, 0, JSON_COMPACT | JSON_ENSURE_ASCII);
}

json_t *run_filter(const json_t *config)
{
	json_t *out = json_object();
	size_t i;

	for (i = 0; i < ARRAY_LEN(members); i++) {
		json_t *v = json_object_get(config, members[i].name);

		if (v && members[i].good(v))
			json_object_set(out, members[i].name, v);
	}
	/* Remarks of the maker: the only member that is large in practice,
	 * and nothing runs differently without it. */
	if (text_size(out) > OCI_RUN_MAX)
		json_object_del(out, "Labels");
	return out;
}

/* Jansson takes DEL for a character like any other. */
static int add_escaped(const char *p, size_t n, void *ctx)
{
	struct buf *b = ctx;
	const char *del;

	while ((del = memchr(p, '\x7f', n))) {
		buf_add(b, p, (size_t)(del - p));
		buf_puts(b, "\\u007f");
		n -= (size_t)(del - p) + 1;
		p = del + 1;
	}
	buf_add(b, p, n);
	return 0;
}

int oci_run_write(struct buf *b, const json_t *run, struct err *e)
{
	size_t before = buf_len(b);

	if (json_dump_callback(run, add_escaped, b,
			       JSON_COMPACT | JSON_ENSURE_ASCII) < 0)
		return err_set(e, ENOMEM, "no memory for an image's config");
	if (buf_len(b) - before > OCI_RUN_MAX)
		return err_set(e, E2BIG,
			       "the image's environment and commands are over "
			       "32 KiB");
	return 0;
}

static bool is_member(const char *name, const json_t *v)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(members); i++)
		if (strcmp(name, members[i].name) == 0)
			return members[i].good(v);
	return false;
}

json_t *oci_run_read(const char *s, size_t n, struct err *e)
{
	AUTO_JSON json_t *j = NULL;
	const char *key;
	json_t *v;

	if (n > OCI_RUN_MAX) {
		err_set(e, E2BIG, "defaults of an image over 32 KiB");
		return NULL;
	}
	j = doc_load(s, n, "defaults of an image", e);
	if (!j)
		return NULL;
	if (!json_is_object(j)) {
		err_set(e, EBADMSG, "defaults of an image: no JSON object");
		return NULL;
	}
	json_object_foreach (j, key, v)
		if (!is_member(key, v)) {
			err_set(e, EBADMSG,
				"defaults of an image: '%.40s' is unknown or "
				"of the wrong type",
				key);
			return NULL;
		}
	return take_ptr(j);
}
