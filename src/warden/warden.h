/*
 * The warden: the only privileged role. This header is its whole state; one
 * file per concern:
 *
 *	main.c	    start-up, in order
 *	confine.c   the small world it locks itself into
 *	claim.c	    the parent control group is ours alone
 *	serve.c	    connections, the table of requests, their validation
 *	lists.c	    lists of what there is
 *	box.c	    sandboxes: launch, end, clean up
 *	connect.c   sockets inside a sandbox's network, for previews
 *	door.c	    those of its door (sandbox/net/)
 *	relay.c	    what leads there from a VM
 *	copies.c    disks for forks, made ahead
 *	volume.c    volumes that sandboxes are launched with
 *	turn.c	    what is done to a sandbox, one after the other
 *	snapshot.c  snapshots, and disks that start as one
 *	pause.c	    standing still
 *	resize.c    other limits for one that runs
 *	record.c    what is written down about them, and adoption after a crash
 *	slots.c	    ranges of ids, parts made ahead
 *	worker.c    programs that look at foreign bytes, walled in
 *	import.c    workers that fill images
 *	vm.c	    sandboxes with a kernel of their own
 *	kvm.c	    whether they can have the processor itself
 *	speed.c	    how slow they are without
 *	template.c  machines that they start as
 *	vm_state.c  those that go on with their memory
 *	view.c	    workers that look at states of disks
 *	base.c	    workers that make the disks of images for microVMs
 *	fetch.c     workers that speak to registries
 *	sweep.c	    destroys discarded volumes
 *	job.c	    slow work in a child
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/conf.h"
#include "base/list.h"
#include "base/loop.h"
#include "sandbox/cgroup.h"
#include "sandbox/container/launch.h"
#include "sandbox/container/part.h"
#include "sandbox/vm/launch.h"
#include "store/store.h"
#include "wire/gate.h"
#include "wire/warden.h"

enum {
	SLOT_STRIDE = 0x10100, /* the map, the agent's id, and a gap */
	STOCK_MAX = 16,
	BOX_BUCKETS = 1024,
	IMPORTS_MAX = 8,
	VIEWS_MAX = 16,
	FETCHES_MAX = 4,
	BASES_MAX = 2,
	CONNS_MAX = 8,
};

struct conn {
	struct list node;
	struct io io;
	struct warden *w;
	struct deferred gone;
	bool hello;
	unsigned refs; /* requests that still will be answered */
	bool dead;
};

/* Someone who waits for an answer. */
struct waiter {
	struct list node;
	struct conn *conn;
	uint64_t seq;
	uint16_t op;
	bool told; /* answered already: the rest is silence */
};

/* Who waits for the base of an image; the owner sets `done`. */
struct base_wait {
	struct list node;
	void (*done)(struct base_wait *b, const struct err *e);
};

enum box_state { BOX_LAUNCHING, BOX_RUNNING, BOX_ENDING };

