/*
 * Sandboxes as the api role knows them: a table by id and by name, their way
 * from a create to an end, deadlines, and the spares that wait for a create.
 *
 * A sandbox that a user was told about has a row in the registry. The row is
 * written when the sandbox runs and before the answer: whatever the warden has
 * without a row (an unfinished create, a spare, the sandbox of a `run`) is a
 * leftover after a crash of ours, and is killed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/account.h"
#include "api/admission.h"
#include "api/agent_link.h"
#include "api/box_waiter.h"
#include "api/call.h"
#include "api/egress.h"
#include "api/ended.h"
#include "api/pause.h"
#include "api/restart.h"
#include "api/usage.h"
#include "api/warden_link.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/str.h"
#include "registry/registry.h"
#include "spec/spec.h"

struct api;
struct sandbox;

enum box_state {
	BOX_LAUNCHING,
	BOX_FOUND, /* from the registry; the warden has not confirmed it yet */
	BOX_RUNNING,
	BOX_PAUSED,     /* everything inside stands still */
	BOX_SUSPENDED,  /* only a disk, the snapshot `disk` */
	BOX_RESTARTING, /* between two lives: see restart.h */
	BOX_ENDING,
	BOX_STATES
};
const char *box_state_name(enum box_state s);

/* What a sandbox is launched for. */
enum box_use { BOX_MADE, BOX_RUN, BOX_SPARE };

/* `s` is NULL when it failed, and `e` says why. */
typedef void box_ready_fn(void *arg, struct sandbox *s, const struct err *e);

struct sandbox {
	struct api *api;
	struct list all, by_id, by_name, in_spares;
	char id[ID_CAP];
	char image_id[ID_CAP];
	char project[NAME_CAP];
	/* Snapshots, or "": what it started from (box_set_base()), and what
	 * its disk is or is about to be (box_set_disk()). */
	char base[ID_CAP], disk[ID_CAP];
	char parent[ID_CAP];     /* sandbox whose fork it is, or "" */
	struct account *account; /* that its budgets are counted in */
	struct spec spec;        /* spec.image: as it was asked for */
	char *shown_spec;        /* as text, once it was asked for; or NULL */
	enum box_state state;
	bool spare;              /* waits for a create; nobody sees it */
	bool transient;          /* of a run: no row, gone with its client */
	bool told;               /* has a row */
	bool counted;            /* in boxes.n_users */
	bool degraded;           /* its agent broke the protocol */
	bool kvm;                /* its kernel is its own, and not emulated */
	bool ended;              /* the warden said so while it was launching */
	char reason[REASON_CAP]; /* why it ends; "" until it is to */
	uint64_t created_ms, deadline_boot_ms, deadline_wall_ms;
	uint64_t heir_boot_ms, heir_wall_ms; /* lifetime_inherit(); 0: none */
	uint64_t asked_us;
	uint64_t seen;         /* last reconciliation that found it */
	uint64_t active_ms;    /* box_touch(); boot time */
	uint64_t output_bytes; /* that its agent has sent, of all processes */
	struct timer deadline;
	struct meter meter;
	struct samples *samples; /* or NULL */
	struct warden_call call; /* launch, then kill */
	struct agent_link agent;
	struct pause pause;
	struct drive_door *door; /* or NULL */
	struct box_gate *gate;   /* gate.h; NULL: it has no way out */
	struct egress egress;
	bool has_volumes; /* and the log knows */
	/* A client removes it: its own snapshots go, too, or all of them. */
	bool drop_own, drop_snapshots;
	unsigned n_ports; /* connections to its ports */
	box_ready_fn *ready;
	void *ready_arg;
	struct list waiters;
	struct restart restart;
	struct list takes; /* snapshots of it, one after the other */
	struct deferred gone;
};

enum { BOX_BUCKETS = 1024 };

struct boxes {
	struct list all, spares;
	struct list ids[BOX_BUCKETS], names[BOX_BUCKETS];
	unsigned n_users; /* with processes: not those that are suspended */
	unsigned n_spares, n_launching;
	bool closing;   /* the kill switch is being pulled */
	bool no_spares; /* since then, until the next create */
	struct timer refill;
	unsigned refill_pause_ms;
	uint64_t last_create_ms;  /* boot time */
	uint64_t last_created_ms; /* of the newest one */
};

void boxes_init(struct api *a);
/* Rows of the registry, as BOX_FOUND. */
int boxes_load(struct api *a, struct err *e) MUST_CHECK;

/* A new entry of the table; takes the content of `spec`. */
struct sandbox *box_new(struct api *a, const char *id, const char *project,
			struct spec *spec, const char *image_id);
void box_set_base(struct sandbox *s, const char *snapshot);
void box_set_disk(struct sandbox *s, const char *snapshot);
/* A snapshot is not there any more: whose disk it was has ended. */
void boxes_lost_disk(struct api *a, const char *snapshot);
/* By the exact id or name: any, spares included; or NULL. */
struct sandbox *box_by_id(struct api *a, const char *id);
struct sandbox *box_by_name(struct api *a, const char *project,
			    const char *name);
