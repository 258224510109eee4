/*
 * Snapshots as the api role knows them, and states of disks in general.
 *
 * A snapshot belongs to its project and outlives its sandbox. What comes from
 * it refers to it: the sandbox whose disk it is, those that started from it,
 * and their snapshots. One that is removed while somebody needs it loses its
 * name, is in no list any more, and goes with the last who does.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/call.h"
#include "api/warden_link.h"
#include "base/err.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/str.h"

struct account;
struct api;
struct sandbox;
struct snapshot;
struct spec;

enum {
	SNAPSHOTS_MAX = 20000,
	SNAPSHOTS_PROJECT_MAX = 10000,
	SNAPSHOT_BUCKETS = 1024,
};

enum snapshot_kind {
	SNAPSHOT_USER, /* asked for by name */
	SNAPSHOT_AUTO, /* before an exec; the oldest go */
	SNAPSHOT_OWN,  /* asked for by MCP or a merge; goes with its sandbox */
	SNAPSHOT_FORK, /* where forks started; nobody sees it */
	SNAPSHOT_DISK, /* the disk of a suspended sandbox; nobody sees it */
	SNAPSHOT_TEMP, /* of a state_ref; no row */
	SNAPSHOT_KINDS
};
const char *snapshot_kind_name(enum snapshot_kind k);

/* Embedded in who waits for a snapshot; see snapshot_take(). */
struct snapshot_take {
	struct snapshot *snap; /* private */
	void (*done)(struct snapshot_take *t, struct snapshot *snap,
		     const struct err *e);
};

struct snapshot {
	struct list node, by_id;
	struct api *api;
	char id[ID_CAP];
	char project[NAME_CAP];
	char name[NAME_CAP]; /* "": none */
	char sandbox[ID_CAP];
	struct account *account; /* of its sandbox, for its forks; or NULL */
	char base[ID_CAP]; /* what its sandbox started from; "": the image */
	char image_id[ID_CAP], image[64];
	char *spec; /* of its sandbox, at that time; JSON, owned */
	enum snapshot_kind kind;
	uint64_t bytes, pause_us;
	uint64_t event; /* the entry of the log that it is */
	uint64_t created_ms;
	uint64_t seen;  /* last reconciliation that found it */
	unsigned holds; /* of state_refs and launches */
	/* That have it as base or disk; as base. */
	unsigned n_boxes, n_snapshots;
	bool removing;
	bool replaced; /* by a running sandbox: may be gone (reconcile.c) */
	bool has_row;
	bool rowless; /* a kept disk whose row could not be written: held */
	/* While it is taken. */
	bool taking;
	struct sandbox *box; /* NULL: gone meanwhile */
	struct list in_line; /* of box->takes; the first is under way */
	struct snapshot_take *taker;
	/* To take it, then to remove it. */
	struct warden_call call;
	struct timer again;
	struct deferred gone;
};

struct snapshots {
	struct list all; /* in the order they were made */
	struct list ids[SNAPSHOT_BUCKETS];
	unsigned n;
};

void snapshots_init(struct api *a);
/* Before the sandboxes are. */
int snapshots_load(struct api *a, struct err *e) MUST_CHECK;
struct snapshot *snapshot_by_id(struct api *a, const char *id);
/* A visible one, by id, name, or unambiguous id prefix; NULL with ENOENT or
 * EEXIST in `e`. */
struct snapshot *snapshot_find(struct api *a, const struct identity *who,
			       const char *ref, struct err *e);
/* The newest that users can see of this sandbox, taken at or before an entry
 * of the log; or NULL. */
struct snapshot *snapshot_at(struct api *a, const char *sandbox,
			     uint64_t event);
/* Was it made for its sandbox alone? Then it goes when that is removed. */
static inline bool snapshot_is_own(const struct snapshot *snap)
{
	return snap->kind == SNAPSHOT_AUTO || snap->kind == SNAPSHOT_OWN;
}
/* Removes the snapshots of a removed sandbox; those of kind `user` only if
 * `all` is set. */
void snapshots_of_removed(struct api *a, const char *sandbox, bool all);
/* Can users see it? */
bool snapshot_visible(const struct snapshot *snap);
/* Does any snapshot need this image? */
bool snapshot_uses_image(struct api *a, const char *image_id);
json_t *snapshot_json(const struct snapshot *snap);

