/*
 * The api role: HTTP on a unix socket (and TCP, if asked for), the registry,
 * the lifecycle of sandboxes and images, and the relay between clients and
 * agents. One thread, one loop, no privileges: what needs root is asked of the
 * warden.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/admission.h"
#include "api/approvals.h"
#include "api/audit.h"
#include "api/auth.h"
#include "api/blobs.h"
#include "api/disk_sync.h"
#include "api/drive.h"
#include "api/e2b/template.h"
#include "api/e2b/volume.h"
#include "api/ended.h"
#include "api/event.h"
#include "api/fair.h"
#include "api/gate.h"
#include "api/grants.h"
#include "api/idempotency.h"
#include "api/images.h"
#include "api/keys.h"
#include "api/lifetime.h"
#include "api/mcp/session.h"
#include "api/metrics.h"
#include "api/policies.h"
#include "api/pool_id.h"
#include "api/pools.h"
#include "api/port.h"
#include "api/project_disk.h"
#include "api/reconcile.h"
#include "api/sandboxes.h"
#include "api/secrets.h"
#include "api/snapshots.h"
#include "api/strays.h"
#include "api/tcp.h"
#include "api/volumes.h"
#include "api/warden_link.h"
#include "base/conf.h"
#include "base/loop.h"
#include "http/server.h"
#include "registry/registry.h"

enum {
	BODY_MAX = 256 * 1024, /* of a JSON body */
	JSON_DEPTH_MAX = 12,
	RELAYS_MAX = 4096,               /* upgraded connections at once */
	SURVEYS_MAX = 16,                /* looks at what all sandboxes use */
	PS_BYTES_MAX = 64 * 1024 * 1024, /* of lists of processes */
	OUTPUT_MAX_ALL = 512 * 1024 * 1024, /* kept for all commands */
	IMPORTS_MAX = 4,                    /* images being filled at once */
};

struct api {
	struct conf conf;
	char boot_id[40];
	struct loop loop;
	struct registry registry;
	struct http_server http;
	struct http_server inner; /* inner.h: our own requests */
	int listen_fd;            /* -1 once we serve */
	struct tcp tcp;
	struct ports ports;
	bool reconciled; /* with the warden, once */
	struct warden_link warden;
	struct gates gates;
	struct grants grants;
	struct approvals approvals;
	struct gate_count egress; /* of all, since our start */
	struct reconcile reconcile;
	struct pool_id pool_id;
	struct strays strays;
	struct keys keys;
	struct auth auth;
	struct fair fair;
	struct pools pools;
	struct admission admission;
	struct boxes boxes;
	struct list accounts[ACCOUNT_BUCKETS];
	struct ends ends;
	struct ledger ledger;
	struct list views;        /* view_job.h: those at work */
	struct list merges;       /* merge.h: the same */
	struct list moves;        /* move.h: the same */
	struct list replays;      /* creates under way that have a key */
	struct list e2b_watchers; /* e2b/envd_fs_poll.c */
	struct images images;
	struct snapshots snapshots;
	struct metrics metrics;
	struct audit_log audit;
	struct events events;
	struct disk_syncs disk_syncs;
	struct drive drive;
	struct volumes volumes;
	struct templates templates; /* of the E2B API */
	struct e2b_volumes e2b_volumes;
	struct policies policies;
	struct secrets secrets;
	struct blobs blobs;
	struct mcp mcp;
	unsigned n_imports, n_backups;
	struct timer late; /* the warden did not come up in time */
	uint64_t started_ms;
	struct timer checkpoint; /* of the registry */
	struct io signals;
};

/* Root's part of the start: directories, socket, then no way back. */
int api_set_up(struct api *a, struct err *e) MUST_CHECK;
/* Nothing but the filter is missing behind this. */
int api_drop_privileges(const struct api *a, struct err *e) MUST_CHECK;
/* The database and the pool do not fit: clients are told so (pool_id.h). */
void api_hold(struct api *a);
/* The registry was written to: have its log folded in when it is quiet. */
void api_registry_touched(struct api *a);
