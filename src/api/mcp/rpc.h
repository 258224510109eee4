/*
 * JSON-RPC 2.0 as MCP uses it: bytes in, messages out. Pure functions, no
 * state; every byte may come from an attacker.
 *
 * Refused: what is not JSON, names that are given twice, deep nesting, very
 * many values, ids that are null or neither a string nor a number, params that
 * are no object, answers with both a result and an error.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum {
	RPC_DEPTH_MAX = 64,
	RPC_BATCH_MAX = 32,
	RPC_ID_MAX = 256, /* bytes of an id that is a string */
	RPC_VALUES_MAX = 64 * 1024,
	RPC_VALUE_BYTES = 128, /* about what one takes in memory */
};

/* What JSON-RPC calls errors. */
enum rpc_code {
	RPC_NOT_JSON = -32700,
	RPC_BAD_REQUEST = -32600,
	RPC_NO_METHOD = -32601,
	RPC_BAD_PARAMS = -32602,
	RPC_FAILED = -32603,
	RPC_NOT_FOUND = -32002, /* MCP: no such resource */
	RPC_REFUSED = -32000,   /* ours: not now, or not here */
	RPC_CANCELLED = -32800,
};

enum rpc_kind { RPC_REQUEST, RPC_NOTIFICATION, RPC_ANSWER };

/* All point into the batch. */
struct rpc_message {
	enum rpc_kind kind;
	const char *method;           /* not of answers */
	json_t *id;                   /* not of notifications */
	json_t *params;               /* an object, or NULL */
	const json_t *result, *error; /* of answers: one of them */
};

struct rpc_batch {
	json_t *root;
	bool is_batch; /* it came as an array */
	size_t size;   /* about what it takes in memory */
	size_t n;
	struct rpc_message msg[RPC_BATCH_MAX];
};

/* 0, or a negative rpc_code with words in `e`. Zero-initialise `b`. */
int rpc_parse(struct rpc_batch *b, const char *p, size_t n,
	      struct err *e) MUST_CHECK;
void rpc_batch_done(struct rpc_batch *b);

/* Messages of ours; all references are taken, but that of `id`. */
json_t *rpc_result(json_t *id, json_t *result);
/* `id` may be NULL: it is not known which request it was. */
json_t *rpc_error(json_t *id, int code, const char *msg);
json_t *rpc_notification(const char *method, json_t *params);
json_t *rpc_request(json_int_t id, const char *method, json_t *params);
