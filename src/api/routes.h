/*
 * The tables of requests: one per area, each beside its handlers. The rows
 * drive the dispatch, the check of scopes, and the OpenAPI document.
 */
#pragma once

#include "api/call.h"

enum route_flags {
	ROUTE_ALONE = 1, /* works without the warden */
	ROUTE_OPEN = 2,  /* needs no key */
	/* Concerns what all projects share: not for a key of one of them. */
	ROUTE_OPERATOR = 4,
	/* Also while the log is full or behind: it ends things or gives space
	 * back (the log may lack just that). Not without any record. */
	ROUTE_ANYWAY = 8,
	/* Takes the token of a port, too: the handler looks who asks. */
	ROUTE_TOKEN = 16,
	/* Needs what runs inside: a sandbox that is paused is woken first. */
	ROUTE_WAKE = 32,
	/* Starts something inside: an automatic snapshot comes first. */
	ROUTE_EXEC = 64,
	/* Another API's, translated: not in the OpenAPI document of ours. */
	ROUTE_FOREIGN = 128,
	/* Even when no record can be written: the kill switch, and to read the
	 * log. */
	ROUTE_UNLOGGED = 256,
};

/* A parameter behind the '?'. Lists end at a NULL name. */
struct route_query {
	const char *name, *type; /* "string", "integer", "boolean" */
	const char *help;
};

struct route {
	const char *method;
	/* "{x}" is one segment; a "*" at the end is all the rest. */
	const char *path;
	handler_fn *fn;
	enum scope scope;
	unsigned flags;
	const char *summary; /* one line for people */
	const struct route_query *query;
	/*
	 * Names of schemas (api/openapi.c), or media types ("application/
	 * octet-stream"); NULL: none.
	 */
	const char *body, *answer;
	int status; /* of success */
};

/* Handlers that are a file of their own. */
handler_fn h_backup, h_health, h_sandbox_delete_all, h_image_put,
	h_process_list, h_process_run, h_run_once, h_terminal, h_sandbox_update,
	h_fork, h_tree, h_recording_list, h_recording_get, h_recording_delete,
	h_drive_copy, h_access, h_policy_test;
handler_fn h_image_pull, h_image_push, h_image_export, h_image_save;
extern const struct route_query kill_all_query[];

/* Each ends at a NULL method. */
extern const struct route host_routes[], sandbox_routes[], process_routes[],
	file_routes[], port_routes[], event_routes[], image_routes[],
	key_routes[], usage_routes[], show_routes[], snapshot_routes[],
	pause_routes[], drive_routes[], volume_routes[];
extern const struct route policy_routes[], stray_routes[];
extern const struct route secret_routes[];
extern const struct route state_routes[];
extern const struct route restart_routes[], approval_routes[], grant_routes[];
extern const struct route merge_routes[], move_routes[];
/* E2B's control plane: e2b/h_*.c. */
extern const struct route e2b_sandbox_routes[], e2b_list_routes[],
	e2b_life_routes[];
extern const struct route e2b_snapshot_routes[], e2b_fork_routes[],
	e2b_metrics_routes[], e2b_logs_routes[], e2b_network_routes[],
	e2b_secret_routes[];
extern const struct route mcp_routes[];
extern const struct route e2b_build_routes[], e2b_template_routes[];
extern const struct route e2b_volume_routes[], e2b_volume_content_routes[];
/* All of them, ends at NULL. */
extern const struct route *const all_routes[];

/* http_server's on_request; `ctx` is the struct api. */
void route(struct http_conn *c, void *ctx);
