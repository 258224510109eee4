#include "spec/check.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/base64.h"
#include "spec/grant.h"
#include "spec/mount.h"
#include "spec/spec.h"

/* A string without a NUL in it, which C would cut. */
static bool is_text(const json_t *v)
{
	return json_is_string(v) &&
	       strlen(json_string_value(v)) == json_string_length(v);
}

int check_env(const json_t *v, struct err *e)
{
	const char *key;
	json_t *val;
	size_t bytes = 0;

	if (!json_is_object(v) || json_object_size(v) > SPEC_ENV_MAX)
		return err_set(e, EINVAL,
			       "env: not an object of at most %d strings",
			       SPEC_ENV_MAX);
	json_object_foreach ((json_t *)v, key, val) {
		if (!is_text(val) || *key == '\0' || strchr(key, '='))
			return err_set(e, EINVAL, "env: '%.64s' is not valid",
				       key);
		bytes += strlen(key) + json_string_length(val) + 2;
	}
	if (bytes > SPEC_ENV_BYTES)
		return err_set(e, E2BIG, "env: more than %d bytes",
			       SPEC_ENV_BYTES);
	return 0;
}

static bool is_label(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz"
			     "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-");

	return n > 0 && n < NAME_CAP && s[n] == '\0';
}

int check_labels(const json_t *v, struct err *e)
{
	const char *key;
	json_t *val;

	if (!json_is_object(v) || json_object_size(v) > SPEC_LABELS_MAX)
		return err_set(e, EINVAL,
			       "labels: not an object of at most %d strings",
			       SPEC_LABELS_MAX);
	json_object_foreach ((json_t *)v, key, val) {
		if (!is_label(key))
			return err_set(e, EINVAL,
				       "labels: '%.64s' is not 1 to 63 "
				       "letters, digits, . _ / and -",
				       key);
		if (!is_text(val) || json_string_length(val) >= SPEC_LABEL_CAP)
			return err_set(e, EINVAL,
				       "labels: the value of '%s' is not a "
				       "string of less than %d bytes",
				       key, SPEC_LABEL_CAP);
	}
	return 0;
}

int check_ports(const json_t *v, struct err *e)
{
	const char *key;
	json_t *val;

	if (!json_is_object(v) || json_object_size(v) > SPEC_PORTS_MAX)
		return err_set(e, EINVAL,
			       "ports: not an object of at most %d numbers",
			       SPEC_PORTS_MAX);
	json_object_foreach ((json_t *)v, key, val) {
		json_int_t n = json_integer_value(val);

		if (!name_valid(key))
			return err_set(e, EINVAL,
				       "ports: '%.64s' is not 1 to 63 of a-z, "
				       "0-9 and -",
				       key);
		if (!json_is_integer(val) || n < 1 || n > UINT16_MAX)
			return err_set(e, EINVAL,
				       "ports: '%s' is not a number from 1 to "
				       "65535",
				       key);
	}
	return 0;
}

int check_start(const json_t *v, struct err *e)
{
	const json_t *val;
	size_t i;

	if (!json_is_array(v) || json_array_size(v) > SPEC_START_MAX)
		return err_set(e, EINVAL,
			       "start: not a list of at most %d commands",
			       SPEC_START_MAX);
	json_array_foreach ((json_t *)v, i, val) {
		if (!is_text(val) || json_string_length(val) == 0 ||
		    json_string_length(val) > SPEC_START_BYTES)
			return err_set(e, EINVAL,
				       "start: not a command of 1 to %d bytes",
				       SPEC_START_BYTES);
	}
	return 0;
}

int check_drive(const json_t *v, struct err *e)
{
	struct drive_grant g;
	const json_t *val;
	size_t i;

	if (!json_is_array(v) || json_array_size(v) > SPEC_DRIVE_MAX)
		return err_set(e, EINVAL, "drive: not a list of at most %d",
			       SPEC_DRIVE_MAX);
	json_array_foreach ((json_t *)v, i, val) {
		if (!is_text(val) ||
		    drive_grant_parse(json_string_value(val), &g) < 0)
			return err_set(e, EINVAL,
				       "drive: not the start of a path of the "
				       "drive, perhaps with :ro or :rw (\"/\" "
				       "is all of it)");
	}
	return 0;
}

