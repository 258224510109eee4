/*
 * System-call filters. The policies are the text files beside this header;
 * tools/mkfilter compiles each into an array of BPF instructions at build
 * time, so that a launch only hands the array to the kernel.
 */
#pragma once

#include <linux/filter.h>
#include <stddef.h>

#include "base/err.h"

struct seccomp_filter {
	const char *name;
	const struct sock_filter *code;
	unsigned short len;
};

/* What runs inside a sandbox: user processes, and sudo's. */
extern const struct seccomp_filter filter_sandbox;
/* The same for who has inherited the agent's: what is missing to it. */
extern const struct seccomp_filter filter_child;
/* Our own programs: an unexpected call is a bug, or an attack, and kills. */
extern const struct seccomp_filter filter_agent; /* superset of sandbox's */
extern const struct seccomp_filter filter_api;
extern const struct seccomp_filter filter_scribe;
extern const struct seccomp_filter filter_warden;
extern const struct seccomp_filter filter_worker;
extern const struct seccomp_filter filter_fetch;
extern const struct seccomp_filter filter_viewer;
extern const struct seccomp_filter filter_base; /* superset of viewer's */
extern const struct seccomp_filter filter_relay;
extern const struct seccomp_filter filter_qemu;
extern const struct seccomp_filter filter_qemu_main; /* on top of it */
extern const struct seccomp_filter filter_gate;      /* its doors */
extern const struct seccomp_filter filter_starter;   /* superset of gate's */
extern const struct seccomp_filter filter_keeper;

/*
 * Installs for this thread. no_new_privs must be set, or CAP_SYS_ADMIN be
 * there. 0 or -errno. Async-signal-safe: used between fork and exec.
 */
int seccomp_install(const struct seccomp_filter *f) MUST_CHECK;
