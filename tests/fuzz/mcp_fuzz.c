/*
 * Messages of MCP (api/mcp/rpc.c) and arguments of tools (api/mcp/args.c). What
 * was taken is what its kind promises, and can be answered; arguments that
 * pass the check are what the schema says.
 */
#include "../../src/api/json_bounds.c"
#include "../../src/api/mcp/args.c"
#include "../../src/api/mcp/rpc.c"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char plain_schema[] =
	"{\"type\": \"object\", \"properties\": {\"n\": {\"type\": "
	"\"integer\", "
	"\"minimum\": 1, \"maximum\": 9}, \"s\": {\"type\": [\"string\", "
	"\"null\"], \"minLength\": 1, \"maxLength\": 4}, \"l\": {\"type\": "
	"\"array\", \"items\": {\"enum\": [\"a\", 1]}, \"maxItems\": 3}, "
	"\"o\": "
	"{\"type\": \"object\", \"additionalProperties\": {\"type\": "
	"\"number\"}}}, \"required\": [\"n\"]}";

static void check_args(const json_t *schema, json_t *params)
{
	json_t *args = json_object_get(params, "arguments");
	struct err e = { 0 };
	json_t *n;

	if (!args || mcp_args_check(schema, args, &e) < 0)
		return;
	assert(json_is_object(args));
	n = json_object_get(args, "n");
	assert(json_is_integer(n) && json_integer_value(n) >= 1 &&
	       json_integer_value(n) <= 9);
	/* What was taken is taken again. */
	assert(mcp_args_check(schema, args, &e) == 0);
}

static void check_message(const struct rpc_message *m, const json_t *schema)
{
	json_t *answer;
	char *text;

	assert((m->kind == RPC_ANSWER) == !m->method);
	assert((m->kind == RPC_NOTIFICATION) == !m->id);
	assert(!m->params || json_is_object(m->params));
	if (m->kind == RPC_ANSWER)
		assert(!m->result != !m->error);
	check_args(schema, m->params);
	if (!m->id)
		return;
	answer = rpc_error(m->id, RPC_FAILED, m->method ? m->method : "");
	text = json_dumps(answer, JSON_COMPACT);
	assert(text);
	free(text);
	json_decref(answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct rpc_batch b = { 0 };
	struct err e = { 0 };
	json_t *schema = json_loads(plain_schema, 0, NULL);
	size_t i;
	int r = rpc_parse(&b, (const char *)data, n, &e);

	assert(schema);
	if (r < 0)
		assert(*e.msg);
	else
		assert(b.n > 0);
	for (i = 0; r == 0 && i < b.n; i++)
		check_message(&b.msg[i], schema);
	rpc_batch_done(&b);
	json_decref(schema);
	return 0;
}
