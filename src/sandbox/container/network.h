/*
 * The network of a sandbox: `lo`, and nothing else. Whoever makes it is the
 * host's root, so that it belongs to the initial user namespace, and is in it
 * afterwards.
 */
#pragma once

#include "base/err.h"

/* Both return 0 or -errno; the second writes through any /proc. */
int network_new(void) MUST_CHECK;
int network_any_port(int proc_fd) MUST_CHECK;
