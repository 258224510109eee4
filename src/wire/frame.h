/*
 * Frames between a client of a sandbox and its agent: the same bytes on the
 * agent's unix socket, on a virtio-serial port, and on an HTTP connection
 * that was upgraded (the api role only relays and renumbers channels).
 *
 * A connection starts with a hello from each side; neither waits for the
 * other's before sending frames of the lowest version it named. (A second
 * hello of a client, in place of a frame, is a new client's: it is answered by
 * one, and all channels of before are lost.) On a port, which does not tell
 * connections from each other, the client is silent until the agent's hello
 * has come: see guest/bridge.c. Then frames:
 *
 *	u32 length of the payload | u8 type | u8 flags | u16 zero | u32 channel
 *
 * all little-endian. A channel is one client of one process; the client picks
 * its number (not 0) in FRAME_SPAWN or FRAME_ATTACH and may reuse it after
 * FRAME_EXIT, FRAME_FAILED or its own FRAME_DETACH (without DETACH_WATCH).
 *
 * Flow: each output stream (1, 2) of a channel has a window of WIRE_WINDOW
 * bytes. OUTPUT carries the stream's offset of its first byte; ACK says up to
 * which offset the client has consumed; the agent never sends a byte at
 * ACK + WIRE_WINDOW or beyond. Input is the same in the other direction with
 * INPUT and INPUT_ACK. A peer that breaks the rules is disconnected.
 *
 * FRAME_EXIT is the last frame of a channel: all output that the process had
 * written before it ended was sent before it.
 *
 * A process outlives its channels and has a number of its own (in STARTED),
 * and a tag if its client gave one. The agent keeps the last WIRE_WINDOW bytes
 * of each stream, and what exited for a while, so that a client that was cut
 * off comes back with FRAME_ATTACH and the offsets it has. What is no longer
 * there is named by FRAME_GAP. Any number of channels may be attached; the
 * slowest holds the process. With nobody attached, it runs on and the oldest
 * bytes give way, at once after a DETACH, after 30 s when a client was lost.
 *
 * Input offsets count all bytes that the process was given, by whomever; a
 * channel starts at the one in STARTED (0) or ATTACHED and counts its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
	FRAME_HEAD = 12,
	FRAME_PAYLOAD_MAX = 64 * 1024,
	WIRE_WINDOW = 256 * 1024,
	WIRE_VERSION = 1,
	HELLO_LEN = 32,
	SPAWN_MAX = 1024 * 1024, /* a whole spawn request, over its frames */
	ARGS_MAX = 8192,         /* words in argv, and in env */
	CHANNELS_MAX = 1024,     /* per agent connection */
	TAG_MAX = 64,
	SIGNAL_MAX = 64,
};

enum frame_type {
	/* client to agent */
	FRAME_PING = 1,  /* any payload up to 64 bytes; comes back as PONG */
	FRAME_SPAWN,     /* struct spawn; FRAME_MORE: continued */
	FRAME_INPUT,     /* u64 offset, bytes */
	FRAME_INPUT_EOF, /* nothing */
	FRAME_RESIZE,    /* u16 rows, u16 columns */
	FRAME_SIGNAL,    /* u8 number; to the process group */
	FRAME_ACK,       /* u8 stream, u64 offset */
	FRAME_DETACH,    /* u8 of detach_flags */
	FRAME_ATTACH,    /* struct attach */
	/* agent to client */
	FRAME_PONG = 64,
	FRAME_STARTED,    /* u32 pid (as the sandbox sees it), u32 number */
	FRAME_FAILED,     /* u32 errno, str message: ends the channel */
	FRAME_OUTPUT,     /* u8 stream, u64 offset, bytes */
	FRAME_OUTPUT_EOF, /* u8 stream, u64 offset */
	FRAME_INPUT_ACK,  /* u64 offset */
	FRAME_EXIT,       /* struct exit_info: ends the channel */
	/* as STARTED, then u64 input offset, u8 1 when it has a terminal */
	FRAME_ATTACHED,
	FRAME_GAP, /* u8 stream, u64 offset: the next byte of the stream */
};

enum { FRAME_MORE = 1 }; /* flag: the payload goes on in the next frame */

struct frame {
	uint32_t len;
	uint8_t type, flags;
	uint32_t channel;
	const uint8_t *payload; /* into the buffer it was parsed from */
};

