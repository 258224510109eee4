/*
 * The agent: PID 1 of a sandbox. One thread, one loop; the host connects to
 * the listening socket it was started with and speaks frames (wire/frame.h).
 *
 *	conn.c		the connection: frames in, the order of frames out
 *	chan.c		channels: the clients of processes
 *	proc.c		processes, from their start to their end; reaping
 *	kept.c		those that exited, for who comes back late
 *	spawn.c		requests; pipes and terminals
 *	stream.c	what a process writes, into a ring (ring.c)
 *	tap.c		what a channel gets of that: offsets, windows
 *	input.c		what a process reads
 *	sink.c		output that nobody wants any more
 *	pace.c		how fast that is read which nobody waits for
 *	child.c		between fork and exec
 *	spare.c		one child that waits there
 *	builtin.c	what is done in a child without an exec
 *	broker.c	the sandbox's sudo
 *
 * Everything that is inside the sandbox is hostile, and so is what it writes;
 * but the agent owns nothing that the sandbox could not spoil for itself. It
 * must stay small while idle (there are thousands), never wait for anyone but
 * the loop, and never grow: every table has a maximum.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "agent/child.h"
#include "agent/ring.h"
#include "agent/table.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "base/loop.h"
#include "wire/frame.h"
#include "wire/ps.h"

enum {
	PROCS_MAX = 2048,             /* that have not exited, or are read */
	CHANS_MAX = 2 * CHANNELS_MAX, /* those that will be refused, too */
	ASKED_MAX = 8 * SPAWN_MAX,    /* requests that are still arriving */
	INPUT_WAIT_MAX = 4 * WIRE_WINDOW, /* input of one process, of all */
	BROKERS_MAX = 32,                 /* sudo commands at a time */
	SINKS_MAX = 512,      /* pipes that outlived their process */
	LOST_MS = 30 * 1000,  /* how long a lost client holds its writers */
	OUT_MAX = 256 * 1024, /* unsent frames; then no more is read */
	/* Exited processes that nobody is attached to. */
	KEPT_MAX = 64,
	KEPT_BYTES = 4 * 1024 * 1024, /* of their output, together */
	KEPT_MS = 10 * 60 * 1000,
};

struct agent;
struct chan;
struct proc;

/* Something to read that nobody waits for. */
struct paced {
	struct list node; /* in agent.pace.waiting until it is its turn */
	void (*turn)(struct paced *p);
};

/*
 * One of the two outputs of a process. The ring has its last WIRE_WINDOW bytes,
 * also those that everybody has seen.
 */
struct stream {
	struct io io;
	struct proc *proc;
	struct paced paced;
	struct timer gather; /* it is read again then */
	uint64_t small_ms;   /* when the last small read was */
	uint64_t n_small;    /* of them, less one for each ms since then */
	struct ring ring;
	uint64_t end;       /* bytes so far */
	uint64_t held_from; /* what lost clients had, while they are awaited */
	uint64_t stop_at;   /* while draining: the process's own output ends */
	uint8_t number;     /* 1 or 2; 0: not in use */
	bool draining;      /* the process has exited */
	bool grown;         /* its pipe was made larger */
	bool eof;
};

/* A stream as one channel sees it. */
struct tap {
	struct list ready; /* in agent.ready while it has frames to send */
	struct chan *chan;
	struct stream *stream;
	uint64_t sent, acked;
	bool gap; /* to be told with the greeting */
	bool eof_sent;
};

/*
 * A client of a process. Its input goes into one queue with that of others;
 * the latest run of bytes of its own there tells how much of it is consumed.
 */
struct chan {
	struct list node, of_proc; /* in agent.chans and proc.chans */
	struct entry by_number;
	struct agent *agent;
	struct proc *proc; /* NULL while its request arrives */
	struct deferred deferred;
	uint32_t number;
	bool attached; /* not the one that asked for the process */
	bool mute;     /* gets no output, only the exit; nobody waits for it */
	bool greeted;  /* STARTED or ATTACHED was sent */
	struct buf request;
	struct tap out[2];
	struct {
		uint64_t end, told;       /* its own counting */
		uint64_t run_at, run_end; /* that of struct input */
		uint64_t waiting;         /* own bytes in the queue */
		bool eof;
	} in;
};

struct input {
	struct io io; /* watched while `waiting` has bytes */
	struct buf waiting;
	uint64_t end, done; /* received, consumed */
	bool eof;           /* close after what is waiting */
	bool line;          /* the last byte was a newline, or there was none */
};

enum proc_state { PROC_STARTING, PROC_RUNNING, PROC_EXITED };

struct proc {
	struct list node; /* in agent.procs, or in agent.kept */
	struct entry by_number, by_pid;
	struct list chans;
	struct agent *agent;
	struct deferred deferred;
	enum proc_state state;
	uint32_t number; /* of this boot */
	pid_t pid;
	bool pty;
	bool builtin;       /* nobody but its client hears of it */
	unsigned n_readers; /* channels that are not mute */
	struct timer lost;  /* set: a client was lost and may come back */
	struct io status;
	struct input in;
	struct stream out[2];
	uint64_t signals; /* that came before it ran */
	struct exit_info exit;
	bool told; /* of the exit: somebody */
	struct {
		uint64_t until_ms; /* 0: it is not in agent.kept */
		size_t bytes;
	} kept;
	/* For `ps`: */
	char user[PS_USER_MAX], tag[TAG_MAX + 1];
	char *args; /* as /proc/PID/cmdline, at most PS_ARGS_MAX of it */
	size_t args_len;
	bool args_cut;
	uint64_t started_ms;
};

