/* Requests about the files of a sandbox. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "api/file_job.h"
#include "api/file_json.h"
#include "api/proc_json.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/str.h"
#include "http/target.h"

enum { MODE_DIGITS = 5, RANGE_DIGITS = 18 };

/* --- behind the '?' --- */

/* A path as argument of the builtin; those of changes are written down. */
static int take_path(struct file_job *j, const char *name, struct err *e)
{
	AUTO(buf_done) struct buf path = { 0 };
	int r = path_from_query(http_request(j->conn), name, &path, e);

	if (r == 0)
		return err_set(e, EINVAL, "%s is missing", name);
	if (r < 0)
		return r;
	job_word(j, buf_data(&path));
	json_set_path(j->note, name, buf_data(&path));
	return 0;
}

static int set_user(struct file_job *j, const char *user, struct err *e)
{
	if (str_copy(j->user, sizeof(j->user), user) < 0)
		return err_set(e, EINVAL, "user has more than %d bytes",
			       FILE_NAME_MAX);
	if (*user)
		json_object_set_new(j->note, "user", json_string(user));
	return 0;
}

static int take_user(struct file_job *j, struct err *e)
{
	char user[FILE_NAME_MAX + 1] = "";

	if (http_query(http_request(j->conn), "user", user, sizeof(user)) < 0)
		return err_set(e, EINVAL, "user is no name");
	return set_user(j, user, e);
}

/* "": the usual one. */
static int set_owner(struct file_job *j, const char *owner, struct err *e)
{
	if (strlen(owner) > FILE_NAME_MAX)
		return err_set(e, EINVAL, "owner has more than %d bytes",
			       FILE_NAME_MAX);
	job_option(j, "owner", owner);
	json_object_set_new(j->note, "owner", json_string(owner));
	return 0;
}

static int take_owner(struct file_job *j, struct err *e)
{
	char owner[FILE_NAME_MAX + 1];
	int r = http_query(http_request(j->conn), "owner", owner,
			   sizeof(owner));

	if (r < 0)
		return err_set(e, EINVAL, "owner is no name");
	return r == 0 ? 0 : set_owner(j, owner, e);
}

static int take_within(struct file_job *j, struct err *e)
{
	AUTO(buf_done) struct buf path = { 0 };
	int r = path_from_query(http_request(j->conn), "within", &path, e);

	if (r > 0)
		job_option(j, "within", buf_data(&path));
	return r < 0 ? r : 0;
}

static int take_flag(struct file_job *j, const char *name, struct err *e)
{
	bool on = false;
	int r = query_bool(http_request(j->conn), name, &on, e);

	job_flag(j, name, on);
	return r;
}

/* What most of them take: whose it is to be, and how much is told. */
static int take_detail(struct file_job *j, struct err *e)
{
	int r = query_bool(http_request(j->conn), "detail", &j->detail, e);

	job_flag(j, "detail", j->detail);
	return r < 0 ? r : take_owner(j, e);
}

/* X-Attribute: NAME=VALUE, several times. */
static int take_attributes(struct file_job *j, struct err *e)
{
	const struct http_head *h = http_request(j->conn);
	unsigned n = 0, i;

	for (i = 0; i < h->n_fields; i++) {
		const char *value = h->field[i].value;

		if (strcasecmp(h->field[i].name, "X-Attribute") != 0)
			continue;
		if (!str_starts(value, "user.") || !strchr(value, '='))
			return err_set(e, EINVAL,
				       "X-Attribute is not as in "
				       "\"user.note=text\"");
		if (++n > FILE_ATTRS_MAX)
			return err_set(e, E2BIG, "more than %d attributes",
				       FILE_ATTRS_MAX);
		job_option(j, "attr", value);
	}
	return 0;
}

static bool is_mode(const char *s)
{
	size_t n = strspn(s, "01234567");

	return n > 0 && n <= MODE_DIGITS && s[n] == '\0';
}

static int set_mode(struct file_job *j, const char *mode, struct err *e)
{
	if (!is_mode(mode))
		return err_set(e, EINVAL, "mode is not octal, as in \"0644\"");
	job_option(j, "mode", mode);
	return 0;
}

static int take_mode(struct file_job *j, struct err *e)
{
	char mode[16];
	int r = http_query(http_request(j->conn), "mode", mode, sizeof(mode));

	if (r == 0)
		return 0;
	return set_mode(j, r < 0 ? "" : mode, e);
}

