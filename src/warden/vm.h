/*
 * What a sandbox with a kernel of its own is made of, and the templates that
 * they start as (template.c). For vm.c, template.c and kvm.c.
 */
#pragma once

#include "sandbox/vm/control.h"
#include "sandbox/vm/launch.h"
#include "warden/warden.h"

/* How long a guest and QEMU may take: emulation on a busy host is slow. */
enum { VM_BOOT_MS = 120 * 1000, VM_WAKE_MS = 30 * 1000, VM_QMP_MS = 30 * 1000 };

/*
 * The line of a console with which the kernel gave up, or else the last line
 * that gives a reason: lines about the reboot itself are skipped.
 */
enum { VM_LINE_CAP = 161 };
void vm_last_line(struct buf *b, char out[VM_LINE_CAP]);

/* In children: to the monitor of this machine. */
int vm_qmp_connect(const struct warden *w, const char *id,
		   struct err *e) MUST_CHECK;
/* Memory for a machine, and to start from: nobody can change it any more. */
int vm_memory_new(uint64_t bytes, struct err *e) MUST_CHECK;
int vm_memory_seal(int fd, struct err *e) MUST_CHECK;

/*
 * The template for machines like this (b->template). TEMPLATE_WAIT: `done` of
 * b->base comes later, as with vm_base_wait(). TEMPLATE_NONE: there are too
 * many; it has to boot.
 */
enum { TEMPLATE_READY, TEMPLATE_WAIT, TEMPLATE_NONE };
int template_wait(struct box *b, struct err *e) MUST_CHECK;
/* The same for one that goes on from a snapshot, whose tree this is: what it
 * started with, of a template that is there or not. Never TEMPLATE_NONE. */
int template_wait_memory(struct box *b, int tree_fd, struct err *e) MUST_CHECK;
/* The file with the memory of a template in the pool, to be read. */
int template_memory(struct warden *w, const char *key,
		    struct err *e) MUST_CHECK;
/* It is ready: the sandbox starts as one, with this memory. */
int template_take(struct box *b, struct vm_files *f, struct err *e) MUST_CHECK;

/* Of the sandbox that becomes one (b->makes). In a child: until all of it is
 * in the pool. Says how slow emulation is, if that is not known. */
struct template_of {
	const char *box;
	int ram_fd, process_fd;
	uint32_t slow_tenths;
};
int template_save(struct template *t, struct template_of *of,
		  struct err *e) MUST_CHECK;
/* What the guest is told of flags. */
uint32_t template_flags(const struct template *t);

/* speed.c: how much slower an emulated machine is than the host, in tenths. */
bool speed_wanted(const struct warden *w);
/* In a child: asks a guest without users. 0: it could not be found out. */
uint32_t speed_measure(struct control_line *line);
void speed_note(struct warden *w, uint32_t tenths);

/* vm_state.c */
/* Has what it started with loaded when its snapshot has memory, that this host
 * can go on with: b->goes_on. As template_wait(). */
int vm_state_wait(struct box *b, struct err *e) MUST_CHECK;
/* The shape that it was started with; a newer QEMU may be there by now. */
void vm_shape_of(const struct box *b, int run_fd, char key[ID_CAP]);
/* Its run directory: who has it reaches no other machine of that id. */
int vm_run_open(const struct box *b, struct err *e) MUST_CHECK;
/* A disk that is kept, or written to, has no state beside it that fits: one
 * that stayed would be taken for its own. Also of what is no machine. */
int vm_state_drop(struct warden *w, const char *id, struct err *e) MUST_CHECK;
/* What this machine runs with: not always what new ones do. */
struct vm_host vm_host_of(const struct box *b);
/* The directory of its QEMU in /proc. Not in a child: there its number may be
 * somebody else's by then. */
int vm_process_open(const struct box *b, struct err *e) MUST_CHECK;
/* In a child: it goes on where the snapshot was made. */
int vm_state_load(const struct box *b, int process_fd,
		  struct err *e) MUST_CHECK;
/* For the child that makes a snapshot; `tree_fd` of its volume. */
struct state_of vm_state_of(const struct box *b, int tree_fd);
/* Whatever somebody did to it: it goes on, soon. */
void vm_go_on(struct box *b);