struct box {
	struct list node; /* in its bucket */
	struct warden *w;
	struct launch_spec spec;
	unsigned slot;
	enum box_state state;
	pid_t pid;
	uint64_t start_time;  /* of the process, in the kernel's ticks */
	struct part part;     /* open while launching */
	struct last_use last; /* filled while it ends */
	bool resizing;
	bool in_net; /* a child that is launched is in its own network */
	struct io pid_io, talk_io;
	struct io helper_io;    /* the part's, until it has ended */
	struct timer later;     /* when talk_io is listened to... */
	struct list later_node; /* ...in `unheard` until it was heard */
	int listen_fd;          /* the agent's socket, until it goes to it */
	struct clone *disk;     /* its disk is being made */
	struct vm *vm;          /* NULL: it is none, or has no files yet */
	struct relay *relay;    /* of a VM; NULL: not needed yet */
	struct base_wait base;  /* its image's, while that is being made */
	bool basing;
	bool boots;             /* a VM that starts as no template */
	bool goes_on;           /* a VM whose snapshot has its memory */
	bool emulated;          /* ...from before KVM was found to work */
	char template[ID_CAP];  /* that it started as; "": none */
	struct template *makes; /* it becomes one, and nobody hears of it */
	struct turn *turn;      /* what is being done to it... */
	struct list turns;      /* ...and what waits */
	bool turning, paused;
	int freezer_fd; /* of one that is paused; -1: opened when it is time */
	bool frozen, user_frozen; /* though they should not be: see thaw */
	struct timer thaw;
	int door[GATE_FDS_MAX];     /* in the order of enum gate_fd; -1: none */
	bool door_given;            /* the gate has them, too */
	const struct conn *held_by; /* for whom user processes stand still */
	struct list reclaim_node;
	/* apart.c */
	bool hog;
	unsigned use_milli, hog_looks, place;
	uint64_t looked_us, cpu_us;
	struct timer retry;
	bool pid_gone;
	bool ran;            /* its agent did */
	bool asked;          /* someone asked for its end: no notice */
	bool doomed;         /* by WARDEN_KILL_ALL */
	bool disk_gone;      /* given back, or left where it is */
	struct err failure;  /* why the launch failed */
	struct list waiters; /* of the launch, and of kills */
	struct deferred gone;
};

/*
 * The owner sets the functions: `start` begins, and turn_end() is called when
 * it is done; `over` answers and frees. When the sandbox ends, `box` becomes
 * NULL: then `cancel`, or without one turn_end() comes all the same.
 */
struct turn {
	struct list node;
	struct warden *w;
	struct box *box;
	struct waiter *wt;
	int (*start)(struct turn *t, struct err *e);
	void (*over)(struct turn *t, const struct err *e);
	void (*cancel)(struct turn *t, const struct err *e);
};

/* The owner sets w, work and done; `done` hears what `work` returned. */
struct job {
	struct warden *w;
	int (*work)(struct job *j, struct err *e); /* in the child */
	void (*done)(struct job *j, const struct err *e);
	/* What else the child has to say: sent along in any case. */
	void *answer;
	size_t answer_len;
	bool urgent; /* somebody waits for it: as important as we are */
	struct io said;
	int pid_fd;
};

enum { WORKER_FDS_MAX = 8 };

/* The owner sets w and `gone`, which hears that no process of it is left. */
struct worker {
	struct warden *w;
	unsigned slot;
	struct io pid_io; /* fd -1 once it has ended */
	struct timer retry;
	bool ended, ok;
	void (*gone)(struct worker *k);
};

struct worker_spec {
	const char *mode, *arg; /* its arguments; NULL: none */
	int program_fd;
	bool host_net; /* has the host's network, not an empty one */
	/*
	 * Runs in the child, as root, in a copy of the warden's mount
	 * namespace that goes: opens the worker's descriptors from 3 on, and
	 * says how many they are.
	 */
	int (*open)(struct warden *w, const struct worker_spec *s,
		    const struct part *p, int fds[WORKER_FDS_MAX],
		    struct err *e);
	/* Tells who reads the worker's words why there is no worker. */
	void (*fail)(int fd, const struct err *e);
	const void *owner; /* for both */
};

struct import {
	struct list node;
	struct warden *w;
	char id[ID_CAP];
	char base[ID_CAP], from[ID_CAP]; /* of IMPORT_SNAPSHOT; else "" */
	uint64_t family;                 /* reserved for its copy of `base` */
	struct worker worker;
	bool committing;
	const struct conn *owner; /* NULL: gone */
	struct job job;           /* the commit */
	struct list waiters; /* commits and removals that wait for its end */
	struct deferred gone;
};

/* The question whether KVM works: kvm.c. */
struct kvm_probe {
	bool due;      /* a guest is to be booted */
	bool late;     /* that guest was */
	unsigned nth;  /* which of the limits it has */
	char why[160]; /* it is not used; "": it is */
	char stamp[256];
	int cache_fd; /* what was found out before */
	unsigned slot;
	int talk_fd; /* on which a failed launch reports: launch_hear() */
	struct io pid_io, console;
	struct buf said;
	struct timer limit, retry, again;
};

