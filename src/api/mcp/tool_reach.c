/* Tools about what is outside the sandbox: ports, the network, the drive. */
#include <stdio.h>
#include <string.h>

#include "api/mcp/content.h"
#include "api/mcp/task.h"
#include "base/auto.h"
#include "http/target.h"

enum {
	TTL_S = 3600,
	WAIT_MAX_S = 600,
	DRIVE_ENTRIES = 1000,
};

static const char *text_of(const json_t *j, const char *name)
{
	const char *s = json_string_value(json_object_get(j, name));

	return s ? s : "";
}

static long long number_of(const json_t *j, const char *name)
{
	return (long long)json_integer_value(json_object_get(j, name));
}

/* --- preview_port --- */

static void on_token(struct task *t, int status, json_t *answer)
{
	const char *url = text_of(answer, "url");
	long long port = (long long)task_int(t, "port", 0);

	if (status != 201)
		task_refused(t, "there is no preview", status, answer);
	else if (*url)
		task_text(t,
			  "%s\nopens port %lld of the sandbox until %s. Who "
			  "has this link has the port: give it to the user "
			  "alone.",
			  url, port, text_of(answer, "expires_at"));
	else
		task_text(t,
			  "This host has no address for browsers. Programs on "
			  "it reach the port at /v1/sandboxes/%s/ports/%lld/ "
			  "with the field Carrel-Token: %s until %s.",
			  t->box, port, text_of(answer, "token"),
			  text_of(answer, "expires_at"));
}

static void preview_begin(struct task *t)
{
	AUTO(buf_done) struct buf target = { 0 };

	task_target(t, &target, "/ports/");
	buf_printf(&target, "%lld/token", (long long)task_int(t, "port", 0));
	task_ask(t, "POST", buf_str(&target),
		 json_pack("{s:I}", "ttl", task_int(t, "ttl_s", TTL_S)),
		 on_token);
}

static void start_preview(struct mcp_call *c, const json_t *args)
{
	task_new(c, args, sizeof(struct task), preview_begin);
}

/* --- request_access --- */

static void on_access(struct task *t, int status, json_t *answer)
{
	const char *state = text_of(answer, "state");
	const char *url = task_str(t, "url", "");

	if (status / 100 != 2)
		task_refused(t, "access cannot be asked for", status, answer);
	else if (strcmp(state, "allowed") == 0)
		task_text(t, "Granted: %s may be reached (%s).", url,
			  text_of(answer, "why"));
	else if (strcmp(state, "waiting") == 0)
		task_text(t,
			  "Waiting: a person has to decide about %s (approval "
			  "%lld, until %s). Go on with something else and ask "
			  "again later, or ask with wait_s.",
			  url, number_of(answer, "number"),
			  text_of(answer, "expires_at"));
	else
		task_error(t,
			   "Denied: %s may not be reached (%s). Do not try to "
			   "get around it: go on without, or tell the user.",
			   url, text_of(answer, "why"));
}

static void access_begin(struct task *t)
{
	AUTO(buf_done) struct buf target = { 0 }, url = { 0 };
	const char *want = task_str(t, "url", "");
	json_int_t wait = task_int(t, "wait_s", 0);
	json_t *body;

	/* A bare host is what most mean by "access". */
	buf_printf(&url, "%s%s", strstr(want, "://") ? "" : "https://", want);
	body = json_pack("{s:s, s:s}", "url", buf_str(&url), "method",
			 task_str(t, "method", "GET"));
	json_object_set(body, "reason", json_object_get(t->args, "reason"));
	if (wait > 0)
		json_object_set_new(
			body, "wait",
			json_integer(wait < WAIT_MAX_S ? wait : WAIT_MAX_S));
	task_target(t, &target, "/approvals");
	task_ask(t, "POST", buf_str(&target), body, on_access);
}

static void start_access(struct mcp_call *c, const json_t *args)
{
	task_new(c, args, sizeof(struct task), access_begin);
}

/* --- the drive --- */

