/*
 * What the official conformance suite calls, in place of our own tools and
 * resources: with `mcp_fixture = yes`, for its test and nobody else. Nothing
 * here has to do with a sandbox.
 */
#pragma once

#include "api/mcp/mcp.h"

extern const struct mcp_tool mcp_fixture_tools[];

/* Before the others; end at a NULL name. */
struct mcp_method {
	const char *name;
	void (*fn)(struct mcp_call *c, const json_t *params);
};
extern const struct mcp_method mcp_fixture_methods[];

/* An image of one red point, as base64. */
#define FIXTURE_PNG                                                    \
	"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4" \
	"z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