/* The spec of its sandbox, without the name; to be freed by spec_done(). */
int snapshot_spec(const struct snapshot *snap, struct spec *out,
		  struct err *e) MUST_CHECK;

/* --- what refers to it --- */

void snapshot_hold(struct snapshot *snap);
/* It may go with this. */
void snapshot_release(struct snapshot *snap);
/* A sandbox has it as base or disk, or not any more; "" is nobody. */
void snapshot_ref(struct api *a, const char *id);
void snapshot_unref(struct api *a, const char *id);
/* Not wanted by users any more: it goes when nobody needs it. */
int snapshot_drop(struct snapshot *snap, struct err *e) MUST_CHECK;

/* --- taking one (snapshot_take.c) --- */

struct snapshot_ask {
	enum snapshot_kind kind;
	const char *name; /* "" or NULL: none */
	unsigned copies;  /* for so many launches from it */
	bool stay;        /* the sandbox stays frozen */
	bool disk_only;   /* without the memory of a microVM */
};

/*
 * Of a sandbox that runs or is paused. `done` is called once, later: with the
 * snapshot, which is held (snapshot_release() is the caller's), or with NULL
 * and why. It has a row then, unless it is a TEMP, or a FORK or a DISK, whose
 * row is the caller's. Those of one sandbox are taken one after the other.
 */
int snapshot_take(struct snapshot_take *t, struct sandbox *s,
		  const struct snapshot_ask *ask,
		  void (*done)(struct snapshot_take *t, struct snapshot *snap,
			       const struct err *e),
		  struct err *e) MUST_CHECK;
/* The disk of one that is suspended becomes a snapshot of the user's. */
struct snapshot *snapshot_promote(struct sandbox *s, const char *name,
				  struct err *e);
/* `done` is not called any more; what users asked for is made all the same. */
void snapshot_leave(struct snapshot_take *t);
/* Its sandbox is gone. */
void snapshots_orphan(struct sandbox *s);

/* --- for taking, restarting and reconciling --- */

/* A new entry of the table, without a row. */
struct snapshot *snapshot_new(struct api *a, const char *id,
			      enum snapshot_kind kind);
/* All that a snapshot says about its sandbox, as it is now. */
void snapshot_describe(struct snapshot *snap, const struct sandbox *s);
/* Writes its row, or changes it. */
int snapshot_save(struct snapshot *snap, struct err *e) MUST_CHECK;
/* A row names its base: one of a fork that is not over yet has none so far. */
int snapshot_save_base(const struct snapshot *snap, struct err *e) MUST_CHECK;
/* Goes, if nobody needs it. */
void snapshot_settle(struct snapshot *snap);
void snapshots_settle(struct api *a);
/* Another one took its place in the pool: it is not to be removed. */
void snapshot_revive(struct snapshot *snap);
/* It is in the pool and nobody knows it. */
void snapshot_stray(struct api *a, const char *id);
/* It is not in the pool any more. */
void snapshot_lost(struct snapshot *snap);
/* Out of the table again, with its row; what the pool has stays. */
void snapshot_unlist(struct snapshot *snap);

/* --- states of disks (state_ref.c) --- */

/*
 * A state of a disk: "snapshot:REF", "sandbox:REF", "image:REF", or a bare REF
 * that is looked for in this order. A sandbox that runs gets a snapshot for
 * the purpose, which goes with the reference.
 */
struct state_ref {
	struct api *api;
	struct view_side side; /* for WARDEN_VIEW, from `ready` on */
	char project[NAME_CAP];
	/* "" where it is none. */
	char sandbox[ID_CAP], snapshot[ID_CAP];
	/* Private. */
	struct snapshot *held;
	struct snapshot_take take;
	void (*ready)(struct state_ref *r, const struct err *e);
};

/*
 * `ready` is called once, now or later; `e->code` 0: `side` is good until
 * state_release(), which is always called in the end, also to give up.
 */
void state_hold(struct state_ref *r, struct api *a, const struct identity *who,
		const char *ref,
		void (*ready)(struct state_ref *r, const struct err *e));
void state_release(struct state_ref *r);
/* ENOTSUP: it is the disk of a machine, which nobody here opens. */
int state_has_tree(const struct snapshot *snap, struct err *e) MUST_CHECK;
