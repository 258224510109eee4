/*
 * What an image wants of its processes: the object that oci_run_read() of
 * image/oci.h reads. Env, WorkingDir, User and the label
 * of a start command mean something here; the rest is
 * kept to be told and exported. It comes from the maker of the image.
 */
#pragma once

#include <jansson.h>

#include "base/err.h"

struct image;
struct spec;

/*
 * Fills what the spec does not say. A user that is root is taken over only
 * where the spec allows root: most images say nothing else, and mean nothing
 * by it.
 */
int image_config_apply(const struct image *img, struct spec *s,
		       struct err *e) MUST_CHECK;
