/*
 * Templates: what the E2B SDKs make sandboxes from. A template is a name of a
 * project with builds; a build that is ready is a snapshot of the disk it was
 * built on, and what its sandboxes are made with. Tags are names for builds.
 *
 *	template.c	the table and its rows
 *	template_name.c	"[namespace/]alias[:tag]"
 *	template_spec.c	what a create asks for, in our own words
 *	h_template.c	requests
 *	build*.c	how a build is made
 *
 * Snapshots, and not images: a snapshot belongs to its project, counts for
 * its disk, and is made with the rights of who may make sandboxes. Images are
 * everybody's, and the operator's to make.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/call.h"
#include "base/err.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/str.h"

struct api;
struct build_work;

enum {
	TEMPLATE_NAME_CAP = 128,
	TEMPLATE_TAG_CAP = 64,
	BUILD_ID_CAP = 37, /* a UUID */
	TEMPLATES_PROJECT_MAX = 256,
	TEMPLATE_BUILDS_MAX = 32, /* kept of one template */
	TEMPLATE_TAGS_MAX = 64,
};

#define TEMPLATE_TAG "default"
/* Names of the snapshots that builds are start with this. */
#define TEMPLATE_SNAPSHOT "template-"

/* --- for creates --- */

/* What a templateID turned out to be. Zero-initialise. */
struct e2b_template {
	char id[TEMPLATE_NAME_CAP];    /* to be told as templateID */
	char alias[TEMPLATE_NAME_CAP]; /* "": none */
	char *ready; /* a line for the shell that says when it is; or NULL */
};

/*
 * Puts what the template says into `spec`, a native spec that is empty yet:
 * "image" or "snapshot", and what it adds (env, user, workdir, start, cpus,
 * memory). With a snapshot all that belongs to the snapshot's own sandbox
 * (rules, labels, volumes...) is set to nothing: what the new one is to have
 * is said afterwards. ENOENT: nothing has this name.
 *
 * `ref` is "base" or "" (the default image), a template by its id, by
 * "[namespace/]alias[:tag]" or by the id of a build, one of the images that
 * E2B's SDKs expect ("code-interpreter-v1", "desktop"), or an image or a
 * snapshot of ours.
 */
int e2b_template_image(struct api *a, const struct identity *who,
		       const char *ref, json_t *spec, struct e2b_template *out,
		       struct err *e) MUST_CHECK;
void e2b_template_done(struct e2b_template *t);
/* Processors, memory and disk that a build's `about` asks for. */
void template_limits(const struct api *a, const json_t *about, json_t *spec);

/* --- names --- */

struct template_name {
	char namespace[NAME_CAP]; /* "": none */
	char alias[TEMPLATE_NAME_CAP];
	char tag[TEMPLATE_TAG_CAP]; /* "": none */
};

/* 0 or -EINVAL. Capitals of the alias become small. */
int template_name_parse(const char *text, struct template_name *n) MUST_CHECK;
/* 1 to 63 of a-z, 0-9, '-', '_' and '.', and no UUID. */
bool template_tag_valid(const char *s);
/* Is it written like the id of a build? */
bool is_uuid(const char *s);

/* Is this snapshot the disk of a build? */
bool templates_need(struct api *a, const char *snapshot);

/* --- the table --- */

enum build_state {
	BUILD_WAITING,
	BUILD_BUILDING,
	BUILD_READY,
	BUILD_ERROR,
	BUILD_STATES
};
const char *build_state_name(enum build_state s);

struct template
{
	struct list node;
	char id[ID_CAP];
	char project[NAME_CAP];
	char name[TEMPLATE_NAME_CAP];
	json_t *tags; /* {tag: {"build": id, "created_ms": N}} */
	uint64_t created_ms, updated_ms;
	struct list builds; /* the oldest first */
	unsigned n_builds;
};

struct build {
	struct list node;
	struct template *of;
	char id[BUILD_ID_CAP];
	char snapshot[ID_CAP]; /* "": none */
	enum build_state state;
	/*
	 * "env", "workdir", "user", "start", "ready", "cpus", "memory_mb",
	 * "disk_mb",
	 * "tags" (to be set when it is ready), "reason" ({"step", "message"}),
	 * "box" (the sandbox that it is made in).
	 */
	json_t *about;
	json_t *log; /* entries; NULL: they were not kept */
	size_t log_bytes;
	uint64_t created_ms, finished_ms;
	struct build_work *work; /* NULL: nothing is under way */
};

struct templates {
	struct list all;
	struct list works; /* builds under way */
	struct list steps; /* disks behind steps: build_cache.c */
	struct list files; /* archives that clients sent: build.h */
	struct timer files_late;
	uint64_t file_bytes, put_bytes;
	unsigned n_files; /* there */
};

/* Builds that were under way have failed. */
int templates_load(struct api *a, struct err *e) MUST_CHECK;

/* By id, or name (of its own project, or the namespace); ENOENT. */
struct template *template_find(struct api *a, const struct identity *who,
			       const char *ref, struct err *e);
struct build *build_find(const struct template *t, const char *id);
/* The build of a tag ("": the usual one), or NULL. */
struct build *template_tagged(const struct template *t, const char *tag);
/* The one of that name and project, made when it is not there. */
struct template *template_get(struct api *a, const char *project,
			      const char *name, struct err *e);
/* A new build, waiting. Old ones that have no tag make room. Takes `about`. */
struct build *build_add(struct api *a, struct template *t, json_t *about,
			struct err *e);
/* Writes its row. */
int build_save(struct api *a, const struct build *b, struct err *e) MUST_CHECK;
int template_save(struct api *a, struct template *t, struct err *e) MUST_CHECK;
/* Its snapshot goes with it; nothing is under way. */
void build_drop(struct api *a, struct build *b);
void template_drop(struct api *a, struct template *t);
/* Sets a tag; not on disk yet. EUSERS: too many. */
int template_tag(struct template *t, const char *tag, const struct build *b,
		 struct err *e) MUST_CHECK;
