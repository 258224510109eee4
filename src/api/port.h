/*
 * Ports of sandboxes, reached from outside: "previews" of what is served
 * inside, over HTTP by path or by host name, and plain TCP.
 *
 *	h_port.c	requests: who may, which port
 *	port_token.c	tokens that open one port of one sandbox for a while
 *	port_dial.c	a connection into the sandbox, made by the warden
 *	port_head.c	what passes of the heads of requests and answers
 *	port_proxy.c	one HTTP request and its answer
 *	port_tunnel.c	bytes both ways, after an upgrade
 *
 * Both ends are outsiders. The server inside is as hostile as its clients:
 * its answers are parsed as strictly as requests are, and made anew.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/warden_link.h"
#include "base/buf.h"
#include "base/loop.h"
#include "base/product.h"
#include "base/str.h"
#include "http/parse.h"
#include "http/stream.h"

struct api;
struct http_conn;
struct identity;
struct port_way;
struct sandbox;

#define TCP_UPGRADE PRODUCT "-tcp/1"
#define PORT_TOKEN PRODUCT "_token" /* cookie and query parameter */
#define PORT_TOKEN_FIELD "Carrel-Token"

enum {
	PORTS_MAX = 2048,    /* connections into sandboxes at once */
	PORTS_BOX_MAX = 256, /* ... into one of them */
	PORT_BUFFER = 256 * 1024,
	PORT_KEY_LEN = 32,
	PORT_TOKEN_CAP = 160,
	PORT_SEEN = 64,
};

struct ports {
	unsigned char key[PORT_KEY_LEN]; /* that tokens are signed with */
	/* Who was written to the log lately, so that not every request is. */
	struct {
		uint64_t who, until_ms;
	} seen[PORT_SEEN];
};

/* A request by the name of a preview? Then it is taken care of. */
bool port_by_host(struct api *a, struct http_conn *c);

/* Reads the key of tokens, or makes it. */
int ports_init(struct api *a, struct err *e) MUST_CHECK;

/* Our own signature of a text, in hex: for tokens of all kinds. */
enum { PORT_MAC_CAP = 2 * 32 + 1 };
void port_sign(const struct api *a, const char *purpose, const char *text,
	       char out[PORT_MAC_CAP]);
/* Did it come with a token of ours, by field, query or cookie? */
bool port_has_token(const struct http_head *h);
/* Passes a request on whose sender may. `prefix` "": by host or by field. */
void port_visit(struct api *a, struct http_conn *c, struct sandbox *s,
		const struct identity *who, struct port_way *way);

/* --- tokens: "id.port.expiry.signature" --- */

void port_token_make(const struct api *a, const char *id, uint16_t port,
		     uint64_t until_s, char out[PORT_TOKEN_CAP]);
/* Does it open this port of this sandbox now? `until_s`: how long. */
bool port_token_opens(const struct api *a, const char *token, const char *id,
		      uint16_t port, uint64_t *until_s);

/* --- connections into sandboxes --- */

struct port_dial {
	struct http_stream stream; /* connected, once done() heard so */
	char id[ID_CAP];
	uint16_t port;

	/* Private. */
	struct api *api; /* NULL: hung up */
	struct share *place;
	bool v6;
	unsigned again_ms; /* between two tries; 0: one so far */
	struct warden_call call;
	struct timer timer;
	void (*done)(struct port_dial *d, const struct err *e);
};

/*
 * Tries 127.0.0.1, then ::1. `done` comes later, once: `e->code` is 0,
 * ECONNREFUSED, ETIMEDOUT or what the warden said. EUSERS: too many at once.
 */
int port_dial(struct port_dial *d, const struct sandbox *s, uint16_t port,
	      void (*done)(struct port_dial *d, const struct err *e),
	      struct err *e) MUST_CHECK;
/* Another owner for one that is connected; `from` is hung up then. */
void port_dial_move(struct port_dial *to, struct port_dial *from);
/* Gives up or hangs up. Harmless twice, and on a zeroed one. */
void port_hang_up(struct port_dial *d);
/* Answers a request whose `done` failed. */
void port_refuse(struct port_dial *d, struct http_conn *c, const struct err *e);

/* --- heads --- */

/* How a request came, and where it goes. */
struct port_way {
	uint16_t port;
	bool by_host;       /* or by a path that starts with `prefix` */
	const char *prefix; /* "/v1/sandboxes/ID/ports/PORT" */
	const char *target; /* behind it, as it came; starts with '/' */
	bool by_token;      /* then Authorization is not for us */
	bool near;          /* a proxy of this host may have sent it */
	bool https;
	const char *peer; /* address; "" when there is none */
	const char *host; /* what the server inside is called by; NULL: ours */
	const char *secret; /* a value that must not get inside; or NULL */
	/* Who answers when nothing listens; NULL: port_refuse(). */
	void (*refuse)(struct port_dial *d, struct http_conn *c,
		       const struct err *e);
};

/* The protocol to change to, or NULL when this is an ordinary request. */
const char *port_upgrade(const struct http_head *h);
void port_request_head(struct buf *out, const struct http_head *h,
		       const struct port_way *way);
/*
 * The fields of an answer that pass; `out` has room for PORT_FIELDS, `text`
 * holds what had to be changed.
 */
enum { PORT_FIELDS = HTTP_FIELDS_MAX + 2 };
void port_answer_fields(const struct http_head *h, const struct port_way *way,
			struct http_field *out, struct buf *text);
/* The value of our cookie in a Cookie field: its length, 0 when not there. */
size_t port_cookie(const char *cookies, const char **value);
/* May a cookie speak for this request, or did another site make it? */
bool port_cookie_counts(const struct http_head *h);

/* --- what is done with a connection --- */

/*
 * Passes a request on and its answer back. `way` is copied as far as it is
 * needed. Always answers.
 */
void port_proxy(struct api *a, struct http_conn *c, const struct sandbox *s,
		const struct port_way *way);

/*
 * Bytes both ways until both ends have closed. Takes over the connection in
 * `dial` and `client`, and the bytes that are on their way already.
 */
void port_tunnel(struct port_dial *dial, struct http_stream *client,
		 struct buf *to_client, struct buf *to_inside);
/* Upgrades the request and tunnels. Always answers. */
void port_tcp(struct api *a, struct http_conn *c, const struct sandbox *s,
	      uint16_t port);
