/* The compiled filters (policies beside this file), and how to install one. */
#include "seccomp/seccomp.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct sock_filter code_sandbox[] = {
#include "seccomp/sandbox.inc"
};
static const struct sock_filter code_child[] = {
#include "seccomp/child.inc"
};
static const struct sock_filter code_agent[] = {
#include "seccomp/agent.inc"
};
static const struct sock_filter code_api[] = {
#include "seccomp/api.inc"
};
static const struct sock_filter code_scribe[] = {
#include "seccomp/scribe.inc"
};
static const struct sock_filter code_warden[] = {
#include "seccomp/warden.inc"
};
static const struct sock_filter code_fetch[] = {
#include "seccomp/fetch.inc"
};
static const struct sock_filter code_worker[] = {
#include "seccomp/worker.inc"
};
static const struct sock_filter code_viewer[] = {
#include "seccomp/viewer.inc"
};
static const struct sock_filter code_base[] = {
#include "seccomp/base.inc"
};
static const struct sock_filter code_relay[] = {
#include "seccomp/relay.inc"
};
static const struct sock_filter code_qemu[] = {
#include "seccomp/qemu.inc"
};
static const struct sock_filter code_qemu_main[] = {
#include "seccomp/qemu_main.inc"
};
static const struct sock_filter code_gate[] = {
#include "seccomp/gate.inc"
};
static const struct sock_filter code_starter[] = {
#include "seccomp/starter.inc"
};
static const struct sock_filter code_keeper[] = {
#include "seccomp/keeper.inc"
};

/* clang-format off */
#define FILTER(n) \
	_Static_assert(sizeof(code_##n) / sizeof(code_##n[0]) < BPF_MAXINSNS, \
		       "longer than the kernel takes"); \
	const struct seccomp_filter filter_##n = { \
		.name = #n, .code = code_##n, \
		.len = sizeof(code_##n) / sizeof(code_##n[0]), \
	}
/* clang-format on */

FILTER(sandbox);
FILTER(child);
FILTER(agent);
FILTER(api);
FILTER(scribe);
FILTER(warden);
FILTER(worker);
FILTER(fetch);
FILTER(viewer);
FILTER(base);
FILTER(relay);
FILTER(qemu);
FILTER(qemu_main);
FILTER(gate);
FILTER(starter);
FILTER(keeper);

int seccomp_install(const struct seccomp_filter *f)
{
	struct sock_fprog prog = {
		.len = f->len,
		.filter = (struct sock_filter *)f->code,
	};

	/*
	 * No flags: SPEC_ALLOW would switch mitigations off, and there is one
	 * thread. glibc has no wrapper.
	 */
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		return -errno;
	return 0;
}
