/*
 * Calls to the daemon. All of them exit with a one-line message when the
 * daemon cannot be reached, or (unless said otherwise) when it refuses.
 */
#pragma once

#include "cli/cli.h"
#include "http/client.h"

enum {
	ANSWER_MAX = 64 * 1024 * 1024, /* 2,000 sandboxes are about 2 MiB */
	MESSAGE_CAP = 512,
	TARGET_CAP = 512,
};

/* "/v1/images/" and `word` percent-encoded; exits when it is too long. */
void server_target(struct cli *cli, char out[TARGET_CAP], const char *prefix,
		   const char *word);

/* Connects, or says how to start the daemon or which group to join. */
void server_open(struct cli *cli, struct http_client *c);
/* The same, but comes back with what would have been said. */
bool server_try(struct cli *cli, struct http_client *c, char why[MESSAGE_CAP]);

/*
 * One call with an optional JSON body; the status. `out` is the JSON of the
 * answer (a new reference) or NULL when there is none.
 */
int server_call(struct cli *cli, struct http_client *c,
		const struct http_call *call, json_t **out);
/* What a refusal says: its "message", or its status in words. */
void server_message(int status, const json_t *answer, char out[MESSAGE_CAP]);
/* server_call() of its own connection; exits when the status is not 2xx. */
json_t *server_get(struct cli *cli, const char *method, const char *target,
		   const struct buf *body);
/*
 * All entries of a list that comes in pages, which the answers have as `key`;
 * `target` is encoded. Exits when one of them is refused.
 */
json_t *server_list(struct cli *cli, const char *target, const char *key);
/* The answer to a call that was sent: JSON or NULL, and the status. */
int server_answer(struct cli *cli, struct http_client *c, json_t **out);
/*
 * DELETE of prefix + each of `refs`; goes on after a refusal. The exit code:
 * 0 when all are gone.
 */
int remove_each(struct cli *cli, const char *prefix, int n, char **refs);
/* The same with a query ("?x=y") behind each. */
int remove_each_with(struct cli *cli, const char *prefix, const char *query,
		     int n, char **refs);
