/*
 * What QEMU is told. The machine is `microvm`: no PCI, no network card, and
 * qboot as its firmware. Three traps of Debian's kernel: without ACPI it finds
 * no virtio device, without the RTC it waits two seconds for one, and under
 * emulation it must be told how fast the counter of the host runs.
 */
#include "sandbox/vm/command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"

/* What QEMU may keep of translated code: it is inside VM_QEMU_BYTES. */
#define TCG_MIB "64"

/* One argument. What does not fit is said once, at the end. */
static void put(struct vm_command *c, const char *fmt, va_list ap)
{
	size_t room = sizeof(c->text) - c->used;
	int len = vsnprintf(c->text + c->used, room, fmt, ap);

	if (len < 0 || (size_t)len >= room || c->n >= VM_ARGS_MAX) {
		c->full = true;
		return;
	}
	c->argv[c->n++] = c->text + c->used;
	c->used += (size_t)len + 1;
}

static void word(struct vm_command *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void word(struct vm_command *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put(c, fmt, ap);
	va_end(ap);
}

/* An option and its value. */
static void opt(struct vm_command *c, const char *name, const char *fmt, ...)
	PRINTF_LIKE(3, 4);
static void opt(struct vm_command *c, const char *name, const char *fmt, ...)
{
	va_list ap;

	word(c, "%s", name);
	va_start(ap, fmt);
	put(c, fmt, ap);
	va_end(ap);
}

uint64_t vm_ram_bytes(const struct launch_spec *s)
{
	const uint64_t mib = 1 << 20;

	return (s->mem_bytes + VM_KERNEL_BYTES + mib - 1) / mib * mib;
}

unsigned vm_processors(const struct launch_spec *s)
{
	return (unsigned)((s->cpus_milli + 999) / 1000);
}

uint64_t vm_volume_bytes(const struct launch_spec *s)
{
	return s->disk_bytes + VM_STATES * vm_ram_bytes(s);
}

static void machine(struct vm_command *c, const struct vm_host *h,
		    const struct launch_spec *s)
{
	opt(c, "-name", "%s", s->id); /* for who looks at processes */
	word(c, "-nodefaults");
	word(c, "-no-user-config");
	word(c, "-no-reboot"); /* a guest that restarts has ended */
	opt(c, "-display", "none");
	/* Its own filter, on top of ours (seccomp/qemu.policy). The small one
	 * has none. */
	if (strcmp(vm_program(h), VM_QEMU) == 0)
		opt(c, "-sandbox",
		    "on,obsolete=deny,elevateprivileges=deny,spawn=deny,"
		    "resourcecontrol=deny");
	/* No page is shared with another VM because it is the same (KSM): how
	 * long a write takes would tell what others have. */
	opt(c, "-M",
	    "microvm,acpi=on,rtc=on,isa-serial=on,pic=off,pit=off,"
	    "x-option-roms=off,suppress-vmdesc=on,memory-backend=ram,"
	    "dump-guest-core=off,mem-merge=off");
	/* The default of Debian 13 is SeaBIOS, which is slower and lies
	 * outside of /usr/share/qemu (launch.c). */
	opt(c, "-bios", "qboot.rom");
	opt(c, "-accel", "%s", h->kvm ? "kvm" : "tcg,tb-size=" TCG_MIB);
	/* No machines inside of machines. */
	opt(c, "-cpu", "%s,-vmx,-svm", h->kvm ? "host" : "max");
	opt(c, "-m", "%lluM", (unsigned long long)vm_ram_bytes(s) >> 20);
	opt(c, "-smp", "%u", vm_processors(s));
}

/* QEMU opens it for writing in any case: what others start from is sealed. */
static void memory(struct vm_command *c, const struct launch_spec *s,
		   enum vm_mode mode)
{
	opt(c, "-object",
	    "memory-backend-file,id=ram,mem-path=/proc/self/fd/%d,size=%lluM,"
	    "share=%s",
	    VM_FD_RAM, (unsigned long long)vm_ram_bytes(s) >> 20,
	    mode == VM_TEMPLATE ? "on" : "off");
}

static void socket_at(struct vm_command *c, const char *name, int fd)
{
	opt(c, "-chardev", "socket,id=%s,fd=%d,server=on,wait=off", name, fd);
}

static void ports(struct vm_command *c)
{
	static const char *const names[GUEST_PORTS] = GUEST_PORT_NAMES;
	int i;

	opt(c, "-device", "virtio-serial-device");
	for (i = 0; i < GUEST_PORTS; i++) {
		socket_at(c, names[i], VM_FD_PORT + i);
		opt(c, "-device", "virtserialport,chardev=%s,name=%s", names[i],
		    names[i]);
	}
}

static void devices(struct vm_command *c)
{
	/* As many as the guest has requests, by default: with its group's
	 * limit in the way QEMU would abort. */
	opt(c, "-object", "main-loop,id=loop,thread-pool-max=%d",
	    VM_IO_THREADS);
	opt(c, "-serial", "stdio"); /* the console */
	socket_at(c, "qmp", VM_FD_QMP);
	opt(c, "-mon", "chardev=qmp,mode=control");
	ports(c);
	opt(c, "-add-fd", "fd=%d,set=1", VM_FD_BASE);
	opt(c, "-blockdev",
	    "driver=raw,node-name=base,read-only=on,file.driver=file,"
	    "file.filename=/dev/fdset/1,file.locking=off");
	opt(c, "-device", "virtio-blk-device,drive=base");
	opt(c, "-add-fd", "fd=%d,set=2", VM_FD_DISK);
	opt(c, "-blockdev",
	    "driver=raw,node-name=disk,discard=unmap,file.driver=file,"
	    "file.filename=/dev/fdset/2,file.locking=off");
	/* A full disk is the guest's affair: QEMU would stop it, and nobody
	 * would have it go on. */
	opt(c, "-device",
	    "virtio-blk-device,drive=disk,werror=report,rerror=report");
}

/* What the guest's kernel and its first process are told. */
static void boot(struct vm_command *c, const struct vm_host *h,
		 const struct launch_spec *s, enum vm_mode mode)
{
	char tsc[64] = "";

	if (!h->kvm)
		snprintf(tsc, sizeof(tsc), "tsc_early_khz=%llu tsc=reliable ",
			 (unsigned long long)h->tsc_khz);
	opt(c, "-kernel", "/vm/vmlinux");
	opt(c, "-initrd", "/vm/initrd");
	if (mode == VM_PROBE) {
		opt(c, "-append",
		    "console=ttyS0 quiet panic=-1 reboot=t %s-- " GUEST_WORD
		    "probe=1",
		    tsc);
		return;
	}
	opt(c, "-append",
	    "console=ttyS0 quiet panic=-1 reboot=t %scryptomgr.notests "
	    "lsm=capability "
	    "audit=0 init_on_alloc=0 random.trust_cpu=on -- " GUEST_WORD
	    "id=%s " GUEST_WORD "image=%s " GUEST_WORD "hostname=%s " GUEST_WORD
	    "flags=%u " GUEST_WORD "pids=%u " GUEST_WORD "nofile=%u " GUEST_WORD
	    "cpus=%llu " GUEST_WORD "memory=%llu%s",
	    tsc, s->id, s->image, s->hostname,
	    s->flags & (uint32_t)(LAUNCH_SUDO | LAUNCH_PERSIST), s->pids,
	    s->nofile, (unsigned long long)s->cpus_milli,
	    (unsigned long long)s->mem_bytes,
	    mode == VM_TEMPLATE      ? " " GUEST_WORD "settle=1"
	    : s->flags & LAUNCH_LOOK ? " " GUEST_WORD "look=1"
				     : "");
}

/* Its devices alone come from outside: the memory is there. */
static void wait_for_state(struct vm_command *c)
{
	opt(c, "-global", "migration.send-configuration=off");
	opt(c, "-incoming", "defer");
}

int vm_command(struct vm_command *c, const struct vm_host *h,
	       const struct launch_spec *s, enum vm_mode mode, struct err *e)
{
	*c = (struct vm_command){ 0 };
	word(c, "%s", vm_program(h));
	machine(c, h, s);
	memory(c, s, mode);
	if (mode == VM_PROBE)
		opt(c, "-serial", "stdio");
	else
		devices(c);
	if (mode == VM_RESTORE)
		wait_for_state(c);
	else
		boot(c, h, s, mode);
	if (c->full)
		return err_set(e, E2BIG,
			       "the command line of QEMU is too long");
	return 0;
}
