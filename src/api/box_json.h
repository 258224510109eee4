/* A sandbox as clients see it. */
#pragma once

#include <jansson.h>

struct ended;
struct sandbox;

json_t *box_json(const struct sandbox *s);
json_t *ended_json(const struct ended *x);
