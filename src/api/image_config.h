/*
 * What an image wants of its processes: the `config` object of the OCI image
 * format, as far as it means something here (Env, WorkingDir, User), and what
 * is only kept to be told and exported (Entrypoint, Cmd, Labels,
 * ExposedPorts...). It comes from the maker of the image.
 */
#pragma once

#include <jansson.h>

#include "base/err.h"

struct image;
struct spec;

/* NULL is not one. What is accepted can be stored and shown. */
int image_config_check(const json_t *config, struct err *e) MUST_CHECK;
/*
 * Fills what the spec does not say. A user that is root is taken over only
 * where the spec allows root: most images say nothing else, and mean nothing
 * by it.
 */
int image_config_apply(const struct image *img, struct spec *s,
		       struct err *e) MUST_CHECK;
