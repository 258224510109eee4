/*
 * The agent: PID 1 of a sandbox. One thread, one loop; the host connects to
 * the listening socket it was started with and speaks frames (wire/frame.h).
 *
 *	conn.c		the connection: frames in, the order of frames out
 *	proc.c		one process = one channel, until its exit; reaping
 *	spawn.c		its request; pipes and terminals
 *	stream.c	what a process writes: a ring, offsets, windows
 *	input.c		what it reads
 *	sink.c		output that nobody wants any more
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
#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "base/loop.h"
#include "wire/frame.h"
#include "wire/ps.h"

enum {
	PROCS_MAX = 1024,          /* of this connection and of lost ones */
	ASKED_MAX = 8 * SPAWN_MAX, /* requests that are still arriving */
	BROKERS_MAX = 32,          /* sudo commands at a time */
	SINKS_MAX = 512,           /* pipes that outlived their process */
	LOST_MS = 30 * 1000,  /* how long a lost client holds its writers */
	OUT_MAX = 256 * 1024, /* unsent frames; then no more is read */
};

struct agent;
struct proc;

/* Bytes [acked, end) are in the ring, at their offset modulo its size. */
struct stream {
	struct io io;
	struct proc *proc;
	struct list ready; /* in agent.ready while it has frames to send */
	uint8_t *ring;     /* WIRE_WINDOW bytes, made for the first one */
	uint64_t acked, sent, end;
	uint64_t stop_at; /* while draining: the process's own output ends */
	uint8_t number;   /* 1 or 2; 0: not in use */
	bool draining;    /* the process has exited */
	bool grown;       /* its pipe was made larger */
	bool eof, eof_sent;
};

struct input {
	struct io io; /* watched while `waiting` has bytes */
	struct buf waiting;
	uint64_t end, done, told; /* received, consumed, acknowledged */
	bool eof;                 /* close after what is waiting */
	bool line; /* the last byte was a newline, or there was none */
};

enum proc_state { PROC_ASKED, PROC_STARTING, PROC_RUNNING, PROC_EXITED };

struct proc {
	struct list node;
	struct agent *agent;
	struct deferred deferred;
	enum proc_state state;
	uint32_t channel;
	uint32_t number; /* of this boot */
	pid_t pid;
	bool builtin; /* nobody but its client hears of it */
	/* For `ps`: */
	char user[PS_USER_MAX], tag[TAG_MAX + 1];
	char *args; /* as /proc/PID/cmdline, at most PS_ARGS_MAX of it */
	size_t args_len;
	bool args_cut;
	uint64_t started_ms;
	bool pty;
	bool lost; /* its connection is gone */
	struct timer lost_timer;
	struct buf request; /* while PROC_ASKED */
	struct io status;
	struct input in;
	struct stream out[2];
	uint64_t signals; /* that came before it ran */
	struct exit_info exit;
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
	struct buf in, out; /* of the connection */
	struct list procs, ready, sinks;
	unsigned n_procs, n_sinks;
	uint32_t n_made;
	struct timer reap_timer, sudo_timer;
};

/* conn.c */
int conn_listen(struct agent *a, int fd) MUST_CHECK;
/* Where to append a frame for this process; NULL when nobody listens. */
struct buf *conn_out(struct proc *p);
/* Sends what there is; called at the end of every turn. */
void conn_flush(struct loop *l);

/* proc.c */
struct proc *proc_find(struct agent *a, uint32_t channel);
struct proc *proc_new(struct agent *a, uint32_t channel);
/* Tells the client why, and forgets the process. */
void proc_fail(struct proc *p, const struct err *e);
/* A child was made: waits for its exec, its output and its end. */
int proc_watch(struct proc *p, struct err *e) MUST_CHECK;
void proc_signal(struct proc *p, int sig);
void proc_detach(struct proc *p);
/* The connection ended: nobody can name this process again. */
void proc_lose(struct proc *p);
/* Sends the exit once all output is out, and forgets the process. */
void proc_finish(struct proc *p);
/* Reaps everything there is. */
int reap_init(struct agent *a) MUST_CHECK;

/* spawn.c: a part of a request; the last one starts the process. */
int spawn_ask(struct agent *a, const struct frame *f) MUST_CHECK;

/* spare.c */
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
/* Nothing more comes from it, and what is there is forgotten. */
void stream_drop(struct stream *s);
void stream_done(struct stream *s);
/* The process ended: reads on to where its own output ends. */
void stream_drain(struct stream *s);
int stream_ack(struct stream *s, uint64_t offset) MUST_CHECK;
/* Some frames: 1 and there may be more, 0 none, -EAGAIN, or -errno. */
int streams_send(struct agent *a) MUST_CHECK;

/* input.c */
int input_add(struct proc *p, uint64_t offset, const void *data,
	      size_t n) MUST_CHECK;
void input_eof(struct proc *p);
void input_done(struct proc *p);

/* sink.c: takes the descriptor over. */
void sink_add(struct agent *a, int fd);

/* ps.c: the agent whose processes the builtin lists. */
void ps_init(const struct agent *a);

/* broker.c */
int sudo_listen(struct agent *a) MUST_CHECK;
/* A child ended: was it a broker? */
bool broker_ended(struct agent *a, pid_t pid);
