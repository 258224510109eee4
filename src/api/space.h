/* What a snapshot takes of the pool. */
#pragma once

struct api;
struct http_conn;
struct snapshot;

/*
 * Answers with the snapshot and "space": {"bytes", "shared", "entries"}, when a
 * worker has looked at it: what its sandbox wrote over the image, and how much
 * of that other snapshots and sandboxes have, too.
 */
void space_reply(struct api *a, struct http_conn *c, struct snapshot *snap);
