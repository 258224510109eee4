/* The parts of a stream, for the files stream*.c. */
#pragma once

#include "cli/server.h"
#include "cli/sink.h"
#include "cli/stream.h"

enum {
	CHANNEL = 1,
	RECEIVE = 256 * 1024, /* several frames per recv() */
	ACK_EVERY = WIRE_WINDOW / 4,
	UNDECIDED = -1, /* exit code: the process still runs */
};

/* What the agent owes us an answer to. */
enum phase { SPAWNING, ATTACHING, LIVE };

struct stream {
	struct stream_opts o;
	int fd, signal_fd; /* fd < 0: the connection is lost */
	enum phase phase;
	struct buf in;  /* over `area`, which it does not own */
	struct buf out; /* frames that wait to be sent */
	bool greeted;
	bool started;  /* the process is known to have been there */
	bool attached; /* on this connection we came to it later */
	bool returned; /* and had been there before */
	uint32_t number;
	bool deaf; /* it no longer takes what we send */
	int code;
	bool late; /* the time of --timeout is over */

	/* stream_input.c */
	bool input_open, input_paused, input_ended;
	bool ctrl_p; /* the first of the keys was pressed */
	uint64_t input_sent, input_acked;
	struct buf kept; /* sent, not acknowledged: for coming back */

	struct sink sink[2]; /* stdout, stderr */

	/* stream_back.c */
	uint64_t lost_ms;  /* since when; 0: we are there */
	uint64_t retry_ms; /* when to try again */
	bool said;         /* that it is lost */
	int signal;        /* that came meanwhile, or 0 */
	unsigned rounds;   /* of "attach" and "no such process" */
};

static inline bool stream_can_return(const struct stream *s)
{
	if (s->o.at.number == 0 && (!s->o.at.tag || !*s->o.at.tag))
		return false;
	/* A process of that name would be taken for ours. */
	return s->started || !s->o.named;
}

/* stream.c: appends frames. */
void stream_put_resize(struct stream *s, uint16_t fewer_rows);
void stream_put_ack(struct stream *s, uint8_t number);
/* The process goes on without us; `code` is our own. */
void stream_leave(struct stream *s, int code);
/* The request of this phase, SPAWNING or ATTACHING. */
void stream_put_request(struct stream *s, struct buf *b);
/* Dials with our hello and that request; see dial() for what it returns. */
int stream_dial(struct stream *s, uint64_t timeout_ms, char why[MESSAGE_CAP]);
/* A write to our stdout or stderr failed. */
int stream_lost_reader(const struct sink *k, int code);

/* stream_frames.c: what the agent sends. 0, or -errno: -EBADMSG. */
int stream_parse(struct stream *s) MUST_CHECK;

/* stream_input.c: our stdin. */
bool input_wanted(const struct stream *s);
void input_read(struct stream *s);
int input_acked(struct stream *s, uint64_t offset) MUST_CHECK;
/* The process is there and has been given `offset` bytes. */
int input_resume(struct stream *s, uint64_t offset) MUST_CHECK;

/* stream_back.c: losing the connection and coming back. */
void back_lost(struct stream *s);
/* When to be called next: ms for poll(). */
int back_wait(const struct stream *s);
/* Tries if it is time: 0, or -ECONNRESET when it is over and was said. */
int back_try(struct stream *s) MUST_CHECK;
/* It is ours again. */
void back_done(struct stream *s);
/* A signal while nobody is there to get it. */
void back_signal(struct stream *s, int number);
