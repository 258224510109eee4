/* Sending an image to the daemon: what `image import` and `build` share. */
#pragma once

#include "cli/progress.h"
#include "cli/server.h"

struct upload {
	const char *name;
	const char *start; /* what sandboxes of it run; NULL: nothing */
	int fd;            /* where the tar comes from */
	struct progress *progress;
	/*
	 * Called at the end of `fd`, before the daemon learns of it: an error
	 * cuts the body short, and the daemon drops what it has. May be NULL.
	 */
	int (*at_end)(void *upload, struct err *e);
	void *ctx; /* for at_end */
};

/* How the images are called that steps of build files left. */
#define IMAGE_STEP "step:"

/* The image as the daemon tells it, or NULL after a message. */
json_t *image_upload(struct cli *cli, const struct upload *u);
/* One line about a new image on stdout. */
void image_say(const struct upload *u, const json_t *image);

verb_fn image_build, image_pull, image_push, image_export, image_save;