struct agent {
	struct loop loop;
	struct confine confine;
	struct io listen, conn, children, sudo;
	struct io sudo_gate; /* of a broker that has not accepted yet */
	pid_t brokers[BROKERS_MAX];
	unsigned n_brokers;
	struct {
		pid_t pid; /* 0: none */
		int fd;    /* where its order goes */
	} spare;
	struct timer idle;
	int null_fd;
	uint8_t nonce[16];
	bool greeted;       /* the peer's hello came */
	bool stalled;       /* frames in `in` wait for room in `out` */
	struct buf in, out; /* of the connection */
	struct list chans, procs, kept, ready, sinks;
	unsigned n_chans, n_procs, n_kept, n_sinks;
	struct table chan_numbers, proc_numbers, proc_pids;
	size_t kept_bytes;
	uint32_t last_number;
	struct timer kept_timer;
	struct {
		struct list waiting;
		struct timer timer;
		long left; /* bytes that may be read until it fires */
	} pace;
	struct timer reap_timer, sudo_timer;
};

/* conn.c */
int conn_listen(struct agent *a, int fd) MUST_CHECK;
/* Sends what there is; called at the end of every turn. */
void conn_flush(struct loop *l);

/* chan.c */
struct chan *chan_find(struct agent *a, uint32_t number);
struct chan *chan_new(struct agent *a, uint32_t number);
/* The process was started for it. */
void chan_join(struct chan *c, struct proc *p);
void chan_attach(struct chan *c, const struct frame *f);
/* STARTED or ATTACHED, once the process runs. */
void chan_greet(struct chan *c);
/* Tells the client why, and forgets the channel. */
void chan_fail(struct chan *c, const struct err *e);
/* Sends the exit once all output is out, and forgets the channel. */
void chan_finish(struct chan *c);
/* The client goes; `lost`: it may come back. */
void chan_leave(struct chan *c, bool lost);
/* The same, but it hears of the exit. */
int chan_hush(struct chan *c, bool lost) MUST_CHECK;

/* proc.c */
struct proc *proc_new(struct agent *a);
/* By its number or, when that is 0, by its tag or ":PID"; builtins are not
 * found. */
struct proc *proc_find(struct agent *a, uint32_t number, const char *tag);
void proc_drop(struct proc *p);
/* A child was made: waits for its exec, its output and its end. */
int proc_watch(struct proc *p, struct err *e) MUST_CHECK;
void proc_signal(struct proc *p, int sig);
/* A client that was lost may come back: output is held for it. */
void proc_hold(struct proc *p, const struct chan *c);
/* A channel left: others need not wait for it. Forgets what nobody needs. */
void proc_left(struct proc *p);
/* Reaps everything there is. */
int reap_init(struct agent *a) MUST_CHECK;

/* kept.c: it exited and has no channels. May forget others. */
void kept_add(struct proc *p);
/* Somebody came for it, or it goes. Harmless when it is not kept. */
void kept_del(struct proc *p);

/* spawn.c: a part of a request; the last one starts the process. */
int spawn_ask(struct agent *a, struct chan *c,
	      const struct frame *f) MUST_CHECK;

/* spare.c */
/* Makes one if there is none: for the first process, which comes soon. */
void spare_make(struct agent *a);
/* Makes one when nothing was started for a while, and settles the agent. */
void spare_later(struct agent *a);
/* Gives it the plan and the request: its pid and status pipe; 0: there is none
 * that could take it. */
pid_t spare_use(struct agent *a, const struct plan *p,
		const struct buf *request, int *status_fd) MUST_CHECK;
/* A child ended: was it the one that waits? */
bool spare_ended(struct agent *a, pid_t pid);

/* stream.c */
/* Starts to watch its descriptor. */
int stream_open(struct stream *s, uint8_t number) MUST_CHECK;
void stream_done(struct stream *s);
/* The oldest byte that is still there. */
static inline uint64_t stream_start(const struct stream *s)
{
	return s->end > WIRE_WINDOW ? s->end - WIRE_WINDOW : 0;
}
/* The process ended: reads on to where its own output ends. */
void stream_drain(struct stream *s);
/* There may be room now: somebody read, left or gave up. */
void stream_resume(struct stream *s);

/* tap.c */
void tap_init(struct tap *t, struct chan *c, struct stream *s, uint64_t from);
void tap_ready(struct tap *t);
int tap_ack(struct tap *t, uint64_t offset) MUST_CHECK;
/* Some frames: 1 and there may be more, 0 none, -EAGAIN, or -errno. */
int taps_send(struct agent *a) MUST_CHECK;

/* input.c */
int input_add(struct chan *c, uint64_t offset, const void *data,
	      size_t n) MUST_CHECK;
void input_eof(struct chan *c);
void input_done(struct proc *p);

/* pace.c */
void pace_init(struct agent *a);
/* Whether something nobody waits for may be read; else it waits its turn. */
bool pace_ask(struct agent *a, struct paced *p);
void pace_spend(struct agent *a, ssize_t n);

/* sink.c: takes the descriptor over. */
void sink_add(struct agent *a, int fd);

/* ps.c: the agent whose processes the builtin lists. */
void ps_init(const struct agent *a);

/* broker.c */
int sudo_listen(struct agent *a) MUST_CHECK;
/* A child ended: was it a broker? */
bool broker_ended(struct agent *a, pid_t pid);
