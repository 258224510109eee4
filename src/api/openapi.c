#include "api/openapi.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/routes.h"
#include "api/schema.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/product.h"
#include "spec/spec.h"

/* --- schemas --- */

static json_t *ref_to(const char *name, size_t n)
{
	char path[96];

	snprintf(path, sizeof(path), "#/components/schemas/%.*s", (int)n, name);
	return json_pack("{s:s}", "$ref", path);
}

static bool is_word(const char *type, size_t n, const char *word)
{
	return strlen(word) == n && memcmp(type, word, n) == 0;
}

static json_t *simple_type(const char *type, size_t n)
{
	if (isupper((unsigned char)*type))
		return ref_to(type, n);
	if (is_word(type, n, "time"))
		return json_pack("{s:s, s:s}", "type", "string", "format",
				 "date-time");
	if (is_word(type, n, "strings"))
		return json_pack("{s:s, s:{s:s}}", "type", "object",
				 "additionalProperties", "type", "string");
	return json_pack("{s:s%}", "type", type, n);
}

/* See schema.h. */
static json_t *type_json(const char *type)
{
	size_t n = strcspn(type, "[?");
	bool list = strncmp(type + n, "[]", 2) == 0;
	bool null = type[strlen(type) - 1] == '?';
	json_t *j = simple_type(type, n);

	if (list)
		j = json_pack("{s:s, s:o}", "type", "array", "items", j);
	if (null)
		j = json_pack("{s:[o, {s:s}]}", "anyOf", j, "type", "null");
	return j;
}

static json_t *object_json(const struct schema *s)
{
	const struct schema_field *f;
	json_t *props = json_object(), *needed = json_array(), *j;

	for (f = s->fields; f->name; f++) {
		size_t n = strcspn(f->name, "?");
		json_t *p = type_json(f->type);

		if (f->help)
			json_object_set_new(p, "description",
					    json_string(f->help));
		json_object_setn_new(props, f->name, n, p);
		if (f->name[n] == '\0')
			json_array_append_new(needed, json_string(f->name));
	}
	j = json_pack("{s:s, s:s, s:o}", "type", "object", "description",
		      s->help, "properties", props);
	if (json_array_size(needed) > 0)
		json_object_set(j, "required", needed);
	json_decref(needed);
	return j;
}

/* Where a number would do, text with a unit is taken as well. */
static json_t *spec_type(enum spec_kind kind)
{
	switch (kind) {
	case SPEC_MAP:
		return json_pack("{s:s, s:{s:s}}", "type", "object",
				 "additionalProperties", "type", "string");
	case SPEC_PORTS:
		return json_pack("{s:s, s:{s:s}}", "type", "object",
				 "additionalProperties", "type", "integer");
	case SPEC_LIST:
		return json_pack("{s:s, s:{s:s}}", "type", "array", "items",
				 "type", "string");
	case SPEC_FILES:
		return json_pack("{s:s, s:o}", "type", "array", "items",
				 ref_to("SpecFile", strlen("SpecFile")));
	case SPEC_OBJECT:
		return json_pack("{s:s}", "type", "object");
	case SPEC_BOOL:
		return json_pack("{s:s}", "type", "boolean");
	case SPEC_NUMBER:
		return json_pack("{s:s}", "type", "integer");
	case SPEC_SIZE:
	case SPEC_MILLI:
	case SPEC_TIME:
		return json_pack("{s:[s, s]}", "type", "number", "string");
	case SPEC_TEXT:
		break;
	}
	return json_pack("{s:s}", "type", "string");
}

/* All fields, or those with one of `flags`. */
static json_t *spec_json(unsigned flags, const char *help)
{
	const struct spec_field *f;
	json_t *props = json_object();

	for (f = spec_fields; f->name; f++) {
		json_t *p;

		if (flags && !(f->flags & flags))
			continue;
		p = spec_type(f->kind);
		json_object_set_new(p, "description", json_string(f->help));
		json_object_set_new(props, f->name, p);
	}
	return json_pack("{s:s, s:s, s:o, s:b}", "type", "object",
			 "description", help, "properties", props,
			 "additionalProperties", false);
}

/* A spec, and where it starts. */
static json_t *create_json(void)
{
	json_t *j = spec_json(0, "A sandbox to be made");

	json_object_set_new(json_object_get(j, "properties"), "snapshot",
			    json_pack("{s:s, s:s}", "type", "string",
				      "description",
				      "start from this one instead of an "
				      "image, with the spec of its sandbox"));
	return j;
}

static json_t *all_schemas(void)
{
	const struct schema *s;
	json_t *j = json_object();

	json_object_set_new(j, "SandboxAsk", create_json());
	json_object_set_new(j, "Spec",
			    spec_json(0, "What a sandbox is made of"));
	json_object_set_new(j, "SpecChange",
			    spec_json(SPEC_PATCH,
				      "What may change while it lives; a label "
				      "that is null is removed"));
	for (s = schemas; s->name; s++)
		json_object_set_new(j, s->name, object_json(s));
	return j;
}

/* --- routes --- */

/* A media type has a slash; the name of a schema means JSON. */
static json_t *content(const char *what)
{
	if (strchr(what, '/'))
		return json_pack("{s:{s:{}}}", what, "schema");
	return json_pack("{s:{s:o}}", "application/json", "schema",
			 ref_to(what, strlen(what)));
}

