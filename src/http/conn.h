/*
 * Private to the server: one connection, which server.c owns, request.c reads
 * from and reply.c writes to.
 *
 * A connection goes HEAD -> REQUEST -> FLUSH -> HEAD, or ends in LINGER and
 * CLOSED. All steps are taken by conn_drive(), which never runs inside
 * itself; functions of owners only change the state and leave the rest to it,
 * so no owner hears a callback from a function that it called.
 */
#pragma once

#include <netinet/in.h>

#include "http/chunked.h"
#include "http/server.h"
#include "http/stream.h"

enum conn_state {
	CONN_HEAD,    /* a head is missing, wholly or in part */
	CONN_REQUEST, /* the handler owns the request */
	CONN_FLUSH,   /* answered; the answer has not left yet */
	CONN_LINGER,  /* our side is shut, the client may still be sending */
	CONN_CLOSED   /* freed at the end of this turn */
};

enum body_mode {
	BODY_UNCLAIMED, /* nobody asked for it */
	BODY_WHOLE,
	BODY_STREAM,
	BODY_DONE /* all taken, or there is none */
};

typedef void http_gone_fn(struct http_conn *c, void *owner);
typedef void http_whole_fn(struct http_conn *c, char *body, size_t n,
			   void *owner);
typedef size_t http_data_fn(struct http_conn *c, const char *p, size_t n,
			    void *owner);
typedef void http_end_fn(struct http_conn *c, void *owner);

struct http_conn {
	struct http_server *server;
	struct http_stream stream;
	struct list node;
	struct in6_addr peer;          /* TCP; IPv4 addresses as mapped ones */
	struct http_origin *origin;    /* TCP: all connections of this peer */
	struct list idle, origin_idle; /* crowd.c */
	bool known;                    /* http_trust() */
	struct timer read_timer, write_timer;
	struct deferred kick, bury;
	enum conn_state state;
	bool driving; /* conn_drive() is on the stack */
	bool kicked;  /* conn_drive() comes at the end of this turn */
	bool broken;  /* close at the next step */
	bool blocked; /* the socket is full; EPOLLOUT is watched */
	bool served;  /* not the first request of this connection */
	bool timed;   /* the deadline of the current head is running */
	struct buf in, out;

	struct http_scan scan;
	struct http_head head;
	char id[HTTP_REQUEST_ID];
	void *guest; /* NULL: it came from outside */
	bool asked;  /* on_answer() is to be called */
	_Alignas(8) char note[HTTP_NOTE];
	const struct http_field *also; /* in every answer; or NULL */
	void *owner;
	http_gone_fn *on_gone;

	enum body_mode body;
	bool paused;       /* the consumer took less than it was given */
	bool continue_due; /* the client waits for 100 Continue */
	uint64_t left;     /* HTTP_LENGTH: bytes not yet in `span` */
	size_t span;       /* bytes at the front of `in` that are content */
	struct http_chunked chunked;
	bool patient;          /* http_slow_body() */
	uint64_t body_got;     /* bytes that were read of it */
	uint64_t body_wait_ms; /* time that we waited for them ... */
	uint64_t body_since;   /* ... and since when now; 0: we do not */
	struct buf whole;
	size_t whole_max;
	http_whole_fn *on_whole;
	http_data_fn *on_data;
	http_end_fn *on_end;

	bool answering;   /* a streamed answer has begun */
	bool no_content;  /* ... to a HEAD request */
	bool raw_content; /* ... without chunks: ends with the socket, or is */
	bool sized;       /* ... of a length that was told */
	uint64_t owed;    /* what is missing of it */
	bool stopped;     /* its producer waits for on_ready */
	bool draining;    /* ... until nothing is queued */
	bool close_after; /* no further request on this connection */
	bool linger;      /* the client may still be sending */
	uint64_t lingered;
	http_end_fn *on_ready;
};

/* server.c */
void conn_drive(struct http_conn *c);
/* conn_drive() at the end of this turn of the loop. */
void conn_kick(struct http_conn *c);
/* Takes the connection out of the server; the stream stays open. */
void conn_forget(struct http_conn *c);
/* Ends it; its owner hears on_gone(). */
void conn_close(struct http_conn *c);
void conn_make_id(struct http_conn *c);
/* Watches for one more kind of event, or one less. */
void conn_watch(struct http_conn *c, uint32_t more, uint32_t less);
const char *server_date(struct http_server *s);

/* crowd.c: who gives way when places run out. */
void crowd_init(struct http_server *s);
/* A connection of this address is there, and is there no more. */
void crowd_join(struct http_conn *c, const struct in6_addr *from);
void crowd_leave(struct http_conn *c);
/* It waits for a request, from now on; it has one. */
void crowd_idle(struct http_conn *c);
void crowd_busy(struct http_conn *c);
/* Closes an idle connection; false: there is none. */
bool crowd_make_room(struct http_server *s);
/* May the address have one more, perhaps in place of an idle one of its own? */
bool crowd_admits(struct http_server *s, const struct in6_addr *from);

/* request.c: each takes one step and says whether there may be another. */
bool conn_head_step(struct http_conn *c);
bool conn_body_step(struct http_conn *c);
/* What the client must get from us even though the owner did not answer. */
void conn_refuse(struct http_conn *c, int status, const char *word,
		 const char *why);
bool conn_wants_read(const struct http_conn *c);
void conn_read(struct http_conn *c);

/* reply.c */
void conn_answered(struct http_conn *c, int status);
void conn_flush(struct http_conn *c);