static int take_number(struct file_job *j, const char *name, uint64_t max,
		       struct err *e)
{
	uint64_t v = 0;
	char text[24];
	int r = query_number(http_request(j->conn), name, max, &v, e);

	if (r == 0 && v > 0) {
		snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
		job_option(j, name, text);
	}
	return r;
}

static int take_after(struct file_job *j, struct err *e)
{
	AUTO(buf_done) struct buf path = { 0 };
	int r = path_from_query(http_request(j->conn), "after", &path, e);

	if (r > 0)
		job_option(j, "after", buf_data(&path));
	return r < 0 ? r : 0;
}

/* A job for the builtin with the path and the user; NULL: answered. */
static struct file_job *ask(struct api *a, struct http_conn *c,
			    const struct call *call, const char *builtin,
			    struct err *e)
{
	struct file_job *j = job_new(a, c, call, builtin);

	if (j && take_path(j, "path", e) == 0 && take_user(j, e) == 0)
		return j;
	if (j)
		job_refuse(j, e);
	return NULL;
}

/* When its arguments are right (`r`), it starts. */
static void go(struct file_job *j, const struct file_answer *answer, int r,
	       const struct err *e)
{
	if (r < 0)
		job_refuse(j, e);
	else
		job_start(j, answer);
}

/* --- looking --- */

static void h_stat(struct api *a, struct http_conn *c, const struct call *call)
{
	struct err e = { 0 };
	struct file_job *j = ask(a, c, call, "file.stat", &e);

	int r;

	if (!j)
		return;
	r = take_flag(j, "follow", &e);
	if (r == 0)
		r = take_detail(j, &e);
	if (r == 0)
		r = take_within(j, &e);
	go(j, &answer_entry, r, &e);
}

static void h_list(struct api *a, struct http_conn *c, const struct call *call)
{
	struct err e = { 0 };
	struct file_job *j = ask(a, c, call, "file.list", &e);
	int r;

	if (!j)
		return;
	r = take_number(j, "depth", FILE_DEPTH_MAX, &e);
	if (r == 0)
		r = take_number(j, "limit", FILE_LIST_MAX, &e);
	if (r == 0)
		r = take_after(j, &e);
	if (r == 0)
		r = take_detail(j, &e);
	if (r == 0)
		r = take_within(j, &e);
	go(j, &answer_list, r, &e);
}

static size_t digits(const char *s, char out[RANGE_DIGITS + 1])
{
	size_t n = strspn(s, "0123456789");

	if (n <= RANGE_DIGITS) {
		memcpy(out, s, n);
		out[n] = '\0';
	}
	return n;
}

/*
 * "bytes=A-B", "bytes=A-", "bytes=-N". Anything else, also several ranges, is
 * left alone, and the answer is the whole file: that is always allowed. There
 * are no validators, so a condition is never fulfilled.
 */
static void take_range(struct file_job *j)
{
	const struct http_head *h = http_request(j->conn);
	const char *s = http_header(h, "Range");
	char first[RANGE_DIGITS + 1], last[RANGE_DIGITS + 1];
	uint64_t from, to;
	size_t n, m;

	if (!s || !str_starts(s, "bytes=") || http_header(h, "If-Range"))
		return;
	s += strlen("bytes=");
	n = digits(s, first);
	if (n > RANGE_DIGITS || s[n] != '-')
		return;
	m = digits(s + n + 1, last);
	if (m > RANGE_DIGITS || s[n + 1 + m] != '\0' || n + m == 0)
		return;
	if (n > 0 && m > 0 && parse_u64(first, INT64_MAX, &from) == 0 &&
	    parse_u64(last, INT64_MAX, &to) == 0 && from > to)
		return;
	j->range = true;
	if (n > 0)
		job_option(j, "first", first);
	if (m > 0)
		job_option(j, "last", last);
}

static void h_content(struct api *a, struct http_conn *c,
		      const struct call *call)
{
	struct err e = { 0 };
	struct file_job *j = ask(a, c, call, "file.read", &e);
	int r;

	if (!j)
		return;
	take_range(j);
	r = take_owner(j, &e);
	if (r == 0)
		r = take_within(j, &e);
	go(j, &answer_content, r, &e);
}

static void h_watch(struct api *a, struct http_conn *c, const struct call *call)
{
	struct err e = { 0 };
	struct file_job *j = ask(a, c, call, "file.watch", &e);

	int r;

	if (!j)
		return;
	r = take_flag(j, "recursive", &e);
	if (r == 0)
		r = take_detail(j, &e);
	go(j, &answer_events, r, &e);
}

