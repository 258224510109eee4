/* From their words about files to ours, and back. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/envd_fs.h"
#include "api/file_json.h"
#include "base/auto.h"
#include "base/base64.h"
#include "base/str.h"
#include "http/target.h"

void envd_fs_init(struct envd_fs *f, struct api *a, struct http_conn *c,
		  const struct envd_call *call)
{
	const struct sandbox *s = call->box;

	*f = (struct envd_fs){ .api = a,
			       .who = call->who,
			       .as_root = s->spec.sudo };
	memcpy(f->box, s->id, sizeof(f->box));
	snprintf(f->request_id, sizeof(f->request_id), "%s",
		 http_request_id(c));
	snprintf(f->user, sizeof(f->user), "%s",
		 *call->user ? call->user : s->spec.user);
}

int envd_path(const char *given, struct buf *path, struct err *e)
{
	const char *s = given;

	if (*s == '~') {
		s++;
		if (*s && *s != '/')
			return err_set(e, EINVAL,
				       "cannot expand user-specific home dir: "
				       "use ~/ or an absolute path");
		s += strspn(s, "/");
	}
	buf_clear(path);
	buf_puts(path, *s ? s : ".");
	buf_str(path);
	return 0;
}

/* In a target a path may have no control bytes, and must be UTF-8. */
static bool is_text(const char *s)
{
	const char *p;

	for (p = s; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return false;
	return http_is_utf8(s, strlen(s));
}

void envd_fs_target(const struct envd_fs *f, struct buf *b, const char *what,
		    const char *path)
{
	AUTO(buf_done) struct buf coded = { 0 };

	buf_printf(b, "/v1/sandboxes/%s/files/%s?", f->box, what);
	if (is_text(path)) {
		buf_puts(b, "path=");
		http_encode(b, path);
	} else {
		base64_add(&coded, path, strlen(path));
		buf_puts(b, "path_base64=");
		http_encode(b, buf_str(&coded));
	}
	buf_puts(b, f->as_root ? "&user=root&owner=" : "&user=");
	http_encode(b, f->user);
}

json_t *envd_fs_body(const struct envd_fs *f, const char *path, const char *to)
{
	json_t *j = json_object();

	json_object_set_new(j, "path", json_string(path));
	if (to)
		json_object_set_new(j, "to", json_string(to));
	json_object_set_new(j, "user",
			    json_string(f->as_root ? "root" : f->user));
	if (f->as_root)
		json_object_set_new(j, "owner", json_string(f->user));
	return j;
}

/* --- entries --- */

static const char *text_of(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? s : "";
}

static unsigned mode_of(const json_t *j, const char *key)
{
	return (unsigned)strtoul(text_of(j, key), NULL, 8);
}

static const struct {
	const char *type, *theirs, *letters;
} types[] = {
	{ "file", "FILE_TYPE_FILE", "" },
	{ "directory", "FILE_TYPE_DIRECTORY", "d" },
	{ "symlink", NULL, "L" },
	{ "fifo", NULL, "p" },
	{ "socket", NULL, "S" },
	{ "char_device", NULL, "Dc" },
	{ "block_device", NULL, "D" },
};

static size_t find_type(const char *type)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(types) - 1; i++)
		if (strcmp(types[i].type, type) == 0)
			break;
	return i;
}

/* As the Go library prints a mode: "dtrwxrwxrwx" is /tmp. */
static void put_permissions(const json_t *entry, char out[20])
{
	static const char rwx[] = "rwxrwxrwx";
	const char *letters = types[find_type(text_of(entry, "type"))].letters;
	unsigned mode = mode_of(entry, "mode"), i;
	size_t n = 0;

	if (*letters)
		out[n++] = *letters;
	if (mode & 04000)
		out[n++] = 'u';
	if (mode & 02000)
		out[n++] = 'g';
	if (*letters && letters[1])
		out[n++] = letters[1];
	if (mode & 01000)
		out[n++] = 't';
	if (n == 0)
		out[n++] = '-';
	for (i = 0; i < 9; i++)
		out[n++] = mode & (0400U >> i) ? rwx[i] : '-';
	out[n] = '\0';
}

static void put_owner(json_t *j, const char *key, const json_t *entry,
		      const char *name, const char *id)
{
	char number[24];

	snprintf(number, sizeof(number), "%lld",
		 (long long)json_integer_value(json_object_get(entry, id)));
	json_object_set_new(j, key,
			    json_string(*text_of(entry, name)
						? text_of(entry, name)
						: number));
}

