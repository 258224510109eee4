/*
 * Snapshots as the api role knows them, and states of disks in general.
 *
 * A snapshot belongs to its project and outlives its sandbox. One that is the
 * ancestor of a living fork, or that somebody holds, is kept on disk when it
 * is removed: it loses its name and goes when nobody needs it any more.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/call.h"
#include "api/warden_link.h"
#include "base/err.h"
#include "base/list.h"
#include "base/str.h"

struct api;
struct sandbox;

enum snapshot_kind {
	SNAPSHOT_USER, /* asked for by name */
	SNAPSHOT_AUTO, /* before an exec; the oldest go */
	SNAPSHOT_FORK, /* where forks started; nobody sees it */
	SNAPSHOT_DISK, /* the disk of a suspended sandbox; nobody sees it */
	SNAPSHOT_TEMP, /* of a state_ref; no row */
	SNAPSHOT_KINDS
};

struct snapshot {
	struct list node;
	char id[ID_CAP];
	char project[NAME_CAP];
	char name[NAME_CAP]; /* "": none */
	char sandbox[ID_CAP];
	char base[ID_CAP]; /* what its sandbox started from; "": the image */
	char image_id[ID_CAP], image[64];
	char *spec; /* of its sandbox, at that time; JSON, owned */
	enum snapshot_kind kind;
	uint64_t bytes, pause_us;
	uint64_t event; /* last entry of the log at that time */
	uint64_t created_ms;
	unsigned holds; /* of state_refs and launches */
	bool removing;
	uint64_t seen; /* last reconciliation that found it */
};

struct snapshots {
	struct list all;
	unsigned n;
};

void snapshots_init(struct api *a);
int snapshots_load(struct api *a, struct err *e) MUST_CHECK;
struct snapshot *snapshot_by_id(struct api *a, const char *id);
/* A visible one, by id, name, or unambiguous id prefix; NULL with ENOENT or
 * EEXIST in `e`. */
struct snapshot *snapshot_find(struct api *a, const struct identity *who,
			       const char *ref, struct err *e);
/* Does any snapshot need this image? */
bool snapshot_uses_image(struct api *a, const char *image_id);

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
	struct warden_call call;
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
