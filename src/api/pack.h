/*
 * An image as it leaves this host: one layer, which is a blob, with a config
 * and a manifest made for it. A worker reads the image, and packs it (gzip) if
 * it goes far; that it says the truth about what it packed is checked by who
 * gets it.
 */
#pragma once

#include <stdbool.h>

#include "api/blobs.h"
#include "api/view_job.h"
#include "base/buf.h"
#include "image/oci.h"

struct api;
struct image;

/* Embedded in its owner; zero-initialise. */
struct pack {
	struct api *api;
	/* From the loop, once; `e->code` 0: all below is there. */
	void (*done)(struct pack *p, const struct err *e);
	bool gzip; /* the layer is packed */
	/* Bytes so far; may be NULL. */
	void (*progress)(struct pack *p, uint64_t bytes);

	struct oci_image image;
	struct oci_layer layer;
	struct buf config, manifest;
	struct oci_blob config_blob, manifest_blob;

	/* Private. */
	char id[ID_CAP];
	struct view_job job;
	struct blob_write write;
	struct blob_use use;
	json_t *run;
	struct timer soon;
};

/* `project` is whom the work counts for; p->gzip and p->progress are set. */
int pack_begin(struct pack *p, struct api *a, const struct image *img,
	       const char *project,
	       void (*done)(struct pack *p, const struct err *e),
	       struct err *e) MUST_CHECK;
/* Harmless when nothing is under way. */
void pack_end(struct pack *p);
