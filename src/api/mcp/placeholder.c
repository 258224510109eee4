/* Stands in for the tools and resources that are not there yet. */
#include "api/mcp/mcp.h"
#include "api/mcp/rpc.h"

#define WEAK __attribute__((weak))

WEAK const struct mcp_tool mcp_command_tools[1], mcp_file_tools[1],
	mcp_state_tools[1], mcp_reach_tools[1];

WEAK void mcp_resources_list(struct mcp_call *c, const json_t *params)
{
	(void)params;
	mcp_reply(c, json_pack("{s:[]}", "resources"));
}

WEAK void mcp_resources_templates(struct mcp_call *c, const json_t *params)
{
	(void)params;
	mcp_reply(c, json_pack("{s:[]}", "resourceTemplates"));
}

WEAK void mcp_resources_read(struct mcp_call *c, const json_t *params)
{
	(void)params;
	mcp_fail(c, RPC_NOT_FOUND, "there is no such resource");
}
