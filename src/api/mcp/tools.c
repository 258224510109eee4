/* The tables of tools: list, check of arguments, calls. */
#include <assert.h>
#include <string.h>

#include "api/api.h"
#include "api/mcp/args.h"
#include "api/mcp/fixture.h"
#include "api/mcp/rpc.h"
#include "api/mcp/session.h"
#include "base/auto.h"

static const struct mcp_tool *const ours[] = { mcp_command_tools,
					       mcp_file_tools, mcp_state_tools,
					       mcp_reach_tools, NULL };
static const struct mcp_tool *const fixture[] = { mcp_fixture_tools, NULL };

static const struct mcp_tool *const *tables(const struct api *a)
{
	return a->conf.mcp_fixture ? fixture : ours;
}

static json_t *tool_json(const struct mcp_tool *t)
{
	json_t *schema = json_loads(t->schema, JSON_REJECT_DUPLICATES, NULL);

	assert(schema); /* of ours */
	return json_pack("{s:s, s:s, s:s, s:o, s:{s:s, s:b, s:b, s:b, s:b}}",
			 "name", t->name, "title", t->title, "description",
			 t->description, "inputSchema", schema, "annotations",
			 "title", t->title, "readOnlyHint",
			 !!(t->hints & MCP_READ_ONLY), "destructiveHint",
			 !!(t->hints & MCP_DESTRUCTIVE), "idempotentHint",
			 !!(t->hints & MCP_IDEMPOTENT), "openWorldHint",
			 !!(t->hints & MCP_OPEN_WORLD));
}

static json_t *list(struct api *a)
{
	const struct mcp_tool *const *table, *t;

	if (a->mcp.tools)
		return a->mcp.tools;
	a->mcp.tools = json_array();
	for (table = tables(a); *table; table++)
		for (t = *table; t->name; t++)
			json_array_append_new(a->mcp.tools, tool_json(t));
	return a->mcp.tools;
}

/* They are few: one page has them all. */
void mcp_tools_list(struct mcp_call *c, const json_t *params)
{
	if (json_object_get(params, "cursor"))
		mcp_fail(c, RPC_BAD_PARAMS, "there is no such page");
	else
		mcp_reply(c, json_pack("{s:O}", "tools", list(c->api)));
}

static const struct mcp_tool *find(struct api *a, const char *name,
				   const json_t **schema)
{
	const struct mcp_tool *const *table, *t;
	size_t i = 0;

	for (table = tables(a); *table; table++)
		for (t = *table; t->name; t++, i++)
			if (strcmp(t->name, name) == 0) {
				*schema = json_object_get(
					json_array_get(list(a), i),
					"inputSchema");
				return t;
			}
	return NULL;
}

void mcp_tools_call(struct mcp_call *c, const json_t *params)
{
	const char *name = json_string_value(json_object_get(params, "name"));
	json_t *args = json_object_get(params, "arguments");
	const struct mcp_tool *t;
	const json_t *schema;
	struct err e = { 0 };

	if (!name) {
		mcp_fail(c, RPC_BAD_PARAMS, "'name' of the tool is missing");
		return;
	}
	t = find(c->api, name, &schema);
	if (!t) {
		mcp_fail(c, RPC_BAD_PARAMS,
			 "there is no such tool: see tools/list");
		return;
	}
	args = args ? json_incref(args) : json_object();
	if (mcp_args_check(schema, args, &e) < 0)
		mcp_error(c, "%s", e.msg);
	else
		t->start(c, args);
	json_decref(args);
}
