/*
 * The gate, seen from here (wire/gate.h): the one door of the sandboxes.
 *
 *	gate_link.c	connections to doors; who waits for their answers
 *	gate_box.c	the door of a sandbox: its sockets, policies, secrets
 *	gate_parts.c	the policies that it is told
 *	gate_uses.c	what it has instead of secrets
 *	gate_secret.c	what doors hear of secrets
 *	grants.c	what people have let it do
 *	approvals.c	requests that wait for a person
 *	egress.c	what went through
 *
 * A sandbox whose spec says nothing of a way out (spec_has_door()) has nothing
 * to do with any of this. The others are served by the door of their project
 * when that has secrets, by the shared one ("") otherwise.
 *
 * A door that went away is connected to again, later each time; when it is
 * ready it is told everything anew.
 */
#pragma once

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "api/warden_link.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/str.h"
#include "wire/gate.h"

struct api;
struct box_gate;
struct gate_link;
struct identity;
struct account;
struct sandbox;
struct spec;

/* The code of an error: the gate does not answer. */
enum { GATE_AWAY = ENONET, GATE_WAIT_MS = 5000 };

/* Embedded in who waits for an answer of a door. Zero-initialise. */
struct gate_wait {
	struct list node;
	struct api *api;
	struct timer timer;
	/* What was asked: GATE_PROJECT, GATE_CODE or GATE_SYNC. */
	enum gate_kind kind;
	char project[NAME_CAP], name[NAME_CAP];
	uint64_t number;
	/* Once, from the loop; `m` NULL: it failed, and `e` says why. */
	void (*fn)(struct gate_wait *w, const struct gate_msg *m,
		   const struct err *e);
};

typedef void gate_wait_fn(struct gate_wait *w, const struct gate_msg *m,
			  const struct err *e);

struct gates {
	struct list links;
	uid_t uid;       /* of the gate's user; 0: there is none */
	uint64_t number; /* of the last question */
	bool started;
};

/* Before privileges are dropped; when the registry is loaded. */
void gates_init(struct api *a);
void gates_start(struct api *a);
/* For GET /v1/host. */
json_t *gates_json(const struct api *a);

/*
 * For requests about secrets. A project's keys, from its own door: `m` is a
 * GATE_KEYS (`bytes`: the public key, `text`: the certificate). A code of a
 * secret: `m` is a GATE_CODED (`name`: the code, or "" and `text`: why not).
 */
void gate_keys(struct api *a, const char *project, struct gate_wait *w,
	       gate_wait_fn *fn);
void gate_code(struct api *a, const char *project, const char *name,
	       struct gate_wait *w, gate_wait_fn *fn);
/* `fn` is not called any more. Harmless when nothing is waited for. */
void gate_cancel(struct gate_wait *w);

/*
 * A policy or a secret of the project is another one, or was removed: its
 * doors hear of it at once. Of policies, `name` NULL: any of them may be.
 */
void gate_policy_changed(struct api *a, const char *project, const char *name);
void gate_secret_changed(struct api *a, const char *project, const char *name);
/* `fn` is called when the project's door has taken all that in: 0. 1: there is
 * no door that could know anything else, and nobody is called. */
int gate_secret_settle(struct api *a, const char *project, struct gate_wait *w,
		       gate_wait_fn *fn);

/* Embedded in who waits for a sandbox's door. Zero-initialise. */
struct gate_up {
	struct list node;
	struct timer timer;
	struct sandbox *box;
	/* Once, from the loop; `e` NULL: it stands. */
	void (*fn)(struct gate_up *u, const struct err *e);
};
typedef void gate_up_fn(struct gate_up *u, const struct err *e);

/*
 * A sandbox began to run, or its spec is another one. `u` (may be NULL) hears
 * when what its spec says is in force, inside too. Without a door in its spec
 * that is at once: 1, and nobody is called. 0: `fn` will be.
 */
int gate_box_up(struct sandbox *s, struct gate_up *u, gate_up_fn *fn);
void gate_up_cancel(struct gate_up *u);
/* Its processes are gone, for now (`ended` false) or for good. */
void gate_box_down(struct sandbox *s, bool ended);
/* The last of a family is gone: nobody draws on its counters any more. */
void gate_account_gone(const struct account *x);
/* It was found again after a restart of ours, or was woken. */
void gate_box_found(struct sandbox *s);
/* Variables of its processes: placeholders and false credentials. A new
 * reference, or NULL. */
json_t *gate_env(struct sandbox *s);
/* The same for its door; `m` points into `hold` and into the spec. */
struct gate_uses {
	char word[GATE_USES_MAX][GATE_PLACEHOLDER_CAP];
};
int gate_uses(const struct sandbox *s, struct gate_uses *hold,
	      struct gate_msg *m, struct err *e) MUST_CHECK;
/* The parts of its policies, in the order they are tried: what people granted,
 * its own rules, presets, its policy. `m` points into `hold`. */
struct gate_parts {
	char name[GATE_PARTS_MAX][GATE_PART_CAP];
	struct buf text[GATE_PARTS_MAX];
};
int gate_parts(const struct sandbox *s, struct gate_parts *hold,
	       struct gate_msg *m, struct err *e) MUST_CHECK;
void gate_parts_done(struct gate_parts *hold);

/* {"up", "why", ...} for who looks at it; NULL: it has none. */
json_t *gate_box_json(const struct sandbox *s);
