/*
 * Policies by name (policy/policy.h): what sandboxes of a project may reach.
 * Presets are policies that come with us, as files of `presets_dir`; they are
 * read at the start.
 *
 * A sandbox has several, tried in this order: what people have granted it, the
 * rules of its own spec, presets, the policy of its project that it names, its
 * late rules.
 * Nothing of them is copied: who changes a policy changes it for all that have
 * it.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "api/call.h"
#include "base/err.h"
#include "base/list.h"
#include "base/str.h"

struct api;
struct policy;
struct sandbox;
struct spec;

enum {
	POLICIES_MAX = 1024, /* of all projects */
	POLICIES_OF_PROJECT = 128,
	PRESETS_MAX = 64,
	/* So that all that a sandbox may have fits into GATE_TEXT_MAX: what
	 * people have granted, its own rules, presets, and this. */
	SAVED_POLICY_MAX = 40 * 1024,
	PRESET_TEXT_MAX = 1024,
};

struct saved_policy {
	struct list node;
	char project[NAME_CAP]; /* "": a preset */
	char name[NAME_CAP];
	char *text; /* as it was written: refusals name its lines */
	uint64_t updated_ms;
};

struct policies {
	struct list all, presets; /* struct saved_policy */
	unsigned n, n_presets;
};

int policies_load(struct api *a, struct err *e) MUST_CHECK;
struct saved_policy *policy_find(struct api *a, const char *project,
				 const char *name);
struct saved_policy *preset_find(struct api *a, const char *name);
/* A new text, on disk when it returns; `text` is of a valid policy. NULL with
 * `e` on failure. */
struct saved_policy *policy_keep(struct api *a, const char *project,
				 const char *name, const char *text,
				 struct err *e);
int policy_forget(struct api *a, struct saved_policy *p,
		  struct err *e) MUST_CHECK;
/* A sandbox that has it; NULL: none. */
const struct sandbox *policy_user(struct api *a, const struct saved_policy *p);

/* Are there the policy and the presets that a spec names? */
int policies_allow(struct api *a, const char *project, const struct spec *spec,
		   struct err *e) MUST_CHECK;
/*
 * Places that are nobody's business from outside, this host's own among them,
 * are the operator's to name: a key of a project that could would reach what
 * listens on the host's loopback. EPERM.
 */
int policy_may_say(const struct identity *who, const struct policy *p,
		   struct err *e) MUST_CHECK;
/* The same for the "rules" of a body with a spec. */
int rules_may_say(const struct identity *who, const json_t *body,
		  struct err *e) MUST_CHECK;
