/* A sandbox as clients see it. */
#pragma once

#include <jansson.h>

struct buf;
struct ended;
struct sandbox;

json_t *box_json(const struct sandbox *s);
/* The same as text, with the text of its spec: to print that takes as long as
 * all the rest. */
void box_text(const struct sandbox *s, const char *spec, struct buf *out);
json_t *ended_json(const struct ended *x);