/* How slow emulation is: speed.c. */
struct speed {
	uint32_t tenths; /* 0: not known */
	int cache_fd;
};

/* Sandboxes that keep their processors busy: apart.c. */
struct apart {
	cpu_set_t cpus, hogs, others;
	unsigned n;     /* processors of the hogs; 0: nobody is apart */
	unsigned alert; /* looks until hogs are forgotten */
	bool blind;     /* the processors cannot be asked for */
	uint64_t looked_us, all_us;
	unsigned all_milli;
	unsigned measured; /* buckets of sandboxes */
	struct timer timer, move_timer;
};

struct warden {
	struct conf conf;
	struct loop loop;
	struct store store;
	struct cgroup_host cg;
	struct launch_host launch;
	struct vm_host vm;
	struct kvm_probe kvm;
	struct speed speed;
	struct apart apart;
	struct err vm_missing; /* why there are no VMs; code 0: there are */
	gid_t api_gid;
	uid_t api_uid;
	int box_fd;      /* run_dir/box */
	int host_mnt_fd; /* the host's mount namespace, for workers */
	int net_fd;      /* our own network namespace */
	int worker_fd, fetch_fd, sudo_fd, relay_fd; /* programs */
	struct io listen_io, signal_io;
	struct list conns;
	unsigned n_conns;
	struct list boxes[BOX_BUCKETS];
	unsigned n_boxes;
	struct list kill_all; /* waiters of WARDEN_KILL_ALL */
	unsigned n_doomed;    /* sandboxes they wait for */
	struct list imports;
	unsigned n_imports;
	struct list holds; /* snapshots that are looked at */
	struct list views;
	unsigned n_views;
	struct list fetches;
	unsigned n_fetches;
	struct list templates;
	unsigned n_hidden; /* boxes that become one */
	struct list bases; /* that are being made */
	unsigned n_bases;
	struct list ready; /* disks that wait for their launches */
	/* memory of paused sandboxes */
	struct list reclaims;
	struct list unheard; /* sandboxes whose launch nobody waits for */
	struct list endings; /* children that have said all: job.c */
	struct job reclaim_job;
	struct cgroup_fds reclaim_fds;
	bool reclaim_busy;
	struct timer reclaim_timer;
	struct box *reclaiming; /* NULL: not any more */
	/* slots */
	unsigned char *slot_used;
	unsigned n_slots, next_slot;
	struct part stock[STOCK_MAX];
	unsigned n_stock;
	struct timer stock_timer;
	/* sweeper */
	struct job sweep_job;
	bool sweeping;
	struct timer sweep_timer;
	bool sweep_again;
};

/* confine.c */
int confine_open(struct warden *w, struct err *e) MUST_CHECK;
int confine_enter(struct warden *w, struct err *e) MUST_CHECK;

/* claim.c */
/* The parent control group is ours alone: EBUSY when it is another's. */
int claim_groups(const struct warden *w, struct err *e) MUST_CHECK;

/* host_limits.c: limits of the whole host that a sandbox could use up. */
void host_limits_raise(void);

/* slots.c */
int slots_init(struct warden *w, struct err *e) MUST_CHECK;
int slot_take(struct warden *w, unsigned *slot, struct err *e) MUST_CHECK;
void slot_mark(struct warden *w, unsigned slot);
void slot_free(struct warden *w, unsigned slot);
uint32_t slot_base(const struct warden *w, unsigned slot);
/* One of the stock, or one that part_open() has opened and no more. */
int part_take(struct warden *w, enum part_kind kind, struct part *p,
	      struct err *e) MUST_CHECK;
void stock_refill_later(struct warden *w);
void stock_drop(struct warden *w);

/* box.c */
struct box *box_find(struct warden *w, const char *id);
struct box *box_new(struct warden *w, const struct launch_spec *s);
void box_launch(struct warden *w, const struct launch_spec *s,
		struct waiter *wt);
