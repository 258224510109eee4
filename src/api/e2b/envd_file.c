#include "api/e2b/e2b.h"

const struct envd_route envd_file_routes[] = { { 0 } };
