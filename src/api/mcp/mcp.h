/*
 * The Model Context Protocol at /mcp (Streamable HTTP). `carrel mcp` carries
 * the same over stdio.
 *
 *	transport.c	POST, GET and DELETE /mcp
 *	stream.c	an answer, as JSON or as events that can be resumed
 *	session.c	sessions, and how they end
 *	box.c		the sandbox of each, and what becomes of it
 *	rpc.c		JSON-RPC: bytes in, messages out
 *	methods.c	what can be asked for; requests under way
 *	tools.c		the tables of tools: list, calls
 *	args.c		their arguments, checked against their schemas
 *	tool_*.c	the tools, a group each
 *	resources.c	files and logs as resources
 *	fixture*.c	what the official conformance suite calls, if asked for
 *
 * Tools do their work with native requests (api/inner.h), as who came with
 * the session.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/call.h"
#include "base/err.h"
#include "base/list.h"
#include "base/str.h"

struct api;
struct mcp_call;
struct mcp_session;
struct mcp_stream;

enum {
	MCP_SESSIONS_MAX = 1024,
	MCP_CALLS_MAX = 16, /* at once, of a session */
	MCP_MESSAGE_MAX = 8 * 1024 * 1024,
};

/* --- a request under way --- */

struct mcp_call {
	struct api *api;
	struct mcp_session *session;
	const struct identity *who; /* the session's */
	const char *request_id;     /* of the HTTP request */
	/* The tool's own. stop(): the client cancelled it or left; whatever it
	 * started ends, nothing is answered, and the call is gone afterwards.
	 */
	void *state;
	void (*stop)(struct mcp_call *c);

	/* Private. */
	struct list node;
	json_t *id, *progress_token;
	struct mcp_stream *stream;
	struct list waiting; /* for the sandbox */
	void (*then)(struct mcp_call *c, const char *box);
};

/*
 * Exactly one of these ends a call; it is gone then (`stop` is not called).
 * All take references, none calls back.
 */
void mcp_reply(struct mcp_call *c, json_t *result);
void mcp_fail(struct mcp_call *c, int code, const char *msg); /* JSON-RPC */
/* Results of tools: an array of content, or one text. */
void mcp_content(struct mcp_call *c, json_t *content, bool is_error);
void mcp_text(struct mcp_call *c, const char *text);
/* What went wrong, in words that help a model to go on. */
void mcp_error(struct mcp_call *c, const char *fmt, ...) PRINTF_LIKE(2, 3);

static inline bool mcp_wants_progress(const struct mcp_call *c)
{
	return c->progress_token != NULL;
}
/* Told if the client asked for it; `total` 0: not known. */
void mcp_progress(struct mcp_call *c, double at, double total,
		  const char *message);

/*
 * The sandbox of the session, made if there is none yet. `then` comes from
 * the loop with its id. A failure is answered here, after stop(): what the
 * tool remembers goes. Called before other work of the tool begins.
 */
void mcp_with_box(struct mcp_call *c,
		  void (*then)(struct mcp_call *c, const char *box));
/* The one it has; NULL: none yet. For what should not make one by itself. */
const char *mcp_box(const struct mcp_session *s);
/* Another one from now on: that the model chose to go on in. It is as much the
 * session's as it was before. */
void mcp_set_box(struct mcp_session *s, const char *id);
/* May one more be made, that ends with the session? */
bool mcp_has_room(struct mcp_session *s);
/* A copy was made of one: it ends with the session, if that one does. */
void mcp_copied_box(struct mcp_session *s, const char *of, const char *id);

/* --- tables --- */

enum mcp_hints {
	MCP_READ_ONLY = 1,
	MCP_DESTRUCTIVE = 2,
	MCP_IDEMPOTENT = 4,
	MCP_OPEN_WORLD = 8
};

struct mcp_tool {
	const char *name, *title, *description;
	const char *schema; /* JSON text: of `arguments` */
	unsigned hints;
	/* `args` was checked against the schema's types and required names;
	 * a borrowed reference. */
	void (*start)(struct mcp_call *c, const json_t *args);
};

/* Each ends at a NULL name. */
extern const struct mcp_tool mcp_command_tools[], mcp_file_tools[],
	mcp_state_tools[], mcp_reach_tools[];

/* resources/list, resources/templates/list, resources/read. */
void mcp_resources_list(struct mcp_call *c, const json_t *params);
void mcp_resources_templates(struct mcp_call *c, const json_t *params);
void mcp_resources_read(struct mcp_call *c, const json_t *params);