/* `wt` may be NULL. */
void box_end(struct box *b, struct waiter *wt);
int box_watch(struct box *b, int pid_fd) MUST_CHECK;
void boxes_hear(struct warden *w);
bool box_is_vm(const struct box *b);
bool box_uses_image(const struct warden *w, const char *image);
int box_remove_run_dir(struct warden *w, const char *id) MUST_CHECK;

/* It has a process: watches it, and what it says of its launch. Takes the
 * descriptors. */
int box_begun(struct box *b, pid_t pid, int pid_fd, int talk_fd,
	      struct err *e) MUST_CHECK;

/* vm.c */
/* Before the warden has locked itself in. */
int vms_open(struct warden *w, struct err *e) MUST_CHECK;
/* kvm.c: what is known, and what has to be found out by a guest. The first one
 * before the warden has locked itself in. */
int kvm_open(struct warden *w, struct err *e) MUST_CHECK;
void kvm_probe(struct warden *w);
/* speed.c, after it */
int speed_open(struct warden *w, struct err *e) MUST_CHECK;
/* What there is of them, or why not. */
void vms_tell(const struct warden *w, struct host_info *h);
/* All that it needs is there: QEMU is started. Takes b->listen_fd. */
int vm_go(struct box *b, struct err *e) MUST_CHECK;
/* QEMU runs: box_guest_ready() is called when the guest does, too. */
int vm_guest_start(struct box *b, struct err *e) MUST_CHECK;
void box_guest_ready(struct box *b, const struct err *e);
/* It was found running. */
int vm_adopted(struct box *b, struct err *e) MUST_CHECK;
/* Has the template made or loaded that it starts as, or, for one that boots,
 * the base of its image: b->basing until box_base_made() is called. */
int vm_base_start(struct box *b, struct err *e) MUST_CHECK;
void box_base_made(struct box *b, const struct err *e);
/* It ends: what its guest said last is told, if it ended by itself. */
void vm_end(struct box *b);

/* template.c */
/* Which are in the pool. */
void templates_open(struct warden *w);
/* One is being made or loaded from it. */
bool template_uses_image(const struct warden *w, const char *image);
void templates_drop_image(struct warden *w, const char *image);
/* A sandbox that becomes the template, which nobody else hears of: both are
 * called once, the latter with what went wrong, if something did. */
int box_launch_template(struct warden *w, const struct launch_spec *s,
			struct template *t, struct err *e) MUST_CHECK;
void template_boots(struct template *t, struct box *b);
void template_boot_ended(struct template *t, const struct err *failure);
void template_saved(struct template *t);

/* snapshot.c */
void box_snapshot(struct box *b, const struct snapshot_spec *s,
		  struct waiter *wt);
void snapshot_remove(struct warden *w, const char *id, struct waiter *wt);
int snapshot_next(struct warden *w, const char *after,
		  char id[ID_CAP]) MUST_CHECK;
/* Writes the description of this sandbox's snapshots (about.c), and reads the
 * description of a snapshot; `image` is "" for a snapshot without one. */
void about_text(const struct launch_spec *s, bool stayed,
		char out[STORE_ABOUT_CAP]);
void about_snapshot(struct warden *w, const char *id, struct launch_spec *out);
/*
 * While it is held a snapshot cannot be removed. ENOENT when there is none;
 * each hold is released once.
 */
int snapshot_hold(struct warden *w, const char *id, struct err *e) MUST_CHECK;
void snapshot_release(struct warden *w, const char *id);
/* The disk of a sandbox that is launched from a snapshot. When it is not there
 * at once it is made in a child: b->disk is set until box_disk_made() is
 * called. */
int disk_start(struct box *b, struct err *e) MUST_CHECK;
void box_disk_made(struct box *b, const struct err *e);
struct disk_spec disk_of(const struct launch_spec *s);

