/*
 * Sessions: who came, with which wishes, and the sandbox that was made for
 * them. Private to mcp/.
 *
 * A session belongs to the identity that began it; to everybody else it does
 * not exist. It ends by DELETE, or when nobody has had to do with it for
 * `mcp_idle`; its sandbox is then removed, paused or kept, as was asked for.
 * One that was named (?sandbox=) is its owner's, and is left alone.
 *
 * Sessions live in memory; the name and labels of their sandbox tell whose it
 * is. After a restart of this role they are found again by them: each waits for
 * its client to come back, and ends in its time if it does not.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/call.h"
#include "api/inner.h"
#include "api/mcp/mcp.h"
#include "base/list.h"
#include "base/loop.h"
#include "spec/spec.h"

struct http_conn;
struct http_head;
struct sandbox;

enum {
	MCP_PROJECT_MAX = 256,               /* sessions of a project */
	MCP_KEPT_MAX = 1024 * 1024,          /* of events, of a session */
	MCP_KEPT_MIN = 16 * 1024,            /* ... however much others have */
	MCP_KEPT_ALL_MAX = 64 * 1024 * 1024, /* ... and of all */
	MCP_BODIES_MAX = 128 * 1024 * 1024,  /* of messages that come in */
	/* For messages whose calls are under way: of a session, and of all.
	 * Small ones are bounded by how many calls there are. */
	MCP_HELD_MAX = 32 * 1024 * 1024,
	MCP_HELD_ALL_MAX = 256 * 1024 * 1024,
	MCP_SMALL = 16 * 1024,
};

/* In the order of their age. */
enum mcp_version {
	MCP_2024_11_05,
	MCP_2025_03_26,
	MCP_2025_06_18,
	MCP_2025_11_25,
	MCP_VERSIONS
};
const char *mcp_version_text(enum mcp_version v);
/* -1: none of ours. */
int mcp_version_of(const char *text);

/* What becomes of the sandbox that was made for a session. */
enum mcp_keep { MCP_REMOVE, MCP_PAUSE, MCP_KEEP };
/* "no", "pause", "yes". */
const char *mcp_keep_text(enum mcp_keep keep);
int mcp_keep_of(const char *text, enum mcp_keep *keep) MUST_CHECK;

struct mcp_wishes {
	char image[SPEC_IMAGE_CAP], policy[NAME_CAP]; /* "": the usual */
	char sandbox[CALL_ARG_CAP];                   /* "": a new one */
	enum mcp_keep keep;
};

/* The parameters of /mcp; what is not one of them is refused. */
int mcp_wishes_read(struct mcp_wishes *w, const struct http_head *h,
		    struct err *e) MUST_CHECK;

enum {
	/* Sandboxes that end with a session. Each call that is under way may
	 * add one to those that it has. */
	MCP_BOXES_MAX = 16 + MCP_CALLS_MAX,
};

struct mcp_box {
	char id[ID_CAP]; /* that calls work in; "": none yet */
	char ours[MCP_BOXES_MAX][ID_CAP];
	unsigned n_ours;
	bool making;
	struct inner_ask ask;
	struct list waiters; /* struct mcp_call */
	struct timer ready;  /* they are told */
};

struct mcp_session {
	struct list node;
	struct api *api;
	char id[ID_CAP];
	struct identity who;
	enum mcp_version version;
	struct mcp_wishes wishes;
	unsigned log_level; /* messages below it are not sent */
	bool can_sample, can_elicit;
	char client[64]; /* what it calls itself, or "" */
	struct mcp_box box;
	struct list calls, streams, asks;
	unsigned n_calls, n_streams; /* the latter: that were ever begun */
	uint64_t n_asks;
	size_t kept; /* bytes of events */
	size_t held; /* ... and of messages whose calls are under way */
	struct share *place;
	uint64_t touched_ms;
	struct timer idle;
	struct deferred bury;
};

/* Of the api role. */
struct mcp {
	struct list sessions;
	size_t kept;   /* bytes of events */
	json_t *tools; /* as tools/list shows them; NULL before the first */
};

void mcp_init(struct api *a);

/* EUSERS: too many. Takes the content of `w`. */
struct mcp_session *mcp_session_new(struct api *a, const struct identity *who,
				    const struct mcp_wishes *w, struct err *e);
/* The one with this id, if it is this identity's. `v` counts when it was found
 * again. */
struct mcp_session *mcp_session_find(struct api *a, const struct identity *who,
				     const char *id, enum mcp_version v);
void mcp_session_touch(struct mcp_session *s);
/*
 * Stops all calls and ends all streams; the sandbox is dealt with. `c` (may be
 * NULL) is answered with 204 when that is done.
 */
void mcp_session_end(struct mcp_session *s, struct http_conn *c);

/* --- box.c --- */

void mcp_box_init(struct mcp_session *s);
/* Looks for those that were made before a restart, once they are known. */
void mcp_boxes_find(struct api *a);
/* ... and this one is of the session with that id. */
void mcp_found_box(struct api *a, const struct sandbox *box, const char *id);
void mcp_box_adopt(struct mcp_session *s, const struct sandbox *box);
/* The call does not wait any more. */
void mcp_box_forget(struct mcp_call *c);
void mcp_box_leave(struct mcp_session *s, struct http_conn *c);

/* --- methods.c --- */

/* Starts what a request asks for; the stream hears of its end. */
void mcp_start(struct mcp_stream *st, json_t *id, const char *method,
	       json_t *params);
/* A notification of the client's. */
void mcp_notified(struct mcp_session *s, const char *method,
		  const json_t *params);
/* The client's answer to mcp_ask(). */
void mcp_answered(struct mcp_session *s, const json_t *id, const json_t *result,
		  const json_t *error);
/* The answer to `initialize`; sets the session's version. */
json_t *mcp_initialize(struct mcp_session *s, const json_t *params);
/* Ends it without an answer: stop(). */
void mcp_drop(struct mcp_call *c);

/* --- tools.c --- */

void mcp_tools_list(struct mcp_call *c, const json_t *params);
void mcp_tools_call(struct mcp_call *c, const json_t *params);

/* --- what only some clients know --- */

enum { MCP_INFO = 1, MCP_LEVELS = 8 };
/* A message for the client's log, while a call is under way. */
void mcp_log(struct mcp_call *c, unsigned level, const char *text);
/*
 * Asks the client something, while a call is under way. `done` gets its answer
 * (one of the two is not NULL), from the loop; none comes when the call ends
 * first. Takes `params`. False: it cannot be asked.
 */
typedef void mcp_ask_fn(struct mcp_call *c, const json_t *result,
			const json_t *error);
bool mcp_ask(struct mcp_call *c, const char *method, json_t *params,
	     mcp_ask_fn *done);
