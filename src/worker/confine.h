/*
 * The worker locks itself in, before the first byte of an archive.
 *
 * The warden starts it as uid 0 of a fresh user namespace with ids 0..65535,
 * as the first process of fresh pid, mount, network, ipc and uts namespaces,
 * with the descriptors of wire/worker.h. From there confine() leaves: an empty
 * read-only root, four capabilities that act on the ids of the namespace,
 * limits, no_new_privs and the system-call filter. Whoever takes the process
 * over with a crafted archive can write to the one volume that is being
 * filled, and read nothing.
 */
#pragma once

#include "base/err.h"

/*
 * The same for a worker that looks at `n` directories, from WORKER_VIEW_FD on:
 * it may read everything in them, and nothing else.
 */
int confine_viewer(int n, struct err *e) MUST_CHECK;

/*
 * The volume's descriptor, opened anew for reading. Each step succeeds, or
 * the worker does not start.
 */
int confine(struct err *e) MUST_CHECK;
/* The same with the descriptors of mode "apply". */
int confine_apply(struct err *e) MUST_CHECK;
/* The same for mode "base": reads one directory, writes one file. */
int confine_base(struct err *e) MUST_CHECK;