/* copies.c */
struct copies {
	unsigned n;
	const char *snap;
	uint64_t family; /* of the first, reserved; the others follow */
	int tree_fd;     /* of the disk */
	int gate[2], words[2];
	pid_t pid[SNAPSHOT_COPIES_MAX];
	bool made[SNAPSHOT_COPIES_MAX]; /* while the disk did not change */
};
/*
 * In a child: gets ready, the caller sets the first four; starts; waits until
 * the disk may change again; waits for the end. What fails is not `ok`.
 */
void copies_prepare(struct store *s, struct copies *c);
void copies_go(struct copies *c);
void copies_made(struct copies *c);
void copies_end(struct copies *c, bool wanted, uint8_t *ok);
/* They are there: for launches of the next seconds. */
void copies_ready(struct warden *w, const struct snapshot_spec *s,
		  const uint8_t *ok);
void copies_drop(struct warden *w, const char *snap);
/* One of them becomes the disk of this launch, if there is one. */
bool copy_take(struct warden *w, const struct launch_spec *s);

/* volume.c */
void volume_new(struct warden *w, const struct volume_spec *s,
		struct waiter *wt);
void volume_remove(struct warden *w, const char *id, struct waiter *wt);
/* Are those of a launch there? */
int volumes_check(struct warden *w, const struct launch_spec *s,
		  struct err *e) MUST_CHECK;

/* turn.c */
void turn_take(struct box *b, struct turn *t, struct waiter *wt);
void turn_end(struct turn *t, const struct err *e);
/* It ends: whoever waits hears it. */
void turns_drop(struct box *b);
void turns_go_on(struct box *b);

/* pause.c */
void box_pause(struct box *b, bool on, bool user, struct waiter *wt);
/* It goes on, or its user processes do; now, or as soon as that is possible. */
void box_thaw(struct box *b, bool user);
/* Is it paused? Whoever had its freezer may have thawed it, and not lived to
 * tell us. */
bool box_is_paused(struct box *b);
/* `owner` is going: what stands still for it goes on. */
void pauses_orphan(struct warden *w, const struct conn *owner);
void reclaim_soon(struct box *b);
void reclaim_stop(struct box *b);

/* connect.c */
/* Into a sandbox's network, and always back. A box that is not ending. */
int net_enter(struct box *b, struct err *e) MUST_CHECK;
void net_leave(const struct box *b);
/* Answers with a socket that connects, or is connected. */
void box_connect(struct box *b, const struct connect_spec *s,
		 struct waiter *wt);

/* door.c */
/* Answers with its sockets, made if there are none; they stay the box's. */
void box_door(struct box *b, uint32_t flags, struct waiter *wt);
/* The guest has its half of the door, or `e` says why not: then ours, which was
 * made for it, is closed again unless somebody has it. */
void door_done(struct box *b, uint32_t flags, struct waiter *wt,
	       const struct err *e);
void door_close(struct box *b);

/* relay.c; for VMs that run */
/* Has the guest make its half of the door; door_done() comes. */
void relay_door(struct box *b, uint32_t flags, struct waiter *wt);
/* Answers with a socket that is connected to a port inside. */
void relay_connect(struct box *b, const struct connect_spec *s,
		   struct waiter *wt);
void relay_adopt(struct box *b);
void relay_end(struct box *b);

/* resize.c */
void box_resize(struct warden *w, const struct resize_spec *to,
		struct waiter *wt);

/* apart.c */
/* Somebody runs: is looked after. */
void apart_watch(struct warden *w);
void apart_adopted(struct box *b);
/* All have all processors. */
void apart_release(struct warden *w);

/* record.c */
int record_write(const struct box *b, struct err *e) MUST_CHECK;
/* The start time of a process in the kernel's ticks; `ending`: it is exiting.
 * -ESRCH: the process is gone. Any other -errno: not known. */
int process_start_time(int proc_fd, pid_t pid, uint64_t *start,
		       bool *ending) MUST_CHECK;
/* Adopts living sandboxes, then removes the leftovers of dead ones. On an error
 * in the first half nothing was ended or removed. */