static void on_put(struct task *t, int status, json_t *answer)
{
	if (status != 200)
		task_refused(t, "it is not on the drive", status, answer);
	else
		task_text(t, "%s is on the drive: version %lld, %lld bytes.",
			  text_of(answer, "path"), number_of(answer, "version"),
			  number_of(answer, "size"));
}

static void put_begin(struct task *t)
{
	AUTO(buf_done) struct buf target = { 0 };
	const char *path = task_str(t, "path", "");
	const char *slash = strrchr(path, '/');

	task_target(t, &target, "/drive");
	task_ask(t, "POST", buf_str(&target),
		 json_pack("{s:s, s:s}", "put", path, "to",
			   task_str(t, "to", slash ? slash + 1 : path)),
		 on_put);
}

static void start_put(struct mcp_call *c, const json_t *args)
{
	task_new(c, args, sizeof(struct task), put_begin);
}

static const char *get_to(const struct task *t)
{
	const char *path = task_str(t, "path", "");
	const char *slash = strrchr(path, '/');

	return task_str(t, "to", slash ? slash + 1 : path);
}

static void on_got(struct task *t, int status, json_t *answer)
{
	if (status != 200)
		task_refused(t, "it was not copied", status, answer);
	else
		task_text(t,
			  "Version %lld of %s, %lld bytes, is in the sandbox "
			  "as %s.",
			  number_of(answer, "version"), text_of(answer, "path"),
			  number_of(answer, "size"), get_to(t));
}

static void get_begin(struct task *t)
{
	AUTO(buf_done) struct buf target = { 0 };
	json_t *version = json_object_get(t->args, "version");
	json_t *body =
		json_pack("{s:s, s:s, s:b}", "get", task_str(t, "path", ""),
			  "to", get_to(t), "parents", 1);

	if (version)
		json_object_set(body, "version", version);
	task_target(t, &target, "/drive");
	task_ask(t, "POST", buf_str(&target), body, on_got);
}

static void start_get(struct mcp_call *c, const json_t *args)
{
	task_new(c, args, sizeof(struct task), get_begin);
}

static void put_row(struct buf *out, const json_t *e)
{
	const char *path = text_of(e, "path");

	if (json_object_get(e, "version"))
		buf_printf(out, "%10lld  v%lld  %s\n", number_of(e, "size"),
			   number_of(e, "version"), path);
	else
		buf_printf(out, "%10s  -  %s\n", "-", path);
}

static void on_drive(struct task *t, int status, json_t *answer)
{
	AUTO(buf_done) struct buf text = { 0 };
	const json_t *e;
	size_t i;

	if (status != 200) {
		task_refused(t, "the drive cannot be listed", status, answer);
		return;
	}
	json_array_foreach (json_object_get(answer, "entries"), i, e) {
		put_row(&text, e);
	}
	if (i == 0)
		buf_puts(&text, "There is nothing on the drive.");
	if (json_is_string(json_object_get(answer, "next")))
		buf_puts(&text, "[there is more: give prefix]\n");
	task_reply(t, content_one(buf_data(&text), buf_len(&text)));
}

/* The drive is the project's, and the operator sees all of them: whose
 * sandbox it is, says the sandbox. */
static void on_whose(struct task *t, int status, json_t *answer)
{
	AUTO(buf_done) struct buf target = { 0 };
	const char *prefix = task_str(t, "prefix", NULL);

	if (status != 200) {
		task_refused(t, "the drive cannot be listed", status, answer);
		return;
	}
	buf_printf(&target, "/v1/drive?recursive=true&limit=%d", DRIVE_ENTRIES);
	target_add(&target, "project", text_of(answer, "project"));
	if (prefix)
		target_add(&target, "prefix", prefix);
	task_ask(t, "GET", buf_str(&target), NULL, on_drive);
}

static void drive_begin(struct task *t)
{
	AUTO(buf_done) struct buf target = { 0 };

	task_target(t, &target, "");
	task_ask(t, "GET", buf_str(&target), NULL, on_whose);
}

