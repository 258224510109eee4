/* The OpenAPI 3.1 document, made from the tables of routes and schemas. */
#pragma once

#include <jansson.h>

/* A new reference. */
json_t *openapi_json(void);
