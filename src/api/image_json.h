/* An image as clients see it. */
#pragma once

#include <jansson.h>

struct image;

json_t *image_json(const struct image *i);
