#include "api/mcp/rpc.h"

#include <errno.h>
#include <string.h>

#include "api/json_bounds.h"

static int bad(struct err *e, const char *why)
{
	err_set(e, EINVAL, "%s", why);
	return RPC_BAD_REQUEST;
}

static bool is_id(const json_t *id)
{
	return json_is_number(id) ||
	       (json_is_string(id) && json_string_length(id) <= RPC_ID_MAX);
}

static int take_answer(struct rpc_message *m, const json_t *j, struct err *e)
{
	m->kind = RPC_ANSWER;
	m->result = json_object_get(j, "result");
	m->error = json_object_get(j, "error");
	/* One that could not be related to a request has no id to go by. */
	if (!m->id || !m->result == !m->error)
		return bad(e, "neither a request nor an answer: 'method', or "
			      "'id' and one of 'result' and 'error' is needed");
	if (m->error && !json_is_object(m->error))
		return bad(e, "'error' is not an object");
	return 0;
}

static int take(struct rpc_message *m, json_t *j, struct err *e)
{
	const json_t *version = json_object_get(j, "jsonrpc");
	const json_t *method = json_object_get(j, "method");

	if (!json_is_object(j))
		return bad(e, "a message is not an object");
	if (!json_is_string(version) ||
	    strcmp(json_string_value(version), "2.0") != 0)
		return bad(e, "'jsonrpc' is not \"2.0\"");
	m->id = json_object_get(j, "id");
	if (m->id && !is_id(m->id))
		return bad(e, "'id' is neither a number nor a string of at "
			      "most 256 bytes");
	if (!method)
		return take_answer(m, j, e);
	if (!json_is_string(method))
		return bad(e, "'method' is not a string");
	m->kind = m->id ? RPC_REQUEST : RPC_NOTIFICATION;
	m->method = json_string_value(method);
	m->params = json_object_get(j, "params");
	if (json_is_null(m->params))
		m->params = NULL; /* as some libraries write "none" */
	if (m->params && !json_is_object(m->params))
		return bad(e, "'params' is not an object");
	return 0;
}

static int take_all(struct rpc_batch *b, struct err *e)
{
	size_t i;
	int r = 0;

	b->is_batch = json_is_array(b->root);
	b->n = b->is_batch ? json_array_size(b->root) : 1;
	if (b->n == 0 || b->n > RPC_BATCH_MAX) {
		b->n = 0;
		return bad(e, "a batch has 1 to 32 messages");
	}
	for (i = 0; r == 0 && i < b->n; i++)
		r = take(&b->msg[i],
			 b->is_batch ? json_array_get(b->root, i) : b->root, e);
	return r;
}

int rpc_parse(struct rpc_batch *b, const char *p, size_t n, struct err *e)
{
	size_t values = 0;
	const char *bad_json =
		json_beyond(p, n, RPC_DEPTH_MAX, RPC_VALUES_MAX, &values);
	json_error_t why;

	if (bad_json) {
		err_set(e, EINVAL, "%s", bad_json);
		return RPC_NOT_JSON;
	}
	b->size = n + values * RPC_VALUE_BYTES;
	b->root = json_loadb(p, n, JSON_REJECT_DUPLICATES, &why);
	if (!b->root) {
		err_set(e, EINVAL, "not JSON: line %d: %.150s", why.line,
			why.text);
		return RPC_NOT_JSON;
	}
	return take_all(b, e);
}

void rpc_batch_done(struct rpc_batch *b)
{
	json_decref(b->root);
	b->root = NULL;
	b->n = 0;
}

json_t *rpc_result(json_t *id, json_t *result)
{
	return json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id,
			 "result", result);
}

json_t *rpc_error(json_t *id, int code, const char *msg)
{
	json_t *text = json_string(msg);

	if (!text)
		text = json_string("the reason is not UTF-8");
	return json_pack("{s:s, s:O?, s:{s:i, s:o}}", "jsonrpc", "2.0", "id",
			 id, "error", "code", code, "message", text);
}

json_t *rpc_notification(const char *method, json_t *params)
{
	return json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", method,
			 "params", params);
}

json_t *rpc_request(json_int_t id, const char *method, json_t *params)
{
	return json_pack("{s:s, s:I, s:s, s:o}", "jsonrpc", "2.0", "id", id,
			 "method", method, "params", params);
}
