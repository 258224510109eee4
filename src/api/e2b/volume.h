/*
 * Volumes of the E2B API: ours, and what is in them, for who has the token of
 * one. Files are looked at and written through a small sandbox that has the
 * volume, made when it is asked for and gone when it was quiet for a while:
 * the only place where the names in a volume mean nothing to us.
 *
 *	h_volume.c		volumes themselves
 *	volume_box.c		the sandbox of a volume
 *	volume_content.c	files and directories
 *	volume_path.c		their names
 */
#pragma once

#include <stdbool.h>

#include "api/call.h"
#include "api/inner.h"
#include "api/port.h"
#include "base/list.h"

struct api;
struct volume;

#define VOLUME_TOP "/volume" /* where its sandbox has it */
#define VOLUME_LABEL "e2b.volume"

enum { VOLUME_IDLE_S = 20, VOLUME_LIFE_S = 600, VOLUME_BOXES_MAX = 64 };

struct e2b_volumes {
	struct list boxes;
};

/* Embedded in who needs the sandbox of a volume. */
struct volume_wait {
	struct list node;
	/* `box` NULL: it could not be made, and why. */
	void (*ready)(struct volume_wait *w, const char *box, int status,
		      const char *why);
};

void e2b_volumes_init(struct api *a);
/* `w->ready` is called from the loop. */
int volume_box(struct api *a, const struct volume *v,
	       const struct identity *who, const char *request_id,
	       struct volume_wait *w, struct err *e) MUST_CHECK;
/* Not any more. Harmless when it does not wait. */
void volume_leave(struct volume_wait *w);
/* The sandbox that it has for this; "": none. */
void volume_box_of(struct api *a, const char *volume_id, char out[ID_CAP]);

/* Is it the sandbox of a volume? */
bool volume_has_box(struct api *a, const char *id);

/*
 * A path of the volume as its sandbox has it, without empty names and dots.
 * -EINVAL: "..", which would lead out of it; -ENAMETOOLONG.
 */
int volume_path(const char *text, char *out, size_t cap) MUST_CHECK;

/* The token of a volume's content. */
void e2b_volume_token(const struct api *a, const char *id,
		      char out[PORT_MAC_CAP]);
