/* Requests about the drive (drive.h). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/drive.h"
#include "api/proc_json.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "http/target.h"

enum {
	DROP_MAX = 64 * 1024 * 1024, /* of a body, before its failure is told */
};

static void take_who(struct drive_who *by, struct http_conn *c,
		     const struct call *call)
{
	by->who = call->who;
	memcpy(by->request, http_request_id(c), sizeof(by->request));
}

/* --- put --- */

struct upload {
	struct api *api;
	struct http_conn *conn;
	struct drive_put *put;
	/* Many clients look for an answer when they have sent it all: what is
	 * left is taken and dropped first. */
	struct err failed;
	uint64_t dropped;
};

static void upload_gone(struct http_conn *c, void *owner)
{
	struct upload *u = owner;

	(void)c;
	drive_put_give_up(u->put);
	free(u);
}

static void upload_fail(struct upload *u)
{
	struct err e = u->failed;
	struct api *a = u->api;
	struct http_conn *c = u->conn;

	drive_put_give_up(u->put);
	free(u);
	reply_err(a, c, &e);
}

static size_t upload_data(struct http_conn *c, const char *p, size_t n,
			  void *owner)
{
	struct upload *u = owner;

	(void)c;
	if (u->put && drive_put_add(u->put, p, n, &u->failed) < 0) {
		drive_put_give_up(u->put);
		u->put = NULL;
	}
	if (u->put)
		return n;
	u->dropped += n;
	if (u->dropped > DROP_MAX)
		upload_fail(u);
	return n;
}

static void upload_done(struct drive_put *p, const struct drive_row *row,
			const struct err *e)
{
	struct upload *u = p->owner;
	struct api *a = u->api;
	struct http_conn *c = u->conn;

	free(u);
	if (row)
		reply_json(a, c, 200, drive_row_json(row));
	else
		reply_err(a, c, e);
}

static void upload_end(struct http_conn *c, void *owner)
{
	struct upload *u = owner;

	(void)c;
	if (u->put)
		drive_put_end(u->put, upload_done);
	else
		upload_fail(u);
}

/* If-Match: "3", 3 or *; If-None-Match: * */
static int take_condition(const struct http_head *h, struct drive_put *want,
			  struct err *e)
{
	const char *s = http_header(h, "If-Match"),
		   *none = http_header(h, "If-None-Match");
	char text[24];
	size_t n;

	if (none && (s || strcmp(none, "*") != 0))
		return err_set(e, EINVAL, "If-None-Match takes only *");
	want->condition = none ? DRIVE_NONE : s ? DRIVE_SOME : DRIVE_ANY;
	if (!s || strcmp(s, "*") == 0)
		return 0;
	want->condition = DRIVE_VERSION;
	n = strlen(s);
	if (n >= 2 && s[0] == '"' && s[n - 1] == '"') {
		s++;
		n -= 2;
	}
	if (n < sizeof(text)) {
		snprintf(text, sizeof(text), "%.*s", (int)n, s);
		if (parse_u64(text, INT64_MAX, &want->version) == 0)
			return 0;
	}
	return err_set(e, EINVAL,
		       "If-Match is not the version of a file, as in \"3\"");
}

static void h_put(struct api *a, struct http_conn *c, const struct call *call)
{
	const struct http_head *h = http_request(c);
	struct drive_put want = { 0 };
	struct err e = { 0 };
	struct upload *u;

	take_who(&want.by, c, call);
	u = xcalloc(1, sizeof(*u));
	u->api = a;
	u->conn = c;
	want.owner = u;
	if (call_project(call, h, want.project, &e) == 0 &&
	    take_condition(h, &want, &e) == 0 &&
	    drive_path_join(want.path, call->rest, "", &e) == 0)
		u->put = drive_put_new(
			a, &want, h->body == HTTP_LENGTH ? h->length : 0, &e);
	u->failed = e;
	http_own(c, u, upload_gone);
	if (!u->put && h->expect_continue)
		upload_fail(u);
	else
		http_stream_body(c, upload_data, upload_end);
}

/* --- get, versions --- */

/* What the path and ?project= name; else it is answered. */
static bool take_path(struct api *a, struct http_conn *c,
		      const struct call *call, char project[NAME_CAP],
		      char path[DRIVE_PATH_CAP])
{
	struct err e = { 0 };

	if (call_project(call, http_request(c), project, &e) == 0 &&
	    drive_path_join(path, call->rest, "", &e) == 0)
		return true;
	reply_err(a, c, &e);
	return false;
}

