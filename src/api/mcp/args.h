/*
 * Checks a tool's arguments against its schema, in words that help a model to
 * do better. Knows the part of JSON Schema that our schemas use: type, enum,
 * properties, required, additionalProperties, items, minItems, maxItems,
 * minLength, maxLength, minimum, maximum. Names that the schema does not have
 * are refused unless it allows them.
 *
 * Whole numbers that came as reals (5.0) become integers.
 */
#pragma once

#include <jansson.h>

#include "base/err.h"

int mcp_args_check(const json_t *schema, json_t *args,
		   struct err *e) MUST_CHECK;