static json_t *parameter(const char *name, size_t n, bool in_path,
			 const char *type, const char *help)
{
	json_t *j = json_pack("{s:s%, s:s, s:b, s:{s:s}}", "name", name, n,
			      "in", in_path ? "path" : "query", "required",
			      in_path, "schema", "type", type);

	if (help)
		json_object_set_new(j, "description", json_string(help));
	return j;
}

static json_t *parameters(const struct route *r)
{
	const struct route_query *q;
	json_t *list = json_array();
	const char *p = r->path;

	while ((p = strchr(p, '{'))) {
		size_t n = strcspn(++p, "}");

		json_array_append_new(list,
				      parameter(p, n, true, "string", NULL));
	}
	if (r->path[strlen(r->path) - 1] == '*')
		json_array_append_new(list, parameter("rest", 4, true, "string",
						      "the path inside"));
	for (q = r->query; q && q->name; q++)
		json_array_append_new(list, parameter(q->name, strlen(q->name),
						      false, q->type, q->help));
	return list;
}

static json_t *responses(const struct route *r)
{
	char status[8];
	json_t *ok = json_pack(
		"{s:s}", "description",
		r->status == 101 ? "The connection is handed over" : "Done");

	if (r->answer)
		json_object_set_new(ok, "content", content(r->answer));
	snprintf(status, sizeof(status), "%d", r->status);
	return json_pack("{s:o, s:{s:s, s:o}, s:{s:s, s:o}}", status, ok, "4XX",
			 "description", "The request is at fault", "content",
			 content("Error"), "5XX", "description", "We are",
			 "content", content("Error"));
}

/* "get_sandboxes_id_files_stat": unique, because method and path are. */
static json_t *operation_id(const char *method, const char *path)
{
	AUTO(buf_done) struct buf b = { 0 };
	const char *p;
	bool gap = true;

	for (p = method; *p; p++)
		buf_printf(&b, "%c", tolower((unsigned char)*p));
	for (p = path; *p; p++) {
		if (*p == '*') {
			buf_puts(&b, "_rest");
		} else if (isalnum((unsigned char)*p)) {
			buf_printf(&b, "%s%c", gap ? "_" : "", *p);
			gap = false;
		} else {
			gap = true;
		}
	}
	return json_stringn(buf_data(&b), buf_len(&b));
}

static const char *scope_name(const struct route *r)
{
	return r->flags & ROUTE_OPEN ? "none" : scope_word(r->scope);
}

static json_t *operation(const struct route *r, const char *method)
{
	json_t *params = parameters(r);
	json_t *j =
		json_pack("{s:o, s:s, s:o, s:s}", "operationId",
			  operation_id(method, r->path), "summary", r->summary,
			  "responses", responses(r), "x-scope", scope_name(r));

	if (json_array_size(params) > 0)
		json_object_set(j, "parameters", params);
	json_decref(params);
	if (r->body)
		json_object_set_new(
			j, "requestBody",
			json_pack("{s:o}", "content", content(r->body)));
	if (r->flags & ROUTE_OPEN)
		json_object_set_new(j, "security", json_array());
	return j;
}

static json_t *path_item(json_t *paths, const char *path)
{
	char name[160];
	size_t n = strcspn(path, "*");
	json_t *item;

	snprintf(name, sizeof(name), "%.*s%s", (int)n, path,
		 path[n] ? "{rest}" : "");
	item = json_object_get(paths, name);
	if (!item) {
		item = json_object();
		json_object_set_new(paths, name, item);
	}
	return item;
}

static void add_route(json_t *paths, const struct route *r)
{
	static const char *const any[] = { "get", "post", "put", "patch",
					   "delete" };
	json_t *item = path_item(paths, r->path);
	char method[HTTP_METHOD_MAX + 1];
	size_t i;

	if (strcmp(r->method, "*") == 0) {
		for (i = 0; i < ARRAY_LEN(any); i++)
			json_object_set_new(item, any[i], operation(r, any[i]));
		return;
	}
	for (i = 0; i < HTTP_METHOD_MAX && r->method[i]; i++)
		method[i] = (char)tolower((unsigned char)r->method[i]);
	method[i] = '\0';
	json_object_set_new(item, method, operation(r, method));
}

static json_t *all_paths(void)
{
	const struct route *const *t, *r;
	json_t *paths = json_object();

	for (t = all_routes; *t; t++)
		for (r = *t; r->method; r++)
			if (!(r->flags & ROUTE_FOREIGN))
				add_route(paths, r);
	return paths;
}

json_t *openapi_json(void)
{
	return json_pack(
		"{s:s, s:{s:s, s:s, s:s, s:{s:s, s:s}}, s:[{s:s}], s:[{s:[]}],"
		" s:o, s:{s:o, s:{s:{s:s, s:s, s:s}}}}",
		"openapi", "3.1.0", "info", "title", "Carrel", "version",
		PRODUCT_VERSION, "summary",
		"Every agent its own isolated Linux machine", "license", "name",
		"Apache-2.0", "identifier", "Apache-2.0", "servers", "url", "/",
		"security", "key", "paths", all_paths(), "components",
		"schemas", all_schemas(), "securitySchemes", "key", "type",
		"http", "scheme", "bearer", "description",
		"A key of `carrel key create`; over the unix socket none is "
		"needed");
}