struct hello {
	uint16_t version_min, version_max;
	uint32_t features; /* none yet */
	uint8_t nonce[16]; /* of this boot of the sender */
};

void hello_put(struct buf *b, const struct hello *h);
/* 1: read and eaten; 0: more bytes are needed; -EBADMSG; -EPROTO: version. */
int hello_get(struct buf *b, struct hello *h) MUST_CHECK;
/* Eats what is in front of the first hello of `b`, whole or not: what was meant
 * for one who had the line before. */
void hello_find(struct buf *b);

void frame_put(struct buf *b, enum frame_type type, uint8_t flags,
	       uint32_t channel, const void *payload, size_t n);
/*
 * The next whole frame of `b`: 1 and the frame, 0 when more bytes are needed,
 * or -EBADMSG. The frame stays valid until `b` is changed; the caller eats
 * FRAME_HEAD + len bytes when done with it.
 */
int frame_get(const struct buf *b, struct frame *f) MUST_CHECK;
/* OUTPUT and INPUT without an extra copy of the bytes. */
void frame_put_data(struct buf *b, enum frame_type type, uint32_t channel,
		    uint8_t stream, uint64_t offset, const void *p, size_t n);

enum detach_flags {
	DETACH_LOST = 1, /* the client may come back */
	/* The channel stays, as with SPAWN_DETACHED; not while its request is
	 * still arriving. */
	DETACH_WATCH = 2,
	DETACH_FLAGS_ALL = 3,
};

enum spawn_flags {
	SPAWN_PTY = 1,   /* one terminal; its output is stream 1 */
	SPAWN_STDIN = 2, /* else stdin is /dev/null */
	/* This channel gets no output, only STARTED and EXIT; the process
	 * waits for no reader. */
	SPAWN_DETACHED = 4,
	/*
	 * Not a program but work that the agent does in a child, as the user:
	 * argv[0] is a name of agent/builtin.h.
	 */
	SPAWN_BUILTIN = 8,
	SPAWN_FLAGS_ALL = 15,
};

struct spawn {
	uint32_t flags;
	uint16_t rows, cols; /* of the terminal; 0: 24 x 80 */
	const char *user;    /* "": the default user; a name or a number */
	const char *cwd;     /* "": the user's home; relative to that */
	/* "": none; at most TAG_MAX bytes. One that a process has: EEXIST. */
	const char *tag;
	size_t argc, envc;
	const char **argv, **env; /* NULL-terminated; env is "K=V" */
};

/* Appends as many FRAME_SPAWN frames as needed; -E2BIG when over SPAWN_MAX. */
int spawn_put(struct buf *b, uint32_t channel,
	      const struct spawn *s) MUST_CHECK;
/*
 * Reads a whole (joined) payload. Strings point into it; argv and env are
 * allocated and freed by spawn_done().
 */
int spawn_get(const void *p, size_t n, struct spawn *s) MUST_CHECK;
void spawn_done(struct spawn *s);

/* No stream goes further: what a signed integer holds. */
#define OFFSET_MAX ((uint64_t)INT64_MAX)
/* In an attach, for a stream: what comes from now on. A GAP says where that
 * is, if it is not 0. */
#define OFFSET_NOW UINT64_MAX
/* For both streams: none of them. The channel gets ATTACHED and EXIT only, and
 * the process does not wait for it. */
#define OFFSET_NONE (UINT64_MAX - 1)

struct attach {
	uint32_t number; /* 0: by its tag */
	/* ':' and a pid in its place: who has it, or had it last. */
	const char *tag;
	uint64_t out[2]; /* what the client has of streams 1 and 2 */
};
void attach_put(struct buf *b, uint32_t channel, const struct attach *at);
/* `tag` points into the frame. */
int attach_get(const struct frame *f, struct attach *at) MUST_CHECK;

struct started {
	uint32_t pid, number;
	uint64_t in; /* ATTACHED only */
	bool pty;
};
void started_put(struct buf *b, enum frame_type type, uint32_t channel,
		 const struct started *s);
int started_get(const struct frame *f, struct started *s) MUST_CHECK;

struct exit_info {
	uint8_t signaled; /* 0: code is the exit code; 1: the signal */
	uint32_t code;
	uint64_t user_us, sys_us; /* processor time, its children included */
	uint64_t max_rss_bytes;
};
void exit_put(struct buf *b, uint32_t channel, const struct exit_info *x);
int exit_get(const struct frame *f, struct exit_info *x) MUST_CHECK;
