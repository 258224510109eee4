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

enum { WARDEN_VERSION = 3 };

enum warden_op {
	WARDEN_HELLO = 1,
	/*
	 * Starts a sandbox. Answered when its agent runs; the agent's socket
	 * is run_dir/box/ID/agent.sock. The answer has its `launch`.
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
	 * A new image volume and a confined worker that fills it, from a tar
	 * stream or from a snapshot (struct import_spec). Two descriptors come
	 * back: [0] the pipe that takes the tar, [1] a pipe with the worker's
	 * lines (see wire/worker.h).
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
	/*
	 * A snapshot `snap` of a sandbox's disk: what is dirty is written out
	 * while it runs, then everything inside stands still for a moment (as
	 * long as `pause_us` of the answer says). It counts in the sandbox's
	 * disk limit, is on disk before the answer, and stays until it is
	 * removed, whatever becomes of the sandbox. EEXIST; EDQUOT and ENOSPC.
	 */
	WARDEN_SNAPSHOT,
	/* ENOENT when there is none, EBUSY while a worker looks at it. */
	WARDEN_SNAPSHOT_REMOVE,
	/*
	 * The snapshot with the smallest id above `id`; ENOENT at the end. The
	 * answer is a `launch`: its id is the snapshot's, `from` the sandbox
	 * whose disk it is, the rest that sandbox's spec; `image` is "" where
	 * the pool does not know it.
	 */
	WARDEN_SNAPSHOT_NEXT,
	/*
	 * Stops everything inside, the agent too, until WARDEN_RESUME; both
	 * are answered when it is so, and are no error when it was so. The
	 * kernel is then asked, behind the answer, to write out and drop what
	 * memory it can: WARDEN_STAT shows how far it came. `use` of the
	 * answer to a pause has the memory it had until then; a container's
	 * freezer may come with it. A '0' that is written there is a resume
	 * already; WARDEN_RESUME then tells of it, before anything else is
	 * asked for.
	 */
	WARDEN_PAUSE,
	WARDEN_RESUME,
	/*
	 * A confined worker that looks at up to three states (images and
	 * snapshots) and changes nothing. Two descriptors come back: [0] takes
	 * what is asked, [1] gives the records of wire/view.h. Closing them
	 * ends it.
	 */
	WARDEN_VIEW,
	/*
	 * A worker with the host's network and nothing else of the host, that
	 * speaks to registries: descriptors as above, see wire/fetch.h.
	 */
	WARDEN_FETCH,
	/*
	 * The sockets of a sandbox's door, for the gate: made in its network
	 * when it has none, which then has routes for everything that lead to
	 * them. They come back as descriptors in the order of enum gate_fd
	 * (wire/gate.h), and `door.fds` says which. The warden keeps them: a
	 * gate that starts anew gets the same, with what waits in them.
	 * EADDRINUSE when something else in there has the ports; only
	 * GATE_FD_SELF (DOOR_SELF) is left out then.
	 */
	WARDEN_DOOR,
	/* Volumes: disks of their own that sandboxes are launched with. */
	WARDEN_VOLUME_NEW,
	WARDEN_VOLUME_REMOVE, /* EBUSY while a sandbox has it */
	WARDEN_VOLUME_NEXT,
	/*
	 * Ends a sandbox as if it had ended by itself: WARDEN_ENDED comes, and
	 * a disk that outlives it does. Answered at once.
	 */
	WARDEN_GIVE_UP,
	/*
	 * The identity of the pool (struct pool_spec). An empty id only reads;
	 * any other id is written together with the generation. EEXIST: the
	 * pool has another id, which stays.
	 */
	WARDEN_POOL,
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
	/*
	 * Its disk outlives it: when it ends otherwise than by WARDEN_KILL
	 * (also with the host), the disk becomes the snapshot that has the
	 * sandbox's id. What it syncs is on disk.
	 */
	LAUNCH_PERSIST = 8,
	/* In a kernel of its own: see sandbox/vm/launch.h. */
	LAUNCH_MICROVM = 16,
	/*
	 * Not a sandbox, but a machine that looks at the disk of one (`from`,
	 * of tier microvm): its agent's socket gives the records of
	 * wire/view.h, a VIEW_PACK of all that was written, to who connects.
	 * The host never opens that disk itself.
	 */
	LAUNCH_LOOK = 32,
	LAUNCH_FLAGS_ALL = 63,
	/* Only in answers (WARDEN_NEXT): it is paused. */
	LAUNCH_PAUSED = 1 << 16,
	/* There and in the answer to WARDEN_LAUNCH: its kernel runs on the
	 * processor itself, and is not emulated. */
	LAUNCH_KVM = 1 << 17,
	/* Only in answers to WARDEN_SNAPSHOT_NEXT: the sandbox stood still
	 * from then on, as for a suspend. */
	LAUNCH_STAYED = 1 << 18,
};

enum {
	LAUNCH_VOLUMES_MAX = 4,
	LAUNCH_PATH_CAP = 128,
};

/* A volume that the sandbox has at an absolute path. */
struct launch_volume {
	char id[ID_CAP]; /* "": this row and the ones behind it are unused */
	char path[LAUNCH_PATH_CAP];
	uint32_t read_only; /* 0 or 1 */
};