json_t *envd_metadata(const json_t *entry)
{
	json_t *attrs = json_object_get(entry, "attributes"), *v, *j = NULL;
	const char *key;

	json_object_foreach (attrs, key, v) {
		if (!str_starts(key, ENVD_ATTRIBUTE))
			continue;
		if (!j)
			j = json_object();
		json_object_set(j, key + strlen(ENVD_ATTRIBUTE), v);
	}
	return j;
}

/* A link is what it leads to, in type and mode. */
static void put_type(json_t *j, const json_t *entry)
{
	bool link = strcmp(text_of(entry, "type"), "symlink") == 0;
	const char *type = text_of(entry, link ? "target_type" : "type");
	const char *theirs = types[find_type(type)].theirs;
	unsigned mode = mode_of(entry, link ? "real_mode" : "mode");

	json_object_set_new(
		j, "type",
		json_string(theirs ? theirs : "FILE_TYPE_UNSPECIFIED"));
	json_object_set_new(j, "mode", json_integer(mode & 0777));
	if (link)
		json_object_set(
			j, "symlinkTarget",
			json_object_get(entry, *text_of(entry, "real_path")
						       ? "real_path"
						       : "target"));
}

json_t *envd_entry(const json_t *entry)
{
	json_t *j = json_object(), *v;
	char text[24];

	json_object_set(j, "name", json_object_get(entry, "name"));
	json_object_set(j, "path", json_object_get(entry, "path"));
	put_type(j, entry);
	/* 64-bit numbers are strings in their JSON. */
	snprintf(text, sizeof(text), "%lld",
		 (long long)json_integer_value(json_object_get(entry, "size")));
	json_object_set_new(j, "size", json_string(text));
	put_permissions(entry, text);
	json_object_set_new(j, "permissions", json_string(text));
	put_owner(j, "owner", entry, "user", "uid");
	put_owner(j, "group", entry, "group", "gid");
	v = json_object_get(entry, "modified_at");
	if (json_is_string(v))
		json_object_set(j, "modifiedTime", v);
	v = envd_metadata(entry);
	if (v)
		json_object_set_new(j, "metadata", v);
	return j;
}

/* --- errors --- */

static const struct {
	const char *word, *theirs;
	int status; /* 0: as it is */
} errors[] = {
	{ "not_found", "not_found", 0 },
	{ "ended", "not_found", 404 },
	{ "no_user", "unauthenticated", 401 },
	{ "forbidden", "permission_denied", 0 },
	{ "read_only", "permission_denied", 0 },
	{ "conflict", "already_exists", 0 },
	{ "not_empty", "failed_precondition", 0 },
	{ "busy", "failed_precondition", 0 },
	{ "no_space", "resource_exhausted", 0 },
	{ "project_full", "resource_exhausted", 0 },
	{ "limit_reached", "resource_exhausted", 0 },
	{ "try_again", "resource_exhausted", 0 },
	{ "agent_unavailable", "unavailable", 0 },
	{ "log_unavailable", "unavailable", 0 },
	{ "not_supported", "unimplemented", 0 },
	{ "timeout", "deadline_exceeded", 0 },
};

/* Without root it is the process that is refused, in the agent's words. */
static bool is_no_user(const char *word, const char *msg)
{
	return strcmp(word, "no_user") == 0 ||
	       (str_starts(msg, "user '") && strstr(msg, "/etc/passwd"));
}

void envd_fs_error(const struct envd_fs *f, int status, const json_t *answer,
		   struct envd_error *out)
{
	const char *word = text_of(answer, "error");
	const char *msg = inner_message(status, answer);
	size_t i;

	*out = (struct envd_error){ .status = status ? status : 502 };
	out->word =
		status >= 400 && status < 500 ? "invalid_argument" : "internal";
	snprintf(out->msg, sizeof(out->msg), "%s", msg);
	if (is_no_user(word, msg)) {
		word = "no_user";
		snprintf(out->msg, sizeof(out->msg), "invalid username: '%s'",
			 f->user);
	}
	for (i = 0; i < ARRAY_LEN(errors); i++) {
		if (strcmp(errors[i].word, word) != 0)
			continue;
		out->word = errors[i].theirs;
		if (errors[i].status)
			out->status = errors[i].status;
	}
}
