/*
 * Requests to the warden, the only privileged role: fixed-size structs over a
 * SOCK_SEQPACKET socket (run_dir/roles/warden.sock), no parsing. The first
 * message of a connection is WARDEN_HELLO; a wrong version ends it. Requests
 * may be sent without waiting; each is answered once, in any order, with the
 * same `seq`. Notices have seq 0.
 *
 * The warden validates each request as if an attacker had sent it, and keeps
 * its own records: nothing here names a path, a pid or a uid.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum { WARDEN_VERSION = 1 };

enum warden_op {
	WARDEN_HELLO = 1,
	/*
	 * Starts a sandbox. Answered when its agent runs; the agent's socket
	 * is run_dir/box/ID/agent.sock.
	 */
	WARDEN_LAUNCH,
	/*
	 * Ends a sandbox and everything in it, and removes all that was its
	 * own. Answered when no process of it is left; its disk goes in the
	 * background. An unknown id is ESRCH.
	 */
	WARDEN_KILL,
	/* WARDEN_KILL of every sandbox there is, known to api or not. */
	WARDEN_KILL_ALL,
	/* The sandbox with the smallest id above `id` ("": the first); ENOENT
	 * at the end. */
	WARDEN_NEXT,
	/* What a sandbox uses. */
	WARDEN_STAT,
	/*
	 * An empty image volume `id` and a confined worker that fills it from
	 * a tar stream. Two descriptors come back: [0] the pipe that takes the
	 * tar, [1] a pipe with the worker's lines (see wire/worker.h).
	 */
	WARDEN_IMAGE_IMPORT,
	/* Makes an imported image ready for use (and read-only for ever). */
	WARDEN_IMAGE_COMMIT,
	/* Removes an image, imported or committed; stops its worker. EBUSY
	 * while a sandbox uses it. */
	WARDEN_IMAGE_REMOVE,
	/* The committed image with the smallest id above `id`; ENOENT. */
	WARDEN_IMAGE_NEXT,
	/* What the host and the pool offer. */
	WARDEN_HOST,
	/* Notice: the sandbox `id` ended by itself (or, with an error, never
	 * came up); the warden cleaned up. */
	WARDEN_ENDED,
	/*
	 * A TCP socket inside a sandbox's network, on its way to a port of its
	 * loopback address: it comes back as a descriptor, connected or not
	 * yet (non-blocking).
	 */
	WARDEN_CONNECT,
	/*
	 * Other limits for a sandbox that runs. EBUSY: it uses more memory
	 * than it would have; nothing was changed.
	 */
	WARDEN_RESIZE,
	WARDEN_OPS
};

enum launch_flags {
	LAUNCH_SUDO = 1, /* uid 0 of the sandbox may be asked for */
	LAUNCH_ALLOW_MISSING_DISK = 2, /* no disk limit is better than none */
	/*
	 * Answered as soon as the agent's socket takes connections, a little
	 * before the agent runs. A step that fails after that comes as
	 * WARDEN_ENDED, with the error in it.
	 */
	LAUNCH_EARLY = 4,
	LAUNCH_FLAGS_ALL = 7,
};

struct launch_spec {
	char id[ID_CAP];
	char image[ID_CAP];
	char hostname[NAME_CAP];
	uint32_t flags;
	uint32_t pids;
	uint32_t nofile; /* open files of a process; 0: the usual */
	uint32_t zero;
	uint64_t cpus_milli, mem_bytes, disk_bytes;
};

enum connect_flags {
	CONNECT_V6 = 1, /* ::1, not 127.0.0.1 */
	CONNECT_FLAGS_ALL = 1,
};

struct connect_spec {
	char id[ID_CAP];
	uint16_t port; /* not 0 */
	uint16_t flags;
};

struct resize_spec {
	char id[ID_CAP];
	uint32_t pids;
	uint64_t cpus_milli, mem_bytes;
};

struct sandbox_use {
	uint64_t cpu_us, mem_bytes, disk_bytes, pids, oom_kills;
};

/*
 * The last word about a sandbox, in WARDEN_ENDED and in the answer to
 * WARDEN_KILL: all its processor time, and the memory it had at the end.
 */
struct last_use {
	char id[ID_CAP];
	uint32_t zero;
	struct sandbox_use use;
};

enum host_flags {
	HOST_CGROUP_V2 = 1, /* controllers in the unified tree */
	HOST_CGROUP_HYBRID = 2,
	HOST_DISK_LIMIT = 4, /* the pool enforces disk limits */
	HOST_SIMPLE_QUOTA = 8,
	HOST_CLONE_INTO_CGROUP = 16,
	HOST_SYSTEMD = 32,
};

struct host_info {
	uint32_t flags;
	uint32_t sandboxes, max_sandboxes;
	uint64_t pool_bytes, pool_free_bytes;
	char pool_driver[16]; /* "btrfs" or "dir" */
	char cgroup[96];      /* where the sandboxes' groups are */
};

struct warden_req {
	uint16_t version, op;
	uint32_t zero;
	uint64_t seq;
	union {
		char id[ID_CAP]; /* NUL-padded to the end */
		struct launch_spec launch;
		struct connect_spec connect;
		struct resize_spec resize;
	};
};

struct warden_rep {
	uint16_t version, op;
	uint32_t zero;
	uint64_t seq;
	struct err err; /* code 0: done */
	union {
		char id[ID_CAP];
		struct launch_spec launch; /* of WARDEN_NEXT */
		struct sandbox_use use;
		struct last_use last; /* `id` is at the same place */
		struct host_info host;
	};
};
