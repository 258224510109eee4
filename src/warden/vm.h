/*
 * What a sandbox with a kernel of its own is made of, and the templates that
 * they start as (template.c). For vm.c and template.c.
 */
#pragma once

#include "sandbox/vm/launch.h"
#include "warden/warden.h"

/* How long a guest and QEMU may take: emulation on a busy host is slow. */
enum { VM_BOOT_MS = 120 * 1000, VM_WAKE_MS = 30 * 1000, VM_QMP_MS = 30 * 1000 };

/* In children: to the monitor of this machine. */
int vm_qmp_connect(const struct warden *w, const char *id,
		   struct err *e) MUST_CHECK;
/* Memory for a machine, and to start from: nobody can change it any more. */
int vm_memory_new(uint64_t bytes, struct err *e) MUST_CHECK;
int vm_memory_seal(int fd, struct err *e) MUST_CHECK;

/*
 * The template for machines like this. TEMPLATE_WAIT: `done` comes later, as
 * with vm_base_wait(). TEMPLATE_NONE: there are too many; it has to boot.
 */
enum { TEMPLATE_READY, TEMPLATE_WAIT, TEMPLATE_NONE };
int template_wait(struct warden *w, const struct launch_spec *s,
		  struct base_wait *wait, struct err *e) MUST_CHECK;
/* It is ready: the sandbox starts as one, with this memory. */
int template_take(struct box *b, struct vm_files *f, struct err *e) MUST_CHECK;

/* Of the sandbox that becomes one (b->makes). In a child: until all of it is
 * in the pool. */
int template_save(struct template *t, const char *box, int ram_fd,
		  struct err *e) MUST_CHECK;
/* What the guest is told of flags. */
uint32_t template_flags(const struct template *t);