static void h_pack(struct api *a, struct http_conn *c, const struct call *call)
{
	struct err e = { 0 };
	struct file_job *j = ask(a, c, call, "file.pack", &e);

	if (j)
		go(j, &answer_tar, 0, &e);
}

/* --- uploads --- */

static void h_write(struct api *a, struct http_conn *c, const struct call *call)
{
	struct err e = { 0 };
	struct file_job *j = ask(a, c, call, "file.write", &e);
	int r;

	if (!j)
		return;
	j->audit = "file.write";
	r = take_mode(j, &e);
	if (r == 0)
		r = take_flag(j, "parents", &e);
	if (r == 0)
		r = take_detail(j, &e);
	if (r == 0)
		r = take_within(j, &e);
	if (r == 0)
		r = take_attributes(j, &e);
	go(j, &answer_written, r, &e);
}

static void h_unpack(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	struct err e = { 0 };
	struct file_job *j = ask(a, c, call, "file.unpack", &e);

	if (!j)
		return;
	j->audit = "file.unpack";
	go(j, &answer_unpacked, take_flag(j, "parents", &e), &e);
}

/* --- changes: a JSON object says what --- */

enum {
	HAS_TO = 1,
	HAS_MODE = 2,
	NEEDS_MODE = 4, /* or HAS_IDS */
	HAS_PARENTS = 8,
	HAS_RECURSIVE = 16,
	HAS_OVERWRITE = 32,
	HAS_DETAIL = 64,
	HAS_OWNER = 128,
	HAS_WITHIN = 256,
	HAS_IDS = 512,
};

struct file_change {
	const char *builtin;
	unsigned has;
	const struct file_answer *answer;
};

static const struct {
	const char *key;
	unsigned bit; /* 0: all have it */
	bool flag;
} members[] = {
	{ "path", 0, false },
	{ "path_base64", 0, false },
	{ "user", 0, false },
	{ "to", HAS_TO, false },
	{ "to_base64", HAS_TO, false },
	{ "mode", HAS_MODE, false },
	{ "parents", HAS_PARENTS, true },
	{ "recursive", HAS_RECURSIVE, true },
	{ "overwrite", HAS_OVERWRITE, true },
	{ "detail", HAS_DETAIL, true },
	{ "owner", HAS_OWNER, false },
	{ "within", HAS_WITHIN, false },
	{ "within_base64", HAS_WITHIN, false },
	{ "uid", HAS_IDS, false },
	{ "gid", HAS_IDS, false },
};

static int body_path(struct file_job *j, const json_t *body, const char *name,
		     struct err *e)
{
	AUTO(buf_done) struct buf path = { 0 };
	int r = path_from_json(body, name, &path, e);

	if (r == 0)
		return err_set(e, EINVAL, "%s is missing", name);
	if (r < 0)
		return r;
	job_word(j, buf_data(&path));
	json_set_path(j->note, name, buf_data(&path));
	return 0;
}

static int body_within(struct file_job *j, const json_t *body, struct err *e)
{
	AUTO(buf_done) struct buf path = { 0 };
	int r = path_from_json(body, "within", &path, e);

	if (r > 0)
		job_option(j, "within", buf_data(&path));
	return r < 0 ? r : 0;
}

/* 1: there is one. */
static int body_id(struct file_job *j, const json_t *body, const char *name,
		   struct err *e)
{
	const json_t *v = json_object_get(body, name);
	uint64_t id;

	if (!v)
		return 0;
	if (parse_u64(json_string_value(v), UINT32_MAX - 1, &id) < 0)
		return err_set(e, EINVAL, "%s is not a number, as in \"1000\"",
			       name);
	job_option(j, name, json_string_value(v));
	json_object_set(j->note, name, (json_t *)v);
	return 1;
}

static int check_keys(const struct file_change *ch, json_t *body, struct err *e)
{
	const char *key;
	json_t *v;

	json_object_foreach (body, key, v) {
		size_t i;

		for (i = 0; i < ARRAY_LEN(members); i++)
			if (strcmp(members[i].key, key) == 0 &&
			    (members[i].bit & ~ch->has) == 0)
				break;
		if (i == ARRAY_LEN(members))
			return err_set(e, EINVAL, "unknown key '%.64s'", key);
		if (members[i].flag && !json_is_boolean(v))
			return err_set(e, EINVAL, "%s is not true or false",
				       key);
		if (!members[i].flag && !json_is_string(v))
			return err_set(e, EINVAL, "%s is not a string", key);
	}
	return 0;
}

