#include "api/file_json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/json_text.h"
#include "api/reply.h"
#include "base/auto.h"
#include "http/target.h"

enum {
	KEY_CAP_64 = 32,
	BASE64_MAX = (FILE_PATH_MAX + 2) / 3 * 4,
};

void json_set_path(json_t *j, const char *key, const char *path)
{
	AUTO(buf_done) struct buf b = { 0 };
	char name[KEY_CAP_64];
	size_t n = strlen(path);

	json_object_set_new(j, key, json_lossy(path, n));
	if (http_is_utf8(path, n))
		return;
	base64_add(&b, path, n);
	snprintf(name, sizeof(name), "%s_base64", key);
	json_object_set_new(j, name, json_string(buf_str(&b)));
}

static json_t *name_or_null(const char *name)
{
	return *name ? json_lossy(name, strlen(name)) : json_null();
}

static const char *last_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* A sandbox may set any time on a file; what has no date is shown as none. */
static json_t *file_time(int64_t ms)
{
	const int64_t year_10000 = 253402300800000;

	return ms > 0 && ms < year_10000 ? json_time((uint64_t)ms)
					 : json_null();
}

static json_t *type_json(enum file_type t)
{
	return t == FILE_NONE ? json_null() : json_string(file_type_name(t));
}

/* What it is, without its names. */
static void add_facts(json_t *j, const struct file_entry *n)
{
	char mode[8];

	snprintf(mode, sizeof(mode), "%04o", n->mode);
	json_object_set_new(j, "type", type_json(n->type));
	json_object_set_new(j, "size", json_integer((json_int_t)n->size));
	json_object_set_new(j, "mode", json_string(mode));
	json_object_set_new(j, "uid", json_integer(n->uid));
	json_object_set_new(j, "gid", json_integer(n->gid));
}

json_t *file_state_json(const struct file_entry *n)
{
	json_t *j;

	if (n->type == FILE_NONE)
		return json_null();
	j = json_object();
	add_facts(j, n);
	json_object_set_new(j, "modified_at", file_time(n->mtime_ms));
	if (n->type == FILE_SYMLINK)
		json_set_path(j, "target", n->target);
	return j;
}

json_t *file_entry_json(const struct file_entry *n)
{
	json_t *j = json_object();

	json_set_path(j, "path", n->path);
	json_set_path(j, "name", last_name(n->path));
	add_facts(j, n);
	json_object_set_new(j, "user", name_or_null(n->user));
	json_object_set_new(j, "group", name_or_null(n->group));
	json_object_set_new(j, "modified_at", file_time(n->mtime_ms));
	if (n->type == FILE_SYMLINK) {
		json_set_path(j, "target", n->target);
		json_object_set_new(j, "target_type",
				    type_json(n->target_type));
	} else {
		json_object_set_new(j, "target", json_null());
	}
	if (n->unreadable)
		json_object_set_new(j, "unreadable", json_true());
	return j;
}

json_t *file_detail_json(const struct file_detail *d)
{
	json_t *j = json_object(), *attrs = json_object();
	char mode[8];
	uint32_t i;

	if (*d->path) {
		snprintf(mode, sizeof(mode), "%04o", d->mode);
		json_set_path(j, "real_path", d->path);
		json_object_set_new(j, "real_mode", json_string(mode));
	}
	/* jansson leaves out what is no text. */
	for (i = 0; i < d->n_attrs; i++)
		json_object_set_new(attrs, d->attr[i].name,
				    json_string(d->attr[i].value));
	json_object_set_new(j, "attributes", attrs);
	return j;
}

json_t *file_event_json(const struct file_record *r)
{
	json_t *j = json_pack("{s:s}", "type", file_event_name(r->event.what));

	json_set_path(j, "path", r->event.path);
	if (*r->event.to)
		json_set_path(j, "to", r->event.to);
	if (r->event.type != FILE_NONE)
		json_object_set_new(j, "entry", type_json(r->event.type));
	return j;
}

/* --- requests --- */

static int check_path(const char *name, const struct buf *path, struct err *e)
{
	size_t n = buf_len(path);

	if (n == 0)
		return err_set(e, EINVAL, "%s is empty", name);
	if (n > FILE_PATH_MAX)
		return err_set(e, EINVAL, "%s has more than %d bytes", name,
			       FILE_PATH_MAX);
	if (memchr(buf_data(path), '\0', n))
		return err_set(e, EINVAL, "%s has a NUL in it", name);
	return 0;
}

int path_take_text(const char *name, const char *text, size_t n,
		   struct buf *path, struct err *e)
{
	int r;

	buf_add(path, text, n);
	r = check_path(name, path, e);
	buf_str(path);
	return r < 0 ? r : 1;
}

/* The alphabet of addresses is welcome, too, and its padding may be missing. */
static int decode(const char *text, size_t n, struct buf *path)
{
	char plain[BASE64_MAX + 4];
	size_t i;

	if (n > BASE64_MAX)
		return -EINVAL;
	for (i = 0; i < n; i++)
		plain[i] = text[i] == '-'   ? '+'
			   : text[i] == '_' ? '/'
					    : text[i];
	while (i % 4)
		plain[i++] = '=';
	/* cppcheck-suppress uninitvar ; none of it is read when i is 0 */
	return base64_get(path, plain, i);
}

int path_take_base64(const char *name, const char *text, size_t n,
		     struct buf *path, struct err *e)
{
	int r;

	if (decode(text, n, path) < 0)
		return err_set(e, EINVAL, "%s is not base64, or too long",
			       name);
	r = check_path(name, path, e);
	buf_str(path);
	return r < 0 ? r : 1;
}

static int both(const char *name, struct err *e)
{
	return err_set(e, EINVAL, "%s and %s_base64: one of them is enough",
		       name, name);
}

int path_from_query(const struct http_head *h, const char *name,
		    struct buf *path, struct err *e)
{
	char key[KEY_CAP_64], text[BASE64_MAX + 1], coded[BASE64_MAX + 1];
	int plain, r;

	snprintf(key, sizeof(key), "%s_base64", name);
	plain = http_query(h, name, text, sizeof(text));
	r = http_query(h, key, coded, sizeof(coded));
	if (plain < 0)
		return err_set(e, EINVAL,
			       "%s is given twice, too long, not UTF-8 or has "
			       "control bytes (use %s)",
			       name, key);
	if (r < 0)
		return err_set(e, EINVAL, "%s is given twice or too long", key);
	if (plain && r)
		return both(name, e);
	if (plain)
		return path_take_text(name, text, strlen(text), path, e);
	return r ? path_take_base64(key, coded, strlen(coded), path, e) : 0;
}

int path_from_json(const json_t *j, const char *name, struct buf *path,
		   struct err *e)
{
	char key[KEY_CAP_64];
	const json_t *plain = json_object_get(j, name), *coded;

	snprintf(key, sizeof(key), "%s_base64", name);
	coded = json_object_get(j, key);
	if ((plain && !json_is_string(plain)) ||
	    (coded && !json_is_string(coded)))
		return err_set(e, EINVAL, "%s is not a string",
			       plain ? name : key);
	if (plain && coded)
		return both(name, e);
	if (plain)
		return path_take_text(name, json_string_value(plain),
				      json_string_length(plain), path, e);
	if (coded)
		return path_take_base64(key, json_string_value(coded),
					json_string_length(coded), path, e);
	return 0;
}
