/*
 * Images by name. An image that lost its name (another one took it) is
 * retired: it goes when the last sandbox that uses it has gone.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "base/list.h"
#include "base/str.h"
#include "image/oci.h"

struct api;

enum { IMAGE_NAME_CAP = 64, IMAGES_MAX = 1024, IMAGE_CACHE_CAP = 80 };

struct image {
	struct list node;
	char name[IMAGE_NAME_CAP];
	char id[ID_CAP];
	uint64_t size, entries, created_ms;
	json_t *config;              /* see image_config.h; or NULL */
	char cache[IMAGE_CACHE_CAP]; /* the build step that made it, or "" */
	/* Its layer for others, if it was made: plain, and packed. */
	struct oci_layer layers[2];
	bool removing;
	uint64_t seen; /* last reconciliation that found it */
};

struct images {
	struct list all, retired;
	unsigned n;
};

void images_init(struct api *a);
int images_load(struct api *a, struct err *e) MUST_CHECK;
/* 1 to 63 of a-z, 0-9, '.', '_', ':' and '-', starting with the former. */
bool image_name_valid(const char *s);
/* By name or id; not one that is being removed. */
struct image *image_find(struct api *a, const char *ref);
/* By id, also one that is being removed. */
struct image *image_by_id(struct api *a, const char *id);

/*
 * An image that the warden has committed gets its name, durably; the one that
 * had the name is retired. The table has its own reference to the config.
 */
int image_put(struct api *a, const struct image *img, struct err *e) MUST_CHECK;
/* Its volume is gone, or going: forgets the name, durably. */
void image_drop(struct api *a, struct image *img);
/* Not in the table: remove it as soon as nothing uses it. */
void image_retire(struct api *a, const char *id);
/* A sandbox that used it is gone. */
void images_unused(struct api *a, const char *id);
