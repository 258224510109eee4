#include "api/routes.h"

const struct route port_routes[] = { { 0 } };
