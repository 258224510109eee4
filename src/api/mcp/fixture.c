#include "api/mcp/fixture.h"

static void simple_text(struct mcp_call *c, const json_t *args)
{
	(void)args;
	mcp_text(c, "This is a simple text response for testing.");
}

const struct mcp_tool mcp_fixture_tools[] = {
	{ "test_simple_text", "Simple text", "Answers with text.",
	  "{\"type\": \"object\"}", MCP_READ_ONLY, simple_text },
	{ 0 },
};
