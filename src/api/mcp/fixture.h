/*
 * What the official conformance suite calls, in place of our own tools and
 * resources: with `mcp_fixture = yes`, for its test and nobody else.
 */
#pragma once

#include "api/mcp/mcp.h"

extern const struct mcp_tool mcp_fixture_tools[];
