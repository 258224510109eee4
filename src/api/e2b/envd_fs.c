#include "api/e2b/e2b.h"

const struct envd_route envd_fs_routes[] = { { 0 } };
