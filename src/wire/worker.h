/*
 * What the import worker writes on its status pipe: lines of ASCII.
 *
 *	progress ENTRIES BYTES
 *	config JSON
 *	done ENTRIES BYTES
 *	error MESSAGE
 *
 * `config` comes at most once, before `done`, when the archive was an image
 * with a config: what processes get by default (oci_run_read() of
 * image/oci.h reads it). `done` or `error` comes once, last. The api role
 * trusts none of it: a line over WORKER_LINE_MAX bytes (WORKER_CONFIG_MAX for
 * a config), or anything else, is an error.
 */
#pragma once

enum {
	WORKER_LINE_MAX = 512,
	WORKER_CONFIG_MAX = 32 * 1024 + 16, /* the word, a space, the newline */
};

/*
 * The worker that looks at states (mode "view") is told the work and, for each
 * side, "KIND:IMAGE:TREE:MADE": s (snapshot) or i (image), numbers that are
 * the same for the same image and for snapshots of the same tree, and when the
 * snapshot was made (wall time in ns; 0: not known). It is asked, and answers,
 * as wire/view.h says. Its descriptors from WORKER_VIEW_FD on: a view of each
 * side; then for each the layer that the sandbox wrote, or the view again.
 */
enum { WORKER_VIEW_FD = 3 };

/* Descriptors of the worker: the tar on 0, the status lines on 1, log on 2. */
enum {
	/* The directory that is filled: the root of a mount of its own
	 * (open_tree(2)), mapped to the ids of the worker's user namespace. */
	WORKER_ROOT_FD = 3,
	/* Mode "base" only reads the directory, and writes a file system to
	 * this file, of at most as many bytes as its argument says. */
	WORKER_BASE_FD = 4,
	WORKER_SHIM_FD = 4, /* carrel-sudo, open for reading */
	/* Mode "apply", where the directory is a copy of an image and there is
	 * no tar: the snapshot as its sandbox saw it, and what it wrote. */
	WORKER_STATE_FD = 5,
	WORKER_UPPER_FD = 6,
};
