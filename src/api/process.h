/*
 * A process of a sandbox, for handlers: one channel to its agent with
 * callbacks instead of frames. Builtins of the agent (file work) are processes
 * too, with SPAWN_BUILTIN.
 *
 * The struct is embedded in its owner. Callbacks come from the loop, never
 * from inside a function called here. After ended(), or after
 * process_close(), none comes and the memory is the owner's again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "wire/frame.h"

struct chan;
struct identity;
struct process;
struct sandbox;

struct process_ops {
	/* It runs, or was found: `number`, `pid` and (attach) `in` are set. */
	void (*started)(struct process *p);
	/*
	 * `n` bytes of stream 1 or 2 that start at p->out[stream - 1] minus n.
	 * The owner says with process_consumed() when it is done with them;
	 * until then at most WIRE_WINDOW more come.
	 */
	void (*output)(struct process *p, unsigned stream, const void *data,
		       size_t n);
	/* Bytes up to p->out[stream - 1] were dropped before we came; may be
	 * NULL. */
	void (*gap)(struct process *p, unsigned stream, uint64_t lost);
	/* process_input() took less than all, and takes more now; may be NULL.
	 */
	void (*room)(struct process *p);
	/*
	 * The last one. `x` when it exited, all output was given before; else
	 * `e`: it was not started, or the sandbox or its agent are gone.
	 */
	void (*ended)(struct process *p, const struct exit_info *x,
		      const struct err *e);
};

/* Zero-initialise and set `ops`. */
struct process {
	const struct process_ops *ops;
	/* Who asked, for the log; read by process_spawn() only. NULL: the
	 * daemon by itself. */
	const struct identity *who;
	const char *request_id;
	uint32_t number, pid;
	uint64_t out[2]; /* received */
	uint64_t in;     /* sent, over all clients of the process */
	bool tty;        /* it has a terminal */
	bool between;    /* of one that is between two lives, for us alone */

	/* Private. */
	struct chan *chan; /* NULL: closed or ended */
	uint64_t consumed[2], acked[2];
	bool started, want_room;
};

/* The environment of the sandbox's spec is added. */
int process_spawn(struct process *p, struct sandbox *s, const struct spawn *sp,
		  struct err *e) MUST_CHECK;
int process_attach(struct process *p, struct sandbox *s,
		   const struct attach *at, struct err *e) MUST_CHECK;
static inline bool process_is_open(const struct process *p)
{
	return p->chan != NULL;
}

void process_consumed(struct process *p, unsigned stream, size_t n);
/*
 * How many bytes were taken; less than `n`: room() comes later. An attached
 * one takes nothing before started(). A closed one takes and drops all.
 */
size_t process_input(struct process *p, const void *data, size_t n);
void process_input_eof(struct process *p);
void process_resize(struct process *p, uint16_t rows, uint16_t cols);
void process_signal(struct process *p, int sig);
/*
 * Leaves it; the process goes on. `lost`: the client vanished and may come
 * back, so what it writes is held for a while. Harmless when closed.
 */
void process_close(struct process *p, bool lost);
