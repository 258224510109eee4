/*
 * Settings of the host that give code which escaped one wall less to work
 * with. None of them is needed; each takes away something that past attacks
 * have used.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fd.h"
#include "cli/doctor.h"

/* A knob that should be at least `good`, or 0 when that is 0. */
struct knob {
	const char *path, *sysctl;
	long good;
	const char *danger;
};

static void check_knob(const struct knob *k, struct finding *f)
{
	char text[64], remedy[128];
	long value;

	if (read_file_at(AT_FDCWD, k->path, text, sizeof(text)) <= 0) {
		found(f, "not in this kernel");
		return;
	}
	text[strcspn(text, "\n")] = '\0';
	value = strtol(text, NULL, 10);
	if (k->good == 0 ? value == 0 : value >= k->good) {
		found(f, "%s = %s", k->sysctl, text);
		return;
	}
	snprintf(remedy, sizeof(remedy), "sysctl -w %s=%ld", k->sysctl,
		 k->good);
	lacks(f, LEVEL_WARNING, remedy, "%s = %s: %s", k->sysctl, text,
	      k->danger);
}

#define KNOB(fn, file, name, value, why)                                       \
	static void fn(const struct conf *c, struct finding *f)                \
	{                                                                      \
		static const struct knob k = { "/proc/sys/" file, name, value, \
					       why };                          \
		(void)c;                                                       \
		check_knob(&k, f);                                             \
	}

KNOB(check_io_uring, "kernel/io_uring_disabled", "kernel.io_uring_disabled", 1,
     "users of this host may use io_uring")
KNOB(check_bpf, "kernel/unprivileged_bpf_disabled",
     "kernel.unprivileged_bpf_disabled", 1, "any user may load BPF programs")
KNOB(check_kptr, "kernel/kptr_restrict", "kernel.kptr_restrict", 1,
     "addresses of the kernel can be read")
KNOB(check_dmesg, "kernel/dmesg_restrict", "kernel.dmesg_restrict", 1,
     "any user may read the kernel's log")
KNOB(check_yama, "kernel/yama/ptrace_scope", "kernel.yama.ptrace_scope", 1,
     "processes may trace others of the same user")
KNOB(check_tiocsti, "dev/tty/legacy_tiocsti", "dev.tty.legacy_tiocsti", 0,
     "a program can type into the terminal it runs on")

static void check_core(const struct conf *c, struct finding *f)
{
	char text[256];

	(void)c;
	if (read_file_at(AT_FDCWD, "/proc/sys/kernel/core_pattern", text,
			 sizeof(text)) <= 0)
		return;
	text[strcspn(text, "\n")] = '\0';
	if (text[0] != '|')
		found(f, "no program is started for core dumps");
	else
		lacks(f, LEVEL_WARNING,
		      "sysctl -w kernel.core_pattern=core, unless you need it",
		      "crashes start a program of the host as root: %.80s",
		      text + 1);
}

static void check_swap(const struct conf *c, struct finding *f)
{
	char text[1024];
	const char *line;

	(void)c;
	if (read_file_at(AT_FDCWD, "/proc/swaps", text, sizeof(text)) <= 0) {
		found(f, "none");
		return;
	}
	line = strchr(text, '\n');
	if (!line || !line[1])
		found(f, "none");
	else
		lacks(f, LEVEL_WARNING,
		      "swapoff -a, or encrypt it: memory of sandboxes may "
		      "reach the disk",
		      "in use");
}

static void check_ksm(const struct conf *c, struct finding *f)
{
	char text[16];

	(void)c;
	if (read_file_at(AT_FDCWD, "/sys/kernel/mm/ksm/run", text,
			 sizeof(text)) <= 0 ||
	    strtol(text, NULL, 10) != 1)
		found(f, "off");
	else
		lacks(f, LEVEL_WARNING, "echo 2 > /sys/kernel/mm/ksm/run",
		      "on: the time of a write tells what others have in "
		      "memory");
}

const struct check hardening_checks[] = {
	{ "hardening", "io_uring",
	  "a large part of the kernel with many past holes", check_io_uring },
	{ "hardening", "bpf", "lets users run code in the kernel", check_bpf },
	{ "hardening", "kernel pointers", "exploits need addresses",
	  check_kptr },
	{ "hardening", "kernel log", "exploits need addresses", check_dmesg },
	{ "hardening", "ptrace", "one process of a user takes over another",
	  check_yama },
	{ "hardening", "terminal input", "typing into somebody's shell",
	  check_tiocsti },
	{ "hardening", "core dumps",
	  "a helper that root runs on input of a "
	  "sandbox",
	  check_core },
	{ "hardening", "swap", "memory that stays on disk", check_swap },
	{ "hardening", "same-page merging", "a side channel between sandboxes",
	  check_ksm },
	{ 0 },
};