static int take_change(struct file_job *j, json_t *body, struct err *e)
{
	const struct file_change *ch = j->change;
	const char *mode = json_string_value(json_object_get(body, "mode"));
	const char *user = json_string_value(json_object_get(body, "user"));
	const char *owner = json_string_value(json_object_get(body, "owner"));
	int uid, gid;
	size_t i;

	if (check_keys(ch, body, e) < 0 || body_path(j, body, "path", e) < 0)
		return -e->code;
	if (ch->has & HAS_TO && body_path(j, body, "to", e) < 0)
		return -e->code;
	if (user && set_user(j, user, e) < 0)
		return -e->code;
	if (owner && set_owner(j, owner, e) < 0)
		return -e->code;
	if (mode && set_mode(j, mode, e) < 0)
		return -e->code;
	uid = body_id(j, body, "uid", e);
	gid = uid < 0 ? uid : body_id(j, body, "gid", e);
	if (gid < 0 || body_within(j, body, e) < 0)
		return -e->code;
	j->detail = json_is_true(json_object_get(body, "detail"));
	if (ch->has & NEEDS_MODE && !mode && !uid && !gid)
		return err_set(e, EINVAL, "mode is missing");
	if (mode)
		json_object_set_new(j->note, "mode", json_string(mode));
	for (i = 0; i < ARRAY_LEN(members); i++) {
		json_t *v = json_object_get(body, members[i].key);

		if (!members[i].flag || !json_is_true(v))
			continue;
		job_flag(j, members[i].key, true);
		json_object_set(j->note, members[i].key, v);
	}
	return 0;
}

static void change_body(struct http_conn *c, char *text, size_t n, void *owner)
{
	struct file_job *j = owner;
	struct err e = { 0 };
	json_t *body = parse_body(text, n, &e);
	int r = body ? take_change(j, body, &e) : -e.code;

	(void)c;
	json_decref(body);
	go(j, j->change->answer, r, &e);
}

static void change(struct api *a, struct http_conn *c, const struct call *call,
		   const struct file_change *ch)
{
	struct file_job *j = job_new(a, c, call, ch->builtin);

	if (!j)
		return;
	j->change = ch;
	j->audit = ch->builtin;
	http_read_body(c, BODY_MAX, change_body);
}

static void h_mkdir(struct api *a, struct http_conn *c, const struct call *call)
{
	static const struct file_change ch = { "file.mkdir",
					       HAS_MODE | HAS_PARENTS |
						       HAS_DETAIL | HAS_OWNER |
						       HAS_WITHIN,
					       &answer_made };

	change(a, c, call, &ch);
}

static void h_move(struct api *a, struct http_conn *c, const struct call *call)
{
	static const struct file_change ch = { "file.move",
					       HAS_TO | HAS_PARENTS |
						       HAS_OVERWRITE |
						       HAS_DETAIL | HAS_OWNER,
					       &answer_entry };

	change(a, c, call, &ch);
}

static void h_copy(struct api *a, struct http_conn *c, const struct call *call)
{
	static const struct file_change ch = { "file.copy",
					       HAS_TO | HAS_PARENTS |
						       HAS_OVERWRITE |
						       HAS_RECURSIVE,
					       &answer_entry };

	change(a, c, call, &ch);
}

static void h_remove(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	static const struct file_change ch = { "file.remove",
					       HAS_RECURSIVE | HAS_OWNER |
						       HAS_WITHIN,
					       &answer_nothing };

	change(a, c, call, &ch);
}

static void h_chmod(struct api *a, struct http_conn *c, const struct call *call)
{
	static const struct file_change ch = { "file.chmod",
					       HAS_MODE | NEEDS_MODE |
						       HAS_RECURSIVE |
						       HAS_WITHIN | HAS_IDS,
					       &answer_entry };

	change(a, c, call, &ch);
}

/* --- the table --- */

#define PATH_QUERY                                                        \
	{ "path", "string", "absolute, or relative to the user's home" }, \
		{ "path_base64", "string",                                \
		  "the same as base64, for names that are not UTF-8" },   \
		{ "user", "string", "as whom; by default the sandbox's user" }