/* A client has to do with it now: it is not idle. */
void box_touch(struct sandbox *s);
/* Is it of the project that this identity sees? */
bool box_is_for(const struct sandbox *s, const struct identity *who);
/* What this one sees, by id, name or unambiguous prefix; NULL with ENOENT,
 * ERR_ENDED or EEXIST in `e`. */
struct sandbox *box_find(struct api *a, const struct identity *who,
			 const char *ref, struct err *e);
bool box_visible(const struct sandbox *s);
/* `by_any`: also by spares and by what is on its way out. */
bool image_in_use(struct api *a, const char *image_id, bool by_any);

/*
 * A new sandbox; takes the content of `spec`. 1: `*out` runs already. 0: it
 * will, and box_on_ready() is to be called now. -errno: it failed.
 */
int box_create(struct api *a, const char *project, struct spec *spec,
	       bool transient, struct sandbox **out, struct err *e) MUST_CHECK;
/*
 * The same from a snapshot, in its project and with its image; 0 or -errno.
 * `parent` is the sandbox whose fork it is, or "".
 */
int box_create_from(struct snapshot *from, struct spec *spec,
		    const char *parent, struct sandbox **out,
		    struct err *e) MUST_CHECK;
/* May so many with this spec be made, as far as can be seen now? */
int box_may_create(struct api *a, const char *project, const struct spec *spec,
		   unsigned n, struct err *e) MUST_CHECK;
/* Who is to be told when a sandbox that box_create() returned is ready. */
void box_on_ready(struct sandbox *s, box_ready_fn *ready, void *arg);
/* Its spec as JSON; the caller's to free. */
char *box_spec_text(const struct sandbox *s);
/* The same, kept until it has another: to print it takes longest of all that
 * is said about a sandbox. */
const char *box_spec_shown(struct sandbox *s);
/* Writes the row: from now on it survives us. */
int box_tell(struct sandbox *s, const char *spec, struct err *e) MUST_CHECK;

/* Writes the row again, after a change. */
int box_save(struct sandbox *s, struct err *e) MUST_CHECK;
/* Another spec, whose content is taken; the limits are in force already. */
void box_respec(struct sandbox *s, struct spec *spec);
void box_set_tier(struct sandbox *s, const char *tier);
/* What runs, or is about to: one that moves is of the other tier already. */
static inline bool box_is_machine(const struct sandbox *s)
{
	return spec_is_vm(&s->spec) != (s->restart.move != NULL);
}
/*
 * Writes the files of its spec and starts its commands; see set_up.c. 1: it is
 * done. 0: it will be, and `done` hears so. -errno: it cannot be.
 */
int box_set_up(struct sandbox *s,
	       void (*done)(struct sandbox *s, const struct err *e),
	       struct err *e) MUST_CHECK;

/* Ends it; `w` (may be NULL) hears when. Forgets box_on_ready(). */
void box_kill(struct sandbox *s, struct box_waiter *w);
/* The same for one that may be starting: who waits for it is told why. */
void box_abort(struct sandbox *s, int code, const char *why);
/*
 * It is gone, by itself or because the warden has ended it. `why` counts when
 * nobody has given a reason before; `last` may be NULL.
 */
void box_gone(struct sandbox *s, const char *why,
	      const struct sandbox_use *last);
/*
 * Adds a sandbox that has no row so far: a living one (BOX_FOUND), or with the
 * snapshot `disk` as its disk a suspended one. Takes the content of `spec`.
 */
struct box_found {
	const char *id, *project, *image_id;
	const char *disk; /* "": it lives */
};
struct sandbox *box_take_over(struct api *a, const struct box_found *found,
			      struct spec *spec, struct err *e);
/* BOX_FOUND, confirmed by the warden. */
void box_adopt(struct sandbox *s, bool paused);

/* Spares: called after everything that may change how many are wanted. */
void spares_poke(struct api *a);
struct sandbox *spare_take(struct api *a, const struct spec *spec,
			   const char *image_id);
void spares_drop(struct api *a, const char *image_id);
/* A spare runs, and its agent is reached. */
void spare_ready(struct sandbox *s);
/* A spare came up, or did not. */
void spare_settled(struct api *a, bool ok);

/* For restart.c. */
void box_fill_launch(struct sandbox *s, const char *from);
void box_ask_kill(struct sandbox *s);
/* It has processes, which count, or not. */
void box_count(struct sandbox *s, bool on);
/* What is said to users about a failure inside of the warden. */
int launch_code(int code);

/* For spares.c: launches without looking at limits. */
struct sandbox *box_launch(struct api *a, const char *project,
			   struct spec *spec, const char *image_id,
			   enum box_use use, struct err *e);