static void h_get(struct api *a, struct http_conn *c, const struct call *call)
{
	char project[NAME_CAP], path[DRIVE_PATH_CAP];
	struct drive_row row;
	uint64_t version = 0;
	struct err e = { 0 };

	if (!take_path(a, c, call, project, path))
		return;
	if (query_number(http_request(c), "version", INT64_MAX, &version, &e) <
		    0 ||
	    drive_find(a, project, path, version, &row, &e) < 0)
		reply_err(a, c, &e);
	else
		drive_send(a, c, &row);
}

static int add_version(void *arg, const struct drive_row *row)
{
	json_array_append_new(arg, drive_row_json(row));
	return 0;
}

static void h_versions(struct api *a, struct http_conn *c,
		       const struct call *call)
{
	char project[NAME_CAP], path[DRIVE_PATH_CAP];
	struct err e = { 0 };
	json_t *list;

	if (!take_path(a, c, call, project, path))
		return;
	list = json_array();
	if (registry_drive_versions(&a->registry, project, path, add_version,
				    list, &e) < 0 ||
	    (json_array_size(list) == 0 &&
	     err_set(&e, ENOENT, "the drive has no file %.180s", path))) {
		json_decref(list);
		reply_err(a, c, &e);
		return;
	}
	reply_json(a, c, 200, json_pack("{s:o}", "versions", list));
}

/* --- list --- */

struct listing {
	char project[NAME_CAP], prefix[DRIVE_PATH_CAP];
	char from[DRIVE_PATH_CAP + 1]; /* the first name that may come */
	bool recursive, removed;
	uint64_t limit;
	json_t *entries;
};

/*
 * "a/b/c" listed below "a/" is the directory "a/b"; what comes next starts
 * behind all that is in it ('0' follows '/').
 */
static bool add_directory(struct listing *l, const struct drive_row *row)
{
	const char *slash = strchr(row->path + strlen(l->prefix), '/');
	int n = slash ? (int)(slash - row->path) : 0;
	json_t *name;

	if (l->recursive || !slash)
		return false;
	name = json_stringn(row->path, (size_t)n);
	json_array_append_new(l->entries, json_pack("{s:o, s:s}", "path", name,
						    "type", "directory"));
	snprintf(l->from, sizeof(l->from), "%.*s0", n, row->path);
	return true;
}

static void add_file(struct listing *l, const struct drive_row *row)
{
	json_t *j = drive_row_json(row);

	json_object_set_new(j, "type", json_string("file"));
	json_array_append_new(l->entries, j);
	/* No name has a control byte: the first one behind it. */
	snprintf(l->from, sizeof(l->from), "%s\x01", row->path);
}

/* 1: there is more, 0: that was all. */
static int list_some(struct api *a, struct listing *l, struct err *e)
{
	const struct drive_range range = { l->project, l->prefix, l->from,
					   l->removed };
	struct drive_row row;
	int r;

	while ((r = registry_drive_next(&a->registry, &range, &row, e)) > 0) {
		if (json_array_size(l->entries) == l->limit)
			return 1;
		if (!add_directory(l, &row))
			add_file(l, &row);
	}
	return r;
}

static int take_listing(const struct http_head *h, const struct call *call,
			struct listing *l, struct err *e)
{
	char after[DRIVE_PATH_CAP] = "";
	bool dir;

	if (call_project(call, h, l->project, e) < 0 ||
	    query_bool(h, "recursive", &l->recursive, e) < 0 ||
	    query_bool(h, "removed", &l->removed, e) < 0 ||
	    query_number(h, "limit", DRIVE_LIST_MAX, &l->limit, e) < 0)
		return -e->code;
	if (http_query(h, "prefix", l->prefix, sizeof(l->prefix)) < 0 ||
	    http_query(h, "after", after, sizeof(after)) < 0)
		return err_set(e, EINVAL, "prefix or after is no path");
	if (drive_path_check(l->prefix, true, e) < 0 ||
	    drive_path_check(after, true, e) < 0)
		return -e->code;
	if (l->limit == 0)
		l->limit = DRIVE_LIST_MAX;
	/* `next` of a directory ends in a slash: behind all of it. */
	dir = *after && after[strlen(after) - 1] == '/';
	if (dir)
		after[strlen(after) - 1] = '\0';
	if (*after)
		snprintf(l->from, sizeof(l->from), "%s%s", after,
			 dir ? "0" : "\x01");
	return 0;
}

