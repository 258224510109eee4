#include "api/routes.h"

const struct route event_routes[] = { { 0 } };
