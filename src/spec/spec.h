/*
 * The spec of a sandbox: what a user may ask for. One table drives the JSON
 * of the API, the options of the command line, --help and the documentation.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/opt.h"
#include "base/str.h"

enum {
	SPEC_IMAGE_CAP = 64,
	SPEC_USER_CAP = 64,
	SPEC_PATH_CAP = 512,
	SPEC_ENV_MAX = 64,
	SPEC_ENV_BYTES = 32 * 1024,
	SPEC_LABELS_MAX = 32,
	SPEC_LABEL_CAP = 256, /* a label's value with its NUL */
	SPEC_PORTS_MAX = 32,
	SPEC_START_MAX = 16,
	SPEC_DRIVE_MAX = 16,
	SPEC_RULES_MAX = 256,
	SPEC_RULES_BYTES = 32 * 1024,
	SPEC_LATE_MAX = 64,
	SPEC_LATE_BYTES = 7 * 1024,
	SPEC_ALLOW_MAX = 8,
	SPEC_SECRETS_MAX = 16,
	SPEC_VOLUMES_MAX = 4,
	SPEC_START_BYTES = 8 * 1024, /* a command */
	SPEC_FILES_MAX = 64,
	SPEC_FILES_BYTES = 192 * 1024, /* of all together */
	SPEC_CLIENT_BYTES = 16 * 1024, /* as text */
};

/* Zero-initialise; spec_done() and spec_move() know what is owned. */
struct spec {
	char image[SPEC_IMAGE_CAP]; /* name or id; "": the default */
	char name[NAME_CAP];        /* "": none */
	uint64_t cpus_milli, mem_bytes, disk_bytes, pids;
	uint64_t nofile;     /* open files of a process; 0: the usual */
	uint64_t timeout_ms; /* 0: none; so are the next three */
	uint64_t idle_ms;
	uint64_t cpu_budget_ms;   /* processor time */
	uint64_t output_limit;    /* bytes, of all processes */
	char auto_snapshot[16];   /* "none" or "exec" */
	uint64_t snapshot_keep;   /* how many of those stay */
	char tier[16];            /* "container" or "microvm" */
	char idle_action[16];     /* "remove" or "pause" */
	char timeout_action[16];  /* the same, or "suspend" */
	uint64_t sudo;            /* 0 or 1 */
	uint64_t persist;         /* 0 or 1: its disk outlives its processes */
	char policy[NAME_CAP];    /* of its project; "": none */
	uint64_t observe;         /* 0 or 1: what no rule allows passes */
	char allow_missing[32];   /* "" or "disk" */
	char user[SPEC_USER_CAP]; /* of its processes; "": the usual ones */
	char workdir[SPEC_PATH_CAP];
	/* Owned, or NULL. */
	json_t *env;     /* object of strings */
	json_t *labels;  /* object of strings */
	json_t *ports;   /* object: names to numbers */
	json_t *start;   /* array of strings: commands for a shell */
	json_t *files;   /* array of objects; NULL once they are written */
	json_t *drive;   /* array of strings: spec/grant.h */
	json_t *volumes; /* array of strings: spec/mount.h */
	/* What it may reach, arrays of strings: presets, lines of policy of
	 * its own in front of all others and behind them, secrets of its
	 * project, variables with false secrets. */
	json_t *allow, *rules, *late_rules, *secrets, *canaries;
	json_t *client; /* object: what clients keep with it, not looked at */
};

/* Does it say that there is a way out? Else there is none. */
static inline bool spec_has_door(const struct spec *s)
{
	return *s->policy || s->observe || json_array_size(s->allow) > 0 ||
	       json_array_size(s->rules) > 0 ||
	       json_array_size(s->late_rules) > 0;
}

/* Adds the canaries of the sandbox or snapshot that this one starts from. */
int spec_inherit_canaries(struct spec *s, const json_t *had,
			  struct err *e) MUST_CHECK;

/* Does it have a kernel of its own? */
static inline bool spec_is_vm(const struct spec *s)
{
	return strcmp(s->tier, "microvm") == 0;
}

enum spec_kind {
	SPEC_TEXT,
	SPEC_NUMBER,
	SPEC_SIZE,
	SPEC_MILLI,
	SPEC_TIME,
	SPEC_BOOL,
	SPEC_MAP,    /* object of strings; option NAME=VALUE, several times */
	SPEC_PORTS,  /* object of numbers; option NAME=NUMBER, several times */
	SPEC_LIST,   /* array of strings; option VALUE, several times */
	SPEC_FILES,  /* array of objects; option PATH=FILE, several times */
	SPEC_OBJECT, /* object, replaced as a whole; no option */
};

enum spec_flags {
	SPEC_PATCH = 1,   /* may be changed while it lives */
	SPEC_PROCESS = 2, /* a default of its processes, which may say it too */
	SPEC_START = 4,   /* for the start alone: not kept, not shown */
	SPEC_ON = 8,      /* a bool that is on unless --no-NAME is given */
	SPEC_COMMAS = 16, /* a list whose option takes several, with commas */
};

struct spec_field {
	const char *name;   /* JSON key */
	const char *option; /* of the command line; NULL: the name */
	enum spec_kind kind;
	unsigned flags;
	size_t at, cap;
	uint64_t min, max;
	/* What is more than bounds; NULL: nothing. */
	int (*check)(const json_t *v, struct err *e);
	const char *arg, *help;
};

extern const struct spec_field spec_fields[]; /* ends at name NULL */

/* For what was kept: what a row does not say yet was so when it was written. */
void spec_kept(struct spec *s, const struct conf *c);
void spec_defaults(struct spec *s, const struct conf *c);
void spec_done(struct spec *s);
/* `from` has nothing of its own afterwards. */
void spec_move(struct spec *to, struct spec *from);
/*
 * From a JSON object: an unknown key, a wrong type or a value out of bounds is
 * an error that names the key. Keys that are missing keep what `s` has.
 * Sizes are bytes or "512M", times seconds or "1h", cpus 0.5 or "0.5".
 */
int spec_from_json(struct spec *s, const json_t *j, struct err *e) MUST_CHECK;
/*
 * The same for a change: only what has SPEC_PATCH. Labels are added to those
 * there are; null removes one. `s` may be left half-changed on failure.
 */
int spec_patch(struct spec *s, const json_t *j, struct err *e) MUST_CHECK;
/* A copy, whose parts can be changed without the other's. */
void spec_copy(struct spec *to, const struct spec *from);
/* All that is kept; a new reference. */
json_t *spec_to_json(const struct spec *s);
/* Bounds, names. spec_from_json() calls it. */
int spec_check(const struct spec *s, struct err *e) MUST_CHECK;
