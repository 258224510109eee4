#include "api/routes.h"

const struct route key_routes[] = { { 0 } };
