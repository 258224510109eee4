/*
 * The configuration: one file of `key = value` lines, one table of keys. All
 * roles and the command line read the same file. An unknown key, a repeated
 * key or a bad value is an error that names the line. Keys that an earlier
 * version had are accepted without effect; the supervisor warns about them.
 *
 * Everything an installation owns can be moved here, so that a second one
 * (a test) never meets the first.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/log.h"

enum { CONF_PATH = 96 }; /* unix socket names must fit in 108 bytes */

struct conf {
	char state_dir[CONF_PATH];    /* registry, pool file, FORMAT */
	char run_dir[CONF_PATH];      /* sockets, one directory per sandbox */
	char libexec_dir[CONF_PATH];  /* our programs */
	char user[32];                /* of the api role */
	char group[32];               /* who may use the api socket */
	char log_user[32];            /* of the scribe; its group may read */
	uint64_t audit_segment_bytes; /* a file of the log */
	uint64_t audit_spool_bytes;   /* that wait for the log, at most */
	char audit_keep[16];          /* "0": all; "10G", "90d": that much */
	char audit_reads[8];    /* "yes": requests that change nothing too */
	char pool[CONF_PATH];   /* "auto", or a directory */
	char pool_driver[16];   /* "auto", "btrfs" or "dir" */
	uint64_t pool_bytes;    /* of the loop file; 0: by free space */
	char cgroup[CONF_PATH]; /* parent group; "auto" */
	uint64_t uid_base;      /* first id of the sandboxes' ranges */
	uint64_t uid_count;     /* ids from there */
	uint64_t max_sandboxes;
	uint64_t project_sandboxes; /* at once; 0: a part, see admission.h */
	uint64_t keep_apart;        /* busy sandboxes from others: 1 */
	uint64_t memory_reserve;    /* of the host; below it nothing starts */
	uint64_t spares;            /* sandboxes kept waiting for a create... */
	uint64_t microvm_spares;    /* ...of the other tier */
	uint64_t microvm_silence_ms;
	uint64_t microvm_patience; /* factor of their time limits */
	char image[64];            /* default image */
	uint64_t cpus_milli, mem_bytes, disk_bytes, pids; /* defaults */
	uint64_t project_disk;  /* all that a project has; 0: without end */
	uint64_t timeout_ms;    /* default life; 0: none */
	char allow_missing[64]; /* walls or limits this host may lack: "disk" */
	/* Clients over TCP, see api/tcp.h and api/hosts.h. */
	char listen[64];          /* "127.0.0.1:7070"; "": none */
	uint64_t listen_insecure; /* other hosts without TLS: 1 */
	char tls_cert[256], tls_key[256];
	char domain[128];              /* previews are below it; "": by path */
	char allowed_hosts[256];       /* names of this server: "a, b" */
	uint64_t client_timeout_ms;    /* in which nothing moved */
	uint64_t max_peer_connections; /* of one address; 0: any number */
	/* Silence of a server in a sandbox in the middle of a request. */
	uint64_t port_timeout_ms;
	uint64_t stray_days;     /* retention of strays; 0: for ever */
	uint64_t drive_bytes;    /* of a project's drive, all versions */
	uint64_t drive_versions; /* of a file that are kept */
	/* Registries of images, see wire/fetch.h: "host[:port], *.domain". */
	char registries[512], registries_insecure[512];
	char registries_ca[256]; /* PEM: who may vouch for them */
	uint64_t blobs_bytes;    /* of them that are kept, at most */
	/* The gate, see src/gate/. */
	char gate_user[32];
	char resolver[256]; /* "ADDRESS[:PORT], ..."; "": the host's own */
	char gate_ca[256];  /* PEM: who may vouch for servers outside */
	char upstream_proxy[256]; /* "http://[USER:PASSWORD@]HOST:PORT" */
	uint64_t ask_timeout_ms;  /* a request that nobody decided on */
	char ask_webhook[256];    /* URL that hears of each */
	uint64_t e2b_internet; /* sandboxes made over E2B: the web is open: 1 */
	char vault_key_command[256]; /* prints the vault's key; "": a file */
	char presets_dir[CONF_PATH]; /* policies that come with us */
	char vm_dir[CONF_PATH];      /* kernel and disks of microVMs */
	char require_microvm[1024];  /* who may not be a container */
	char microvm[16];            /* auto, kvm, emulated or off */
	char tier[16];               /* of sandboxes that name none */
	char models[CONF_PATH];      /* model APIs and what they cost */
	uint64_t mcp_idle_ms;  /* sessions nobody has to do with; 0: stay */
	uint64_t mcp_pause_ms; /* their sandboxes, when idle; 0: never */
	uint64_t mcp_fixture;  /* 1: what the conformance suite calls */
	char log_level[8];
	const char *retired; /* key of the file without effect, or NULL */
#ifdef WALLS_TEST
	char wall_off[32]; /* the one wall a test takes away */
	char guard_off[32];
#endif
};

/*
 * Defaults, then the file. `path` NULL means the default file, which may be
 * missing; a file that was named must be there.
 */
int conf_load(struct conf *c, const char *path, struct err *e) MUST_CHECK;
enum log_level conf_log_level(const struct conf *c);
/* Parses `--config FILE` of a role (nothing else is accepted). */
int conf_from_args(struct conf *c, int argc, char **argv,
		   struct err *e) MUST_CHECK;