/* `after` of the next page. */
static json_t *next_of(const struct listing *l)
{
	size_t n = json_array_size(l->entries);
	const json_t *last = json_array_get(l->entries, n ? n - 1 : 0);
	const char *path = json_string_value(json_object_get(last, "path")),
		   *type = json_string_value(json_object_get(last, "type"));

	if (!path)
		return json_null();
	return json_sprintf("%s%s", path,
			    strcmp(type, "directory") == 0 ? "/" : "");
}

static void h_list(struct api *a, struct http_conn *c, const struct call *call)
{
	struct listing l = { 0 };
	struct drive_share *sh = NULL;
	struct err e = { 0 };
	int more = take_listing(http_request(c), call, &l, &e);

	l.entries = json_array();
	if (more == 0)
		more = list_some(a, &l, &e);
	if (more >= 0)
		sh = drive_share(a, l.project, &e);
	if (!sh) {
		json_decref(l.entries);
		reply_err(a, c, &e);
		return;
	}
	reply_json(a, c, 200,
		   json_pack("{s:s, s:o, s:o, s:I, s:I}", "project", l.project,
			     "next", more ? next_of(&l) : json_null(),
			     "entries", l.entries, "used_bytes",
			     (json_int_t)sh->bytes, "max_bytes",
			     (json_int_t)a->conf.drive_bytes));
}

/* --- remove --- */

static void h_delete(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	char project[NAME_CAP], path[DRIVE_PATH_CAP];
	struct drive_who by = { 0 };
	struct drive_row row;
	struct err e = { 0 };
	bool purge = false;
	int r;

	if (!take_path(a, c, call, project, path))
		return;
	take_who(&by, c, call);
	r = query_bool(http_request(c), "purge", &purge, &e);
	if (r == 0 && purge && call->who.scope < SCOPE_ADMIN)
		r = err_set(&e, EPERM,
			    "a purge cannot be undone: it needs a key of scope "
			    "admin");
	if (r == 0 && purge)
		r = drive_purge(a, &by, project, path, &e);
	else if (r == 0)
		r = drive_remove(a, &by, project, path, &row, &e);
	if (r < 0)
		reply_err(a, c, &e);
	else
		reply_empty(a, c, 204);
}

/* --- the table --- */

#define PROJECT_QUERY { "project", "string", "for the operator: whose" }

static const struct route_query put_query[] = { PROJECT_QUERY, { 0 } };
static const struct route_query get_query[] = {
	PROJECT_QUERY,
	{ "version", "integer", "by default the newest" },
	{ 0 },
};
static const struct route_query list_query[] = {
	PROJECT_QUERY,
	{ "prefix", "string", "only files whose path starts so" },
	{ "recursive", "boolean", "files of directories, too" },
	{ "removed", "boolean", "also those whose versions are left" },
	{ "limit", "integer", "entries in one answer" },
	{ "after", "string", "`next` of the answer before" },
	{ 0 },
};
static const struct route_query delete_query[] = {
	PROJECT_QUERY,
	{ "purge", "boolean",
	  "all versions, and their bytes; needs the scope admin" },
	{ 0 },
};

const struct route drive_routes[] = {
	{ "GET", "/v1/drive", h_list, SCOPE_READ, ROUTE_ALONE,
	  "List files of the drive", list_query, NULL, "DriveList", 200 },
	{ "PUT", "/v1/drive/files/*", h_put, SCOPE_USE, ROUTE_ALONE,
	  "Write a new version of a file; with If-Match only in place of that "
	  "one",
	  put_query, "application/octet-stream", "DriveFile", 200 },
	{ "GET", "/v1/drive/files/*", h_get, SCOPE_READ, ROUTE_ALONE,
	  "Read a file, or with Range a part of it", get_query, NULL,
	  "application/octet-stream", 200 },
	{ "DELETE", "/v1/drive/files/*", h_delete, SCOPE_USE, ROUTE_ALONE,
	  "Remove a file; its versions stay until they are purged",
	  delete_query, NULL, NULL, 204 },
	{ "GET", "/v1/drive/versions/*", h_versions, SCOPE_READ, ROUTE_ALONE,
	  "Versions of a file, the newest first", put_query, NULL,
	  "DriveVersions", 200 },
	{ "POST", "/v1/sandboxes/{id}/drive", h_drive_copy, SCOPE_USE,
	  ROUTE_WAKE, "Copy a file between a sandbox and the drive", NULL,
	  "DriveCopy", "DriveFile", 200 },
	{ 0 },
};
