#include "api/routes.h"

const struct route process_routes[] = { { 0 } };
