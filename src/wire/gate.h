/*
 * Between the api and the gate. The gate's keeper listens (SOCK_SEQPACKET,
 * run_dir/roles/gate.sock); the first message of a connection is GATE_HELLO,
 * which names a door: a project that has secrets, or "" for all the others.
 * The keeper hands the connection to the process of that door, starting it if
 * need be; from then on api and door speak with each other alone. A new
 * connection to a door ends the one before.
 *
 * One message is one record: u16 version | u16 kind | fields in the order of
 * the table in gate.c (wire/pack.h). The api is believed as far as its own
 * sandboxes go; the door hears strangers and is believed nothing: what it says
 * about a sandbox of another door is dropped.
 *
 * Door, after the hello:  GATE_HAVE for each sandbox it has descriptors of,
 * GATE_ASK for each request that waits, then GATE_READY. Then the api:
 * GATE_PROJECT (answered by GATE_KEYS) and GATE_SECRET for what the door needs,
 * GATE_BOX for each sandbox, and GATE_GONE for those that are no more. While
 * the api is away a door goes on with what it was told last. A door that starts
 * anew knows nothing and lets nothing pass.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum {
	GATE_VERSION = 2,
	GATE_MSG_MAX = 160 * 1024,
	GATE_PARTS_MAX = 16, /* policies of a sandbox, tried in this order */
	GATE_TEXT_MAX = 128 * 1024, /* of all of them together */
	GATE_PART_CAP = 80,         /* "policy research", "preset npm" */
	GATE_USES_MAX = 48,         /* secrets of a sandbox, canaries twice */
	GATE_PLACEHOLDER_CAP = 128,
	GATE_SEALED_MAX = 16 * 1024, /* a sealed value */
	GATE_PUBLIC_KEY = 32,
	GATE_CA_MAX = 4096, /* PEM */
	GATE_SELF_MAX = 128 * 1024,
	GATE_SELF_HASH = 32,
};

enum gate_kind {
	GATE_HELLO = 1, /* door */
	/* From the api. */
	GATE_PROJECT,     /* project: its keys, made if there are none */
	GATE_SECRET,      /* number: when it was set; project, and a secret as
			     vault/secret.h packs it */
	GATE_SECRET_GONE, /* project, name */
	GATE_BOX,  /* below; a new one or a change, in force when it is read */
	GATE_GONE, /* id */
	GATE_ANSWER, /* number, allow */
	GATE_CODE,   /* number, project, name: a one-time code, of a person */
	/* From the door. */
	GATE_HAVE,     /* id */
	GATE_READY,    /* */
	GATE_KEYS,     /* project, public key, certificate of its authority */
	GATE_ASK,      /* number, id, shown, and the request */
	GATE_ASK_GONE, /* number: nobody waits for it any more */
	GATE_PAUSE,    /* id, why: its budget says so */
	GATE_USE,    /* id, counters: all of its life; at most once a second */
	GATE_SEALED, /* number, project, name, sealed: the secret that was set
			then is renewed */
	GATE_CODED,  /* number, text: the code, or "" and why not */
	/* From the api: answered by GATE_SYNCED with the same number when all
	 * that was said before is in force. */
	GATE_SYNC,
	GATE_SYNCED,
	/* From the api. id: another door has it, or it stands still without its
	 * processes. As GATE_GONE, but what it has counted is kept. */
	GATE_MOVED,
	/* From the api. number, shown: what people call a request that waits;
	 * told again with its GATE_ASK. */
	GATE_SHOWN,
	/* From the door, when it is new. id: what it has counted is here; the
	 * api says GATE_GONE when there is no such sandbox any more. */
	GATE_KEPT,
	/* From the api, behind a GATE_BOX. id, text, bytes: what GATE_FD_SELF
	 * tells (JSON), and the SHA-256 of the token that it is told for. */
	GATE_SELF,
	/* From the api. text: JSON for who is called when somebody has to
	 * decide; of what no door holds. */
	GATE_HOOK,
	GATE_KINDS
};

/*
 * Descriptors of a GATE_BOX, in this order; born in the sandbox's network. The
 * sockets do not block. TCP and UDP take both families (IPv4 as mapped
 * addresses; on a host without IPv6 they are plain AF_INET): getsockname() of
 * an accepted connection is where it wanted to go. UDP has IPV6_RECVPKTINFO (or
 * IP_PKTINFO), and the same put into an answer sets where it seems to come
 * from.
 */
enum gate_fd {
	GATE_FD_PROXY = 1, /* TCP 127.0.0.1:3128 */
	GATE_FD_DNS = 2,   /* UDP 127.0.0.1:53 */
	GATE_FD_TCP = 4,   /* every port of every other address */
	GATE_FD_UDP = 8,   /* port 53 of every other address */
	GATE_FD_LINK = 16, /* keeps that so as long as it is open */
	GATE_FD_SELF = 32, /* TCP 127.0.0.1:49983, see gate/self.c */
	GATE_FDS_ALL = 63,
	GATE_FDS_MAX = 6,
};

enum gate_box_flags {
	GATE_OBSERVE = 1, /* what would be denied passes, and is written down */
};

/* The part with what people have granted; the first, if there is one. */
#define GATE_PART_GRANTS "approvals"
/* GATE_ASK: no policy asks, but a budget that is used up; `rule` says which. */
#define GATE_PART_BUDGET "budget"

struct gate_part {
	const char *name; /* as refusals say it: "policy research" */
	const char *text; /* policy/policy.h */
};

/* A secret that the sandbox may use by a placeholder, or a canary. */
struct gate_use {
	const char *name;
	const char *placeholder; /* of a canary: the false credential */
	bool canary;
};

struct gate_count {
	uint64_t requests, denied, up_bytes, down_bytes;
	uint64_t tokens_in, tokens_out, cost_micro; /* of models; millionths */
};

struct gate_msg {
	enum gate_kind kind;
	/* Strings point into the bytes that it was read from; "" when the kind
	 * has no such field. */
	const char *door, *project, *id, *name, *text;
	/* GATE_BOX: the id of the account whose budgets it draws on. */
	const char *account;
	uint64_t number, shown;
	uint32_t flags, fds;
	bool allow;
	uint64_t ask_ms; /* GATE_BOX: how long a request may be held */
	struct gate_part parts[GATE_PARTS_MAX];
	unsigned n_parts;
	struct gate_use uses[GATE_USES_MAX];
	unsigned n_uses;
	/* GATE_ASK: what is asked for, and which rule says so. */
	const char *method, *scheme, *host, *path, *part, *rule;
	uint32_t port, line;
	struct gate_count count;
	const void *bytes; /* secret, sealed value, public key */
	size_t n_bytes;
};

void gate_msg_put(struct buf *b, const struct gate_msg *m);
/* `n` bytes, all of them: 0, or -EBADMSG. Ids, names and numbers are of the
 * right form and within the limits above. */
int gate_msg_get(const void *p, size_t n, struct gate_msg *m) MUST_CHECK;
