/* The unpacking side of the worker: its files are not in the library. */
#pragma once

/* The library has another function of this name, of the store. */
#define tree_open worker_tree_open

#include "worker/entry.c"
#include "worker/later.c"
#include "worker/layer.c"
#include "worker/layout.c"
#include "worker/path.c"
#include "worker/prepare.c"
#include "worker/report.c"
#include "worker/source.c"
#include "worker/spool.c"
#include "worker/supply.c"
#include "worker/tree.c"
#include "worker/unpack.c"
#include "worker/users.c"
#include "worker/whiteout.c"
