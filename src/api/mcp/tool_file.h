/* The tools about files, in files of their own. Private to mcp/. */
#pragma once

#include <jansson.h>

#include "api/mcp/mcp.h"

void start_read_file(struct mcp_call *c, const json_t *args);
void start_search_files(struct mcp_call *c, const json_t *args);
