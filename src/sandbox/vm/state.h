/*
 * The state of a machine beside its disk, as files in the same tree: whoever
 * copies the tree has disk and memory of one moment.
 *
 *	memory	  what it started with, shared with its template; it stays, and
 *		  has the time of the template's, by which they are known
 *	changed	  the pages that it has written since (ram.h)
 *	devices	  those of QEMU
 *	held	  the disk of that moment, when the machine has gone on before
 *		  the tree was copied; then `disk` is of another one
 *	shape	  which QEMU can go on with it (shape.h), and whose it was
 *
 * Saving and loading wait for QEMU and the guest, so they are for children of
 * the warden.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "sandbox/vm/control.h"
#include "sandbox/vm/qmp.h"
#include "sandbox/vm/ram.h"

#define STATE_MEMORY "memory"
#define STATE_CHANGED "changed"
#define STATE_DISK "disk"
#define STATE_HELD "held"
#define STATE_HELD_HALF STATE_HELD ".new"
#define STATE_DEVICES "devices"
#define STATE_SHAPE "shape"

/* Which machine. */
struct state_of {
	int run_fd;      /* its run directory: no other machine is reached */
	int process_fd;  /* QEMU's directory of /proc */
	int pid_fd;      /* QEMU itself; or -1, see ram.h */
	int tree_fd;     /* of its volume */
	int template_fd; /* the memory of its template, to be shared; or -1 */
	uint64_t bytes;  /* of memory */
	bool disk_only;  /* no memory: it stands still for its disk */
	const char *id, *hostname, *key;
};

struct state_save {
	const struct state_of *of;
	int qmp_fd;
	struct control_line control;
	bool held, stopped;
	int disk_fd; /* -1: it is not shared in a moment */
	struct qmp qmp;
	struct ram_save ram;
	int changed_fd;
};

/* While it runs: whatever takes long. */
int state_save_begin(struct state_save *s, const struct state_of *of,
		     struct err *e) MUST_CHECK;
/* It stands still, and the files are as it is. */
int state_save_end(struct state_save *s, struct err *e) MUST_CHECK;
/*
 * It goes on before the tree is copied, where its disk can be put aside in a
 * moment; where not, it still stands still, and nothing failed.
 */
int state_save_go_on(struct state_save *s, struct err *e) MUST_CHECK;
/* The files go, and the machine goes on unless it shall `stay`; also after a
 * failure, and what then fails, too, is the error. */
int state_save_close(struct state_save *s, bool stay, struct err *e) MUST_CHECK;

struct state_shape {
	char key[ID_CAP], id[ID_CAP];
};
/* Is there memory beside this disk, and of which shape? ENOENT. */
int state_shape(int tree_fd, struct state_shape *s, struct err *e) MUST_CHECK;
/* A name for what is in a file of memory. */
int state_memory_name(int file_fd, char name[ID_CAP], struct err *e) MUST_CHECK;
/* Into a QEMU that waits for it; it goes on then as who it is now, and the
 * files go. */
int state_load(const struct state_of *of, struct err *e) MUST_CHECK;
/* In a tree that was copied from that of a machine: its disk is the one that
 * belongs to its state. */
int state_take_disk(int tree_fd, struct err *e) MUST_CHECK;
/* They are not needed, or not true any more. */
int state_drop(int tree_fd, struct err *e) MUST_CHECK;
/* Nor is what it started with: it boots. */
int state_forget(int tree_fd, struct err *e) MUST_CHECK;
/* It goes on, stopped or held or not. */
int state_go_on(const struct state_of *of, struct err *e) MUST_CHECK;