struct launch_spec {
	char id[ID_CAP];
	char image[ID_CAP];
	char from[ID_CAP]; /* snapshot that its disk starts as; "": none */
	char hostname[NAME_CAP];
	uint32_t flags;
	uint32_t pids;
	uint32_t nofile; /* open files of a process; 0: the usual */
	uint64_t cpus_milli, mem_bytes, disk_bytes;
	struct launch_volume volumes[LAUNCH_VOLUMES_MAX];
};

enum import_kind {
	/* The tar: a root file system, an OCI layout, a docker archive. */
	IMPORT_TAR,
	/* The image `base` with the changes of the snapshot `from` of it. */
	IMPORT_SNAPSHOT,
	IMPORT_KINDS
};

struct import_spec {
	char id[ID_CAP];
	char base[ID_CAP], from[ID_CAP]; /* IMPORT_SNAPSHOT; else "" */
	uint32_t kind;
};

enum snapshot_flags {
	/* It stays frozen: the next word about it is a kill or a resume. */
	SNAPSHOT_STAY = 1,
	/*
	 * Of a microVM: the disk alone. Otherwise its memory comes along, and
	 * what is launched from the snapshot goes on where it stood.
	 */
	SNAPSHOT_DISK_ONLY = 2,
	SNAPSHOT_FLAGS_ALL = 3,
};

enum { SNAPSHOT_COPIES_MAX = 100 };

struct snapshot_spec {
	char id[ID_CAP]; /* of the sandbox */
	char snap[ID_CAP];
	uint32_t flags;
	/*
	 * So many launches `from` it come next: their disks are made in the
	 * same moment, which costs one wait for the disk, not one each. Those
	 * that are not taken within a while are dropped.
	 */
	uint32_t copies;
};

struct snapshot_done {
	uint64_t pause_us;
	uint64_t bytes; /* that the sandbox's disk has in use, as of now */
};

enum pause_flags {
	/*
	 * Only the processes of users, while the agent works on; it ends with
	 * a WARDEN_RESUME that has the flag too, or with the connection. EBUSY
	 * when somebody else asked for the same. It is no state: WARDEN_NEXT
	 * does not show it.
	 */
	PAUSE_USER = 1,
	PAUSE_FLAGS_ALL = 1,
};

struct pause_spec {
	char id[ID_CAP];
	uint32_t flags;
};

enum view_work {
	VIEW_DIFF = 1, /* how side 1 differs from side 0 */
	VIEW_MERGE,    /* side 0: the ancestor, 1: theirs, 2: ours */
	VIEW_PACK,     /* a tar: of side 0, of a change, of a merge */
	VIEW_READ,     /* a file of side 0 */
	VIEW_SPACE,    /* what the snapshot of side 0 takes, and shares */
	VIEW_WORKS
};

enum { VIEW_SIDES = 3 };

/* A state of a disk. */
struct view_side {
	char image[ID_CAP]; /* "": this side is unused */
	char snap[ID_CAP];  /* "": the image itself */
};

struct view_spec {
	uint32_t work, zero;
	struct view_side side[VIEW_SIDES];
};

struct volume_spec {
	char id[ID_CAP];
	uint32_t zero;
	uint64_t bytes; /* limit */
};

enum { POOL_ID_LEN = 32, POOL_ID_CAP = POOL_ID_LEN + 1 };

enum pool_flags {
	POOL_SYNC = 1,         /* in requests: on disk before the answer */
	POOL_HAS_CONTENTS = 2, /* in answers to reads: images, snapshots or
				  volumes */
};

/* Pairs the pool with the api's database: both have the same id, and the
 * generation says which of the two is older. */
struct pool_spec {
	char id[POOL_ID_CAP]; /* hexadecimal; "": none */
	char zero[3];
	uint32_t flags;
	uint64_t generation;
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
	HOST_MICROVM = 64, /* the tier microvm is there... */
	HOST_KVM = 128,    /* ...and not emulated */
	HOST_POOL_READ_ONLY = 256,
};

struct host_info {
	uint32_t flags;
	uint32_t sandboxes, max_sandboxes;
	/* By how much what is emulated is slower than this host; 0: it is not,
	 * or nobody knows yet. */
	uint32_t slow_tenths;
	uint64_t pool_bytes, pool_free_bytes;
	char pool_driver[16]; /* "btrfs" or "dir" */
	char cgroup[96];      /* where the sandboxes' groups are */
	char microvm[200];    /* why it is not there, or emulated; or "" */
};

enum door_flags {
	DOOR_SELF = 1, /* also where the sandbox hears of itself */
	DOOR_FLAGS_ALL = 1,
};

struct door_spec {
	char id[ID_CAP];
	uint32_t flags;
};

struct door_done {
	uint32_t fds; /* enum gate_fd */
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
		struct import_spec import;
		struct snapshot_spec snapshot;
		struct pause_spec pause;
		struct view_spec view;
		struct volume_spec volume;
		struct door_spec door;
		struct pool_spec pool;
	};
};

struct warden_rep {
	uint16_t version, op;
	uint32_t zero;
	uint64_t seq;
	struct err err; /* code 0: done */
	union {
		char id[ID_CAP];
		struct launch_spec launch; /* also of WARDEN_NEXT and
					      WARDEN_SNAPSHOT_NEXT */
		struct sandbox_use use;
		struct last_use last; /* `id` is at the same place */
		struct host_info host;
		struct snapshot_done snapshot;
		struct volume_spec volume; /* of WARDEN_VOLUME_NEXT */
		struct door_done door;
		struct pool_spec pool;
	};
};