/* Neither a volume nor a path is there twice, or below another's. */
static bool overlaps(const struct volume_mount *a, const struct volume_mount *b)
{
	size_t n = strlen(a->path), m = strlen(b->path), less = n < m ? n : m;

	if (strcmp(a->name, b->name) == 0)
		return true;
	return strncmp(a->path, b->path, less) == 0 &&
	       (n == m || (n < m ? b : a)->path[less] == '/');
}

int check_volumes(const json_t *v, struct err *e)
{
	struct volume_mount m[SPEC_VOLUMES_MAX];
	const json_t *val;
	size_t i, k;

	if (!json_is_array(v) || json_array_size(v) > SPEC_VOLUMES_MAX)
		return err_set(e, EINVAL, "volumes: not a list of at most %d",
			       SPEC_VOLUMES_MAX);
	json_array_foreach ((json_t *)v, i, val) {
		if (!is_text(val) ||
		    volume_mount_parse(json_string_value(val), &m[i]) < 0)
			return err_set(
				e, EINVAL,
				"volumes: not NAME:/path or "
				"NAME:/path:ro, the path absolute, short "
				"and not in /proc, /sys or /dev");
		for (k = 0; k < i; k++)
			if (overlaps(&m[i], &m[k]))
				return err_set(e, EINVAL,
					       "volumes: '%s' and '%s' are in "
					       "each other's way",
					       m[k].path, m[i].path);
	}
	return 0;
}

/* One way to say what is in it. */
static bool has_content(const json_t *file, size_t *bytes)
{
	const json_t *text = json_object_get(file, "content"),
		     *coded = json_object_get(file, "base64"),
		     *one = text ? text : coded;
	AUTO(buf_done) struct buf b = { 0 };

	if (!json_is_string(one) || (text && coded))
		return false;
	*bytes += json_string_length(one);
	return text || base64_get(&b, json_string_value(coded),
				  json_string_length(coded)) == 0;
}

static bool is_mode(const json_t *v)
{
	const char *s = json_string_value(v);
	size_t n = s ? strspn(s, "01234567") : 0;

	return !v || (n >= 3 && n <= 4 && s[n] == '\0');
}

static int check_file(const json_t *file, size_t *bytes, struct err *e)
{
	static const char *const known[] = { "path", "content", "base64",
					     "mode", "user" };
	const json_t *path = json_object_get(file, "path"),
		     *user = json_object_get(file, "user");
	size_t i, n = 0;

	for (i = 0; i < ARRAY_LEN(known); i++)
		n += json_object_get(file, known[i]) != NULL;
	if (!is_text(path) || json_string_length(path) == 0 ||
	    json_string_length(path) >= SPEC_PATH_CAP)
		return err_set(e, EINVAL, "files: a path is missing or long");
	if (n != json_object_size(file) || !has_content(file, bytes) ||
	    !is_mode(json_object_get(file, "mode")) ||
	    (user &&
	     (!is_text(user) || json_string_length(user) >= SPEC_USER_CAP)))
		return err_set(e, EINVAL,
			       "files: '%.64s' is not an object of path, "
			       "content or base64, and perhaps mode (\"0644\") "
			       "and user",
			       json_string_value(path));
	return 0;
}

int check_files(const json_t *v, struct err *e)
{
	const json_t *file;
	size_t i, bytes = 0;
	int r;

	if (!json_is_array(v) || json_array_size(v) > SPEC_FILES_MAX)
		return err_set(e, EINVAL,
			       "files: not a list of at most %d files",
			       SPEC_FILES_MAX);
	json_array_foreach ((json_t *)v, i, file) {
		r = check_file(file, &bytes, e);
		if (r < 0)
			return r;
	}
	if (bytes > SPEC_FILES_BYTES)
		return err_set(e, E2BIG,
			       "files: more than %d bytes: write large files "
			       "when it runs",
			       SPEC_FILES_BYTES);
	return 0;
}

int check_client(const json_t *v, struct err *e)
{
	if (!json_is_object(v))
		return err_set(e, EINVAL, "client: not an object");
	if (json_dumpb(v, NULL, 0, JSON_COMPACT) > SPEC_CLIENT_BYTES)
		return err_set(e, E2BIG, "client: more than %d bytes",
			       SPEC_CLIENT_BYTES);
	return 0;
}