static void start_drive(struct mcp_call *c, const json_t *args)
{
	task_new(c, args, sizeof(struct task), drive_begin);
}

const struct mcp_tool mcp_reach_tools[] = {
	{ "preview_port", "Show a server to the user",
	  "Get a link to a server that listens on a port inside the sandbox "
	  "(HTTP, WebSockets too), for the user's browser. Start the server "
	  "with run_command and background: true first.",
	  "{\"type\":\"object\",\"properties\":{"
	  "\"port\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":65535,"
	  "\"description\":\"The port that the server listens on\"},"
	  "\"ttl_s\":{\"type\":\"integer\",\"minimum\":1,\"default\":3600,"
	  "\"description\":\"Seconds that the link works for\"}"
	  "},\"required\":[\"port\"],\"additionalProperties\":false}",
	  MCP_OPEN_WORLD, start_preview },
	{ "request_access", "Ask for access to a host",
	  "Ask a person to let the sandbox reach a host that it may not reach "
	  "yet. Says at once when it is allowed already, or can never be. "
	  "Otherwise the request waits for the operator; ask again with the "
	  "same url to learn what became of it, or give wait_s to wait for "
	  "the decision. What is granted counts for the host.",
	  "{\"type\":\"object\",\"properties\":{"
	  "\"url\":{\"type\":\"string\",\"minLength\":1,\"description\":\"A "
	  "URL "
	  "with http or https, or a bare host name\"},"
	  "\"method\":{\"type\":\"string\",\"enum\":[\"GET\",\"HEAD\",\"POST\","
	  "\"PUT\",\"PATCH\",\"DELETE\",\"OPTIONS\"],\"default\":\"GET\","
	  "\"description\":\"What will be done there\"},"
	  "\"reason\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":200,"
	  "\"description\":\"What it is needed for, for the person who "
	  "decides\"},"
	  "\"wait_s\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":600,"
	  "\"default\":0,\"description\":\"Seconds to wait for a decision\"}"
	  "},\"required\":[\"url\",\"reason\"],"
	  "\"additionalProperties\":false}",
	  MCP_OPEN_WORLD, start_access },
	{ "drive_put", "Keep a file on the drive",
	  "Copy a file of the sandbox to the drive, which outlives the sandbox "
	  "and which all sandboxes of the project share. Each time makes a new "
	  "version; older ones stay.",
	  "{\"type\":\"object\",\"properties\":{"
	  "\"path\":{\"type\":\"string\",\"minLength\":1,\"description\":\"The "
	  "file in the sandbox\"},"
	  "\"to\":{\"type\":\"string\",\"minLength\":1,\"description\":\"Its "
	  "path on the drive, such as reports/june.md; default: its name\"}"
	  "},\"required\":[\"path\"],\"additionalProperties\":false}",
	  0, start_put },
	{ "drive_get", "Take a file from the drive",
	  "Copy a file from the drive into the sandbox.",
	  "{\"type\":\"object\",\"properties\":{"
	  "\"path\":{\"type\":\"string\",\"minLength\":1,\"description\":\"Its "
	  "path on the drive; drive_list shows them\"},"
	  "\"to\":{\"type\":\"string\",\"minLength\":1,\"description\":\"The "
	  "file in the sandbox; default: its name, in the home directory\"},"
	  "\"version\":{\"type\":\"integer\",\"minimum\":1,\"description\":"
	  "\"An "
	  "older version; default: the newest\"}"
	  "},\"required\":[\"path\"],\"additionalProperties\":false}",
	  MCP_DESTRUCTIVE | MCP_IDEMPOTENT, start_get },
	{ "drive_list", "List the drive",
	  "List the files on the drive: size, newest version, path.",
	  "{\"type\":\"object\",\"properties\":{"
	  "\"prefix\":{\"type\":\"string\",\"description\":\"Only what is in "
	  "this directory\"}"
	  "},\"additionalProperties\":false}",
	  MCP_READ_ONLY, start_drive },
	{ 0 },
};
