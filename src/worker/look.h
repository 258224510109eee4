/*
 * Looking at states of disks: up to three trees that sandboxes made, through
 * read-only mounts. Nothing in them changes while we look; everything in them
 * is an attacker's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/view.h"
#include "wire/warden.h"
#include "worker/say.h"

struct look_side {
	int fd;           /* the root as the sandbox saw it */
	int upper_fd;     /* what it wrote over its image; if `snap` */
	bool snap;        /* else it is an image */
	unsigned image;   /* the same for the same image */
	unsigned tree;    /* the same for snapshots of the same tree */
	uint64_t made_ns; /* the snapshot; 0: not known */
};

struct look {
	unsigned work, n;
	struct look_side side[VIEW_SIDES];
	struct view_ask ask;
	struct say say;
};

/* Reads what is asked, does it, says so. */
int look(struct look *l, int ask_fd, struct err *e) MUST_CHECK;
/* The sides, as the warden describes them (wire/worker.h). */
int look_describe(struct look *l, const char *text, struct err *e) MUST_CHECK;

/* The works. */
int look_diff(struct look *l, struct err *e) MUST_CHECK;
int look_merge(struct look *l, struct err *e) MUST_CHECK;
int look_pack(struct look *l, struct err *e) MUST_CHECK;
int look_read(struct look *l, struct err *e) MUST_CHECK;
int look_space(struct look *l, struct err *e) MUST_CHECK;
