/*
 * How a build of a template is made: a sandbox from what it starts with, and
 * in it one step after the other, all of it native requests with the rights of
 * who asked for the build. Its disk becomes a snapshot; the sandbox goes
 * however the build ends.
 *
 *	build.c		a build from its start to its end
 *	build_base.c	what it starts with, and its sandbox
 *	build_step.c	RUN, COPY, WORKDIR, USER, ENV
 *	build_end.c	the snapshot; the start command and when it is ready
 *	build_run.c	one process of the sandbox, its output into the log
 *	build_log.c	the log of a build
 *	build_file.c	archives that clients sent for COPY
 *	build_cache.c	disks behind steps, for the next build
 *
 * Nothing of a build survives a restart: it has failed then.
 */
#pragma once

#include "api/e2b/template.h"
#include "api/inner.h"
#include "api/port.h"
#include "base/buf.h"
#include "base/loop.h"

enum {
	BUILDS_MAX = 8, /* under way at once */
	BUILDS_PROJECT_MAX = 4,
	BUILD_STEPS_MAX = 512,
	BUILD_TIME_S = 3600, /* all of it */
	BUILD_READY_S = 300, /* until its start command is ready */
	BUILD_LOG_MAX = 1000,
	BUILD_LOG_BYTES = 256 * 1024,
	BUILD_LOG_LINE = 2048,
	BUILD_LOGS_KEPT = 32, /* of builds that are over */
	BUILD_USER_CAP = 64,
	BUILD_PATH_CAP = 512,
	BUILD_TAIL = 160,
	BUILD_PIECE = 64 * 1024,
	BUILD_KEY_CAP = 65,
	BUILD_KEEP_MS = 1000,  /* of work that is worth a snapshot */
	BUILD_STEPS_KEPT = 32, /* of a project */
};

#define BUILD_LABEL "e2b.build" /* for people who look at sandboxes */

/* One process: argv ends at NULL. */
struct build_process {
	const char *const *argv;
	const char *user; /* NULL: that of the steps */
	bool quiet;       /* its output is not for the log */
	bool keep;        /* what it says on stdout is wanted: work->said */
};

struct build_work {
	struct list node;
	struct api *api;
	struct build *build;
	struct identity asker; /* who asked for it */
	struct identity who;   /* the same, in the template's project */
	char request[HTTP_REQUEST_ID];
	json_t *plan;     /* the request's body */
	char step[16];    /* "base", "1"..., "finalize" */
	size_t i;         /* of plan's steps */
	char box[ID_CAP]; /* "": none yet */

	/* build_cache.c: of what it starts with, and of all steps so far. */
	char key[BUILD_KEY_CAP];
	uint64_t kept_ms; /* CLOCK_BOOTTIME */

	/* What steps set, and processes are started with. */
	json_t *env;
	char user[BUILD_USER_CAP];
	char workdir[BUILD_PATH_CAP];

	/* What is asked now. */
	struct inner_ask ask;
	/* build_run.c */
	struct inner run;
	struct buf lines;   /* of the answer, as far as there is a whole one */
	struct buf text[2]; /* of stdout and stderr, the same */
	struct buf said;
	bool quiet, keep, over;
	int code;             /* of its exit; -1: a signal, or it never ran */
	char why[BUILD_TAIL]; /* it never ran; or "" */
	void (*ran)(struct build_work *w);
	/* COPY: what is sent into the sandbox. */
	int file_fd;
	uint64_t file_at;
	size_t arg; /* ENV: the pair that is looked at */

	bool ending;
	struct timer late;
	struct deferred gone;
};

/*
 * `plan` is the body of the request (a reference is kept). EINVAL: it makes no
 * sense; EUSERS: too many at once.
 */
int build_start(struct api *a, const struct identity *who,
		const char *request_id, struct build *b, json_t *plan,
		struct err *e) MUST_CHECK;
/* The warden is up: sandboxes of builds that nobody makes any more go. */
void builds_settle(struct api *a);
/* Is it the sandbox of a build? */
bool build_has_box(struct api *a, const char *id);

/* --- inside --- */

/* It goes on with the next step, or ends. */
void build_next(struct build_work *w);
/* It has failed, at the step that is under way. */
void build_fail(struct build_work *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* All is done. */
void build_done(struct build_work *w);

/* Asks; a failure to ask fails the build. Takes `body`. */
void build_ask(struct build_work *w, const char *method, const char *target,
	       json_t *body,
	       void (*done)(struct inner_ask *q, int status, json_t *answer));
/* "/v1/sandboxes/ID" and `rest`. */
enum { BUILD_TARGET_CAP = 256 };
const char *build_target(const struct build_work *w, const char *rest,
			 char out[BUILD_TARGET_CAP]);
void build_base(struct build_work *w);
void build_step(struct build_work *w, const json_t *step);
void build_end(struct build_work *w);
/* Are the steps such that they can be done? */
int build_check_step(const json_t *step, struct err *e) MUST_CHECK;
void build_run(struct build_work *w, const struct build_process *p,
	       void (*ran)(struct build_work *w));

/* --- disks behind steps --- */

int build_steps_load(struct api *a, struct err *e) MUST_CHECK;
/* It starts with this spec: from the disk of the last step that is there. */
void build_cache_begin(struct build_work *w, json_t *spec);
/* A step is done: keeps its disk if it took long; then the next one. */
void build_step_done(struct build_work *w);

/* --- the log --- */

void build_log(struct build *b, const char *level, const char *step,
	       const char *text, size_t n);
void build_logf(struct build_work *w, const char *level, const char *fmt, ...)
	PRINTF_LIKE(3, 4);
/* Those of builds that ended long ago go. */
void build_logs_prune(struct api *a);

/* --- archives --- */

enum {
	BUILD_HASH_CAP = 65,
	BUILD_FILES_MAX = 128,
	BUILD_PUTS_MAX = 16,
	BUILD_FILE_LIFE_S = 3600,
	BUILD_SIGN_CAP = PORT_MAC_CAP,
};
#define BUILD_FILE_BYTES (1ULL << 30)
#define BUILD_FILES_BYTES (4ULL << 30)

struct build_file {
	struct list node;
	char project[NAME_CAP];
	char hash[BUILD_HASH_CAP];
	int fd;
	uint64_t bytes;
	uint64_t until_ms; /* CLOCK_BOOTTIME */
	struct deferred gone;
};

bool build_hash_valid(const char *s);
/* NULL: there is none. One that is found stays for a while. */
struct build_file *build_file_find(struct api *a, const char *project,
				   const char *hash);
/* What a client may send for this template, until a time. */
void build_file_sign(const struct api *a, const char *template_id,
		     const char *hash, uint64_t until_s,
		     char out[BUILD_SIGN_CAP]);
handler_fn h_build_file_put;
