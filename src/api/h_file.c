#include "api/routes.h"

const struct route file_routes[] = { { 0 } };
