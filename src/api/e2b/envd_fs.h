/*
 * Files of a sandbox, as clients of its port 49983 ask for them: each request
 * becomes native ones (api/h_file.c). In their world all file work is root's,
 * done for the user who is named, whose then is what was made. So it is here
 * where the sandbox has a sudo; where not, the user does what the user may.
 *
 *	envd_fs_native.c	who asks, paths, entries, errors
 *	envd_fs.c		single calls
 *	envd_fs_list.c		lists, a page after the other
 *	envd_fs_watch.c		events, and the stream of them
 *	envd_fs_poll.c		events that are fetched
 *	envd_file.c		content that is read
 *	envd_file_put.c		content that is written
 */
#pragma once

#include <jansson.h>

#include "api/e2b/e2b.h"
#include "api/inner.h"
#include "base/buf.h"
#include "wire/file.h"

#define ENVD_ATTRIBUTE "user.e2b." /* of what they call metadata */

struct envd_fs {
	struct api *api;
	char box[ID_CAP];
	struct identity who;
	char request_id[HTTP_REQUEST_ID];
	char user[FILE_NAME_MAX + 1]; /* "": the usual one */
	bool as_root;
};

void envd_fs_init(struct envd_fs *f, struct api *a, struct http_conn *c,
		  const struct envd_call *call);

/*
 * A path of theirs as one of ours, with a NUL: "~" and what is relative start
 * in the home of the user.
 */
int envd_path(const char *given, struct buf *path, struct err *e) MUST_CHECK;
/* Appends "/v1/sandboxes/ID/files/WHAT?path=...", and who asks. */
void envd_fs_target(const struct envd_fs *f, struct buf *b, const char *what,
		    const char *path);
/* The body of a native change; `to` may be NULL. */
json_t *envd_fs_body(const struct envd_fs *f, const char *path, const char *to);

/* EntryInfo of a native entry that has details. */
json_t *envd_entry(const json_t *entry);
/* Its {"key": "value"} of the attributes above; NULL: it has none. */
json_t *envd_metadata(const json_t *entry);

/* What became of a native request, as an error of theirs. */
struct envd_error {
	const char *word; /* of Connect */
	int status;       /* of plain HTTP */
	char msg[256];
};
void envd_fs_error(const struct envd_fs *f, int status, const json_t *answer,
		   struct envd_error *out);

/* --- single calls --- */

/* One call of filesystem.Filesystem: the owner of its request. */
struct fs_call {
	struct envd_fs fs;
	struct http_conn *conn;
	json_t *message; /* what was asked */
	struct buf path;
	void (*start)(struct fs_call *q);

	/* Private to those who ask. */
	struct inner_ask ask;
	uint64_t depth; /* of a list */
	char *after;    /* the native name of its last entry, or NULL */
	bool begun;     /* to answer: an error can only cut it */
	struct deferred gone;
};

/* Reads the message and its path, and starts it. */
void fs_call_read(struct api *a, struct http_conn *c,
		  const struct envd_call *call,
		  void (*start)(struct fs_call *q));
void fs_call_end(struct fs_call *q);
/* These answer, and end it. */
void fs_call_reply(struct fs_call *q, json_t *answer);
void fs_call_fail(struct fs_call *q, const char *word, const char *msg);
void fs_call_error(struct fs_call *q, int status, const json_t *answer);
/* A native request; `body` is taken and may be NULL. */
void fs_call_ask(struct fs_call *q, const char *method, const char *target,
		 json_t *body,
		 void (*done)(struct inner_ask *a, int status, json_t *answer));

envd_fn envd_list_dir, envd_watch_dir, envd_create_watcher, envd_watcher_events,
	envd_remove_watcher, envd_file_put;

/* --- events --- */

struct fs_watch;

struct fs_watch_ops {
	/* What happens from now on is told. */
	void (*ready)(struct fs_watch *w);
	/* A FilesystemEvent; takes the reference. */
	void (*event)(struct fs_watch *w, json_t *event);
	/* The last one. `e` NULL: there is nothing left to watch. */
	void (*ended)(struct fs_watch *w, const struct envd_error *e);
};

/*
 * Zero-initialise, and set `ops` and `fs`. After ended(), or fs_watch_close(),
 * no callback comes; the memory is the owner's after this turn of the loop.
 */
struct fs_watch {
	const struct fs_watch_ops *ops;
	struct envd_fs fs;

	/* Private. */
	struct inner in;
	struct buf line;
	char *top; /* the directory, as it is told; NULL: not ready */
	bool with_entries;
	size_t event_n; /* bytes of the native event at hand */
};

int fs_watch_start(struct fs_watch *w, const json_t *message,
		   struct err *e) MUST_CHECK;
/* No more events until false is said. */
void fs_watch_hold(struct fs_watch *w, bool hold);
void fs_watch_close(struct fs_watch *w);
