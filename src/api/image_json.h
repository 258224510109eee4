/* An image as clients see it. */
#pragma once

#include <jansson.h>

struct image;

/* Without what its maker says about it: short, and fit for the log. */
json_t *image_json(const struct image *i);
json_t *image_json_full(const struct image *i);
