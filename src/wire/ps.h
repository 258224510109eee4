/*
 * What the agent's builtin `ps` writes: one record per process that the agent
 * has started or still keeps; with the argument "all" then one per process of
 * the sandbox's /proc. A record is a u32 length, a u8 kind and its fields.
 *
 * The api reads what a hostile agent may have written: texts are any bytes but
 * NUL, not always UTF-8; numbers are checked for size only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/frame.h"

enum {
	PS_ARGS_MAX = 4096, /* of an argument list; what is behind is cut */
	PS_USER_MAX = 64,
	PS_RECORD_MAX = PS_ARGS_MAX + 1024,
	PS_RECORDS_MAX = 2560, /* PS_PROC, that an agent keeps */
};

enum ps_kind { PS_PROC = 1, PS_TASK };
enum ps_state { PS_STARTING, PS_RUNNING, PS_EXITED, PS_STATES };

/* A process that a client asked for. */
struct ps_proc {
	uint32_t number, pid;
	enum ps_state state;
	bool pty;
	bool told; /* somebody heard of its exit */
	const char *user, *tag;
	uint64_t started_ms;   /* wall time */
	uint64_t out[2];       /* bytes written so far to streams 1 and 2 */
	struct exit_info exit; /* when PS_EXITED */
};

/* A process as /proc has it. */
struct ps_task {
	uint32_t pid, ppid, uid;
	char state; /* R, S, D, Z, T... */
	uint64_t cpu_us, rss_bytes;
};

struct ps {
	enum ps_kind kind;
	/* argv, each word with its NUL, like /proc/PID/cmdline; may be empty */
	const char *args;
	size_t args_len;
	bool cut; /* there is more of it */
	union {
		struct ps_proc proc;
		struct ps_task task;
	};
};

/* Texts must be within their limits; `args_len` is cut here. */
void ps_put(struct buf *b, const struct ps *p);
/*
 * The next record of `b`: its size, which the caller eats when done with it
 * (texts point into the buffer); 0 when more bytes are needed; or -EBADMSG.
 */
int ps_get(const struct buf *b, struct ps *p) MUST_CHECK;
/*
 * The words of the argument list: starts with `*at` 0; NULL after the last.
 */
const char *ps_arg(const struct ps *p, size_t *at);