int adopt_all(struct warden *w, struct err *e) MUST_CHECK;

/* worker.c */
/* Out: where it takes its input, and where its words come from. */
int worker_start(struct worker *k, const struct worker_spec *s, int out[2],
		 struct err *e) MUST_CHECK;
void worker_stop(struct worker *k);

/* import.c */
bool import_spec_ok(const struct import_spec *s);
int import_start(struct warden *w, const struct import_spec *spec,
		 const struct conn *owner, int fds[2],
		 struct err *e) MUST_CHECK;
/* One starts as a copy of it. */
bool import_uses_image(const struct warden *w, const char *id);
/* `owner` is going: what it imported is not wanted any more. */
void imports_orphan(struct warden *w, const struct conn *owner);
struct import *import_find(struct warden *w, const char *id);
/* Both answer the waiter, now or when the worker has ended. */
void import_commit(struct import *i, struct waiter *wt);
void import_remove(struct import *i, struct waiter *wt);

/* view.c */
bool view_spec_ok(const struct view_spec *s);
int view_start(struct warden *w, const struct view_spec *spec,
	       const struct conn *owner, int fds[2], struct err *e) MUST_CHECK;
/* In a worker's child: a view of a state, and the sandbox's own layer of it (of
 * an image: the view again). */
int view_open(const struct view_side *side, int userns_fd, int *upper_out,
	      struct err *e) MUST_CHECK;
/* `owner` is going: nobody will read what its workers say. */
void views_orphan(struct warden *w, const struct conn *owner);
/* A worker looks at it. */
bool view_uses_image(const struct warden *w, const char *id);

/* fetch.c */
int fetch_start(struct warden *w, const struct conn *owner, int fds[2],
		struct err *e) MUST_CHECK;
/* `owner` is going: nobody hears its workers any more. */
void fetches_orphan(struct warden *w, const struct conn *owner);

/* base.c */
/*
 * The base of an image: its tree as one file with a file system (erofs), which
 * is a disk of microVMs. It is made at first use, which takes as long as
 * reading the image does, and lies beside the tree from then on. A descriptor
 * to read it, or ENOENT: it is to be made.
 */
int vm_base_open(struct warden *w, const char *image, struct err *e) MUST_CHECK;
/*
 * Has it made, or waits for who has: `done` comes once, later (never during
 * this call), unless vm_base_leave() comes before. When it succeeded,
 * vm_base_open() does. EAGAIN when too many are being made.
 */
int vm_base_wait(struct warden *w, const char *image, struct base_wait *b,
		 struct err *e) MUST_CHECK;
/* Does not wait any more; the base is made all the same. */
void vm_base_leave(struct base_wait *b);
/* It is being made. */
bool vm_base_uses_image(const struct warden *w, const char *image);

/* job.c */
int job_start(struct job *j, struct err *e) MUST_CHECK;
/* Its result is not wanted any more; `done` comes all the same. */
void job_kill(const struct job *j);

/* sweep.c */
void sweep_soon(struct warden *w);

/* lists.c: requests for the next of a list. */
void list_boxes(struct warden *w, struct warden_req *q, struct waiter *wt);
void list_images(struct warden *w, struct warden_req *q, struct waiter *wt);
void list_snapshots(struct warden *w, struct warden_req *q, struct waiter *wt);
void list_volumes(struct warden *w, struct warden_req *q, struct waiter *wt);

/* serve.c */
int serve_listen(struct warden *w, struct err *e) MUST_CHECK;
/* Answers and frees the waiter; `rep` may be NULL when there is only `e`. */
void answer(struct waiter *wt, const struct err *e);
/* Answers now, and frees at the ordinary answer(), which sends nothing. */
void answer_early(struct waiter *wt);
void answer_rep(struct waiter *wt, struct warden_rep *rep, const int *fds,
		int n_fds);
/* `why` has the code 0 when it ended by itself. */
void notice_ended(struct warden *w, const struct last_use *last,
		  const struct err *why);
