/* The pure parts of MCP: messages, and arguments against schemas. */
#include <string.h>

#include "api/mcp/args.h"
#include "api/mcp/rpc.h"
#include "check.h"

static int parse(const char *text)
{
	struct rpc_batch b = { 0 };
	struct err e = { 0 };
	int r = rpc_parse(&b, text, strlen(text), &e);

	rpc_batch_done(&b);
	return r;
}

static void messages(void)
{
	static const char all[] =
		"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":{}}"
		","
		"{\"jsonrpc\":\"2.0\",\"method\":\"b\"},"
		"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":null},"
		"{\"jsonrpc\":\"2.0\",\"id\":2.5,\"error\":{}}]";
	struct rpc_batch b = { 0 };
	struct err e = { 0 };

	CHECK(rpc_parse(&b, all, strlen(all), &e) == 0);
	CHECK(b.is_batch && b.n == 4);
	CHECK(b.msg[0].kind == RPC_REQUEST && b.msg[0].params);
	CHECK(b.msg[1].kind == RPC_NOTIFICATION && !b.msg[1].params);
	CHECK(b.msg[2].kind == RPC_ANSWER && b.msg[2].result);
	CHECK(b.msg[3].kind == RPC_ANSWER && b.msg[3].error);
	rpc_batch_done(&b);
	CHECK(parse("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}") == 0);
	CHECK(parse("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\","
		    "\"params\":null}") == 0);
	CHECK(parse("") == RPC_NOT_JSON);
	CHECK(parse("[]") == RPC_BAD_REQUEST);
	CHECK(parse("[1]") == RPC_BAD_REQUEST);
	CHECK(parse("{\"jsonrpc\":\"2.0\",\"id\":1}") == RPC_BAD_REQUEST);
	CHECK(parse("{\"jsonrpc\":\"2.0\",\"result\":1}") == RPC_BAD_REQUEST);
	CHECK(parse("{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":1,\"method\":"
		    "\"a\"}") == RPC_NOT_JSON);
}

static const char schema_text[] =
	"{\"type\": \"object\", \"properties\": {"
	"\"path\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 3}, "
	"\"n\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 9}, "
	"\"how\": {\"enum\": [\"a\", \"b\"]}, "
	"\"any\": {\"type\": [\"string\", \"boolean\"]}, "
	"\"argv\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}, "
	"\"minItems\": 1, \"maxItems\": 2}, "
	"\"env\": {\"type\": \"object\", \"additionalProperties\": {\"type\": "
	"\"string\"}}, "
	"\"free\": {\"type\": \"object\", \"additionalProperties\": true}}, "
	"\"required\": [\"path\"]}";

/* The words of the refusal; "" when it is taken. */
static const char *refusal(const char *args)
{
	static struct err e;
	json_t *schema = json_loads(schema_text, 0, NULL);
	json_t *j = json_loads(args, JSON_DECODE_ANY, NULL);

	err_clear(&e);
	CHECK(schema && j);
	CHECK(mcp_args_check(schema, j, &e) == -e.code);
	json_decref(schema);
	json_decref(j);
	return e.msg;
}

static void arguments(void)
{
	static const char *const good[] = {
		"{\"path\": \"x\"}",
		"{\"path\": \"\\u00e4\\u00f6\\u00fc\"}",
		"{\"path\": \"x\", \"n\": 9, \"how\": \"b\", \"any\": true}",
		"{\"path\": \"x\", \"n\": 2.0, \"argv\": [\"a\", \"b\"]}",
		"{\"path\": \"x\", \"env\": {\"A\": \"1\"}}",
		"{\"path\": \"x\", \"free\": {\"A\": [1, {}]}}",
	};
	static const struct {
		const char *args, *words;
	} bad[] = {
		{ "[]", "arguments: object is wanted, this is array" },
		{ "{}", "arguments: 'path' is missing" },
		{ "{\"path\": 1}", "path: string is wanted, this is integer" },
		{ "{\"path\": \"\"}", "too short" },
		{ "{\"path\": \"abcd\"}", "too long" },
		{ "{\"path\": \"x\", \"n\": 0}", "n: the least is 1" },
		{ "{\"path\": \"x\", \"n\": 10}", "n: the most is 9" },
		{ "{\"path\": \"x\", \"n\": 2.5}",
		  "n: integer is wanted, this is number" },
		{ "{\"path\": \"x\", \"n\": \"2\"}", "this is string" },
		{ "{\"path\": \"x\", \"n\": null}", "this is null" },
		{ "{\"path\": \"x\", \"how\": \"c\"}",
		  "how: it is one of [\"a\",\"b\"]" },
		{ "{\"path\": \"x\", \"any\": 1}",
		  "any: string or boolean is wanted" },
		{ "{\"path\": \"x\", \"argv\": []}", "argv: it is too short" },
		{ "{\"path\": \"x\", \"argv\": [\"a\", 1]}", "argv.1: string" },
		{ "{\"path\": \"x\", \"env\": {\"A\": 1}}", "env.A: string" },
		{ "{\"pat\": \"x\", \"path\": \"x\"}",
		  "arguments: there is no 'pat', there is: path, n, how" },
	};
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CHECK_STR(refusal(good[i]), "");
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(strstr(refusal(bad[i].args), bad[i].words));
}

int main(void)
{
	messages();
	arguments();
	return CHECK_DONE();
}