#define OWNER_QUERY                                       \
	{ "owner", "string",                              \
	  "with user=root: relative paths start in this " \
	  "user's home, and this user owns new files; "   \
	  "\"\": the usual user" }
#define DETAIL_QUERY \
	{ "detail", "boolean", "attributes, and where links lead" }, OWNER_QUERY

#define WITHIN_QUERY          \
	{ "within", "string", \
	  "directory that `path` starts with and no link leads out of" }

static const struct route_query path_query[] = { PATH_QUERY, { 0 } };
static const struct route_query stat_query[] = {
	PATH_QUERY,
	{ "follow", "boolean", "what a link leads to, not the link" },
	DETAIL_QUERY,
	WITHIN_QUERY,
	{ 0 },
};
static const struct route_query list_query[] = {
	PATH_QUERY,
	{ "depth", "integer", "1: only what is in the directory itself" },
	{ "limit", "integer", "entries in one answer" },
	{ "after", "string", "`next` of the answer before" },
	{ "after_base64", "string", "the same as base64" },
	DETAIL_QUERY,
	WITHIN_QUERY,
	{ 0 },
};
static const struct route_query read_query[] = {
	PATH_QUERY, OWNER_QUERY, WITHIN_QUERY, { 0 }
};
static const struct route_query write_query[] = {
	PATH_QUERY,
	{ "mode", "string", "octal; by default that of the old one, or 0644" },
	{ "parents", "boolean", "make missing directories" },
	DETAIL_QUERY,
	WITHIN_QUERY,
	{ 0 },
};
static const struct route_query watch_query[] = {
	PATH_QUERY,
	{ "recursive", "boolean", "directories below, too" },
	DETAIL_QUERY,
	{ 0 },
};
static const struct route_query unpack_query[] = {
	PATH_QUERY,
	{ "parents", "boolean", "make missing directories" },
	{ 0 },
};

#define FILES "/v1/sandboxes/{id}/files/"

const struct route file_routes[] = {
	{ "GET", FILES "content", h_content, SCOPE_READ, ROUTE_WAKE,
	  "Read a file, or with Range a part of it", read_query, NULL,
	  "application/octet-stream", 200 },
	{ "PUT", FILES "content", h_write, SCOPE_USE, ROUTE_WAKE,
	  "Write a file: all of it appears at once, or nothing; with fields "
	  "X-Attribute (user.NAME=VALUE) its extended attributes",
	  write_query, "application/octet-stream", "FileWritten", 200 },
	{ "GET", FILES "stat", h_stat, SCOPE_READ, ROUTE_WAKE, "Look at a file",
	  stat_query, NULL, "FileEntry", 200 },
	{ "GET", FILES "list", h_list, SCOPE_READ, ROUTE_WAKE,
	  "List a directory", list_query, NULL, "FileList", 200 },
	{ "GET", FILES "watch", h_watch, SCOPE_READ, ROUTE_WAKE,
	  "Events of a file or directory", watch_query, NULL,
	  "application/x-ndjson", 200 },
	{ "GET", FILES "tar", h_pack, SCOPE_READ, ROUTE_WAKE,
	  "A directory as a tar, named relative to it", path_query, NULL,
	  "application/x-tar", 200 },
	{ "PUT", FILES "tar", h_unpack, SCOPE_USE, ROUTE_WAKE,
	  "Unpack a tar into a directory", unpack_query, "application/x-tar",
	  "FileUnpacked", 200 },
	{ "POST", FILES "mkdir", h_mkdir, SCOPE_USE, ROUTE_WAKE,
	  "Make a directory", NULL, "FileMkdir", "FileEntry", 201 },
	{ "POST", FILES "move", h_move, SCOPE_USE, ROUTE_WAKE,
	  "Move or rename a file or directory", NULL, "FileMove", "FileEntry",
	  200 },
	{ "POST", FILES "copy", h_copy, SCOPE_USE, ROUTE_WAKE,
	  "Copy a file or directory", NULL, "FileCopy", "FileEntry", 200 },
	{ "POST", FILES "remove", h_remove, SCOPE_USE, ROUTE_WAKE,
	  "Remove a file or directory", NULL, "FileRemove", NULL, 204 },
	{ "POST", FILES "chmod", h_chmod, SCOPE_USE, ROUTE_WAKE,
	  "Change the mode or the owner of a file or directory", NULL,
	  "FileChmod", "FileEntry", 200 },
	{ 0 },
};
