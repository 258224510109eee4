/* What this host has for VMs. */
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "base/auto.h"
#include "sandbox/vm/launch.h"
#include "sandbox/vm/written.h"

enum { MEASURE_MS = 20 };

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* QEMU's emulation gives the guest the counter of the host as it is. */
static uint64_t measure_tsc_khz(void)
{
	uint64_t t0 = now_ns(), c0 = __rdtsc(), t1, c1;

	usleep(MEASURE_MS * 1000);
	t1 = now_ns();
	c1 = __rdtsc();
	return (c1 - c0) * 1000000 / (t1 - t0);
}

static int look_at(const char *path, uint64_t out[2], struct err *e)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return err_sys(e, "look at %s", path);
	out[0] = (uint64_t)st.st_size;
	out[1] = (uint64_t)st.st_mtim.tv_sec * 1000000000 +
		 (uint64_t)st.st_mtim.tv_nsec;
	return 0;
}

/* What it is made of, to the stepping. */
static void look_at_cpu(uint32_t out[4])
{
	uint32_t a, b, c, d;

	if (__get_cpuid(0, &a, &b, &c, &d)) {
		out[0] = b;
		out[1] = c;
		out[2] = d;
	}
	if (__get_cpuid(1, &a, &b, &c, &d))
		out[3] = a;
}

const char *vm_program(const struct vm_host *h)
{
	return h->kvm && h->small ? VM_QEMU_SMALL : VM_QEMU;
}

int vm_host_open(struct vm_host *h, struct err *e)
{
	static const char qemu[] = VM_QEMU;
	static const char *const files[] = { "vmlinux", "initrd", "disk.ext4" };
	char path[CONF_PATH + 16];
	size_t i;

	if (access(qemu, X_OK) < 0)
		return err_set(e, ENOTSUP,
			       "the microvm tier needs %s: install "
			       "qemu-system-x86",
			       qemu);
	for (i = 0; i < ARRAY_LEN(files); i++) {
		snprintf(path, sizeof(path), "%s/%s", h->dir, files[i]);
		if (access(path, R_OK) < 0)
			return err_set(e, ENOTSUP,
				       "the microvm tier needs %s: run `make "
				       "up` or `make vm install`",
				       path);
		if (i < 2 && look_at(path, h->files + 4 + 2 * i, e) < 0)
			return -e->code;
	}
	h->small = access(VM_QEMU_SMALL, X_OK) == 0;
	if (look_at(qemu, h->files, e) < 0 ||
	    (h->small && look_at(VM_QEMU_SMALL, h->files + 2, e) < 0))
		return -e->code;
	look_at_cpu(h->cpu);
	/* The last of them, which is needed from where no path leads to it. */
	h->empty_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (h->empty_fd < 0)
		return err_sys(e, "open %s", path);
	h->track_fd = written_library(e);
	if (h->track_fd < 0)
		return h->track_fd;
	h->tsc_khz = measure_tsc_khz();
	return 0;
}
