/* What an image says about its processes; see struct oci_config. */
#pragma once

#include <jansson.h>

/* A new object with the members that we know and that are well formed. */
json_t *run_filter(const json_t *config);
