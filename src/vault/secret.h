/*
 * Secrets: what one is, and how its value travels. The value is sealed by
 * whoever sets it to the public key of the project's door; the api keeps what
 * it cannot read. Everything else about it is no secret.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "base/str.h"
#include "policy/policy.h"

enum {
	SECRET_HOSTS_MAX = 16,
	SECRET_PATH_CAP = 256,
	SECRET_TEXT_CAP = 512,
	SECRET_VALUE_MAX = 8 * 1024,
};

enum secret_kind {
	SECRET_HEADER, /* `field`: its template, with {} for the value */
	SECRET_BASIC,  /* `user`; the value is the password */
	SECRET_QUERY,  /* `field`: the parameter */
	SECRET_SIGV4,  /* `user`: access key id; `region`, `service` */
	SECRET_OAUTH2, /* `url`: token endpoint, `user`: client id, `scope`; the
			  value: client secret, newline, refresh token */
	SECRET_TOTP,   /* a code on demand; the value is the seed, in base32 */
	SECRET_TEXT,   /* a value that others carry: it goes wherever they do;
			  `user` has words about it */
	SECRET_FILL,   /* as a header; the value is the name of a text */
	SECRET_KINDS
};
const char *secret_kind_name(enum secret_kind k);

struct secret {
	struct list node;
	char name[NAME_CAP];
	enum secret_kind kind;
	char hosts[SECRET_HOSTS_MAX][POLICY_HOST_CAP]; /* "*.x" is below x */
	unsigned n_hosts;
	unsigned methods;           /* of method_bit(); 0: any */
	char path[SECRET_PATH_CAP]; /* pattern; "": any */
	char field[NAME_CAP * 2], template[SECRET_TEXT_CAP];
	char user[SECRET_TEXT_CAP], region[NAME_CAP], service[NAME_CAP];
	char url[SECRET_TEXT_CAP], scope[SECRET_TEXT_CAP];
	bool private_url; /* an operator set it: `url` may be a private place */
	char env[NAME_CAP];    /* variable inside that has the placeholder */
	unsigned char *sealed; /* owned */
	size_t sealed_n;
	uint64_t round; /* a door's: the connection that it was told by */
	uint64_t set;   /* a door's: which one it is of those with its name */
	bool renewed;   /* a door's: `sealed` is its own work */
	void *open;     /* a door's: the value and what was made of it */
	void (*close)(void *open); /* called by secret_done() */
};

void secret_done(struct secret *s);
/*
 * One more host: [http://]HOST[:PORT], HOST as in a rule. Without a scheme it
 * is https alone; a secret goes over plain http only where that is said.
 */
int secret_add_host(struct secret *s, const char *text,
		    struct err *e) MUST_CHECK;
/* "Authorization: Bearer {}" into `field` and `template`. */
int secret_set_header(struct secret *s, const char *line,
		      struct err *e) MUST_CHECK;
/* Bounds and what its kind needs; the error names the field. */
int secret_check(const struct secret *s, struct err *e) MUST_CHECK;
/* For GATE_SECRET. */
void secret_pack(struct buf *b, const struct secret *s);
/* 0, or -EBADMSG also for what secret_check() refuses. */
int secret_unpack(struct secret *s, const void *p, size_t n) MUST_CHECK;

/* Is it meant for this request? What is not known yet (no method, no path)
 * speaks for it. */
bool secret_binds(const struct secret *s, const struct request *r);
/* Its name and all the places it may go to, in one line: what a value is
 * sealed with (seal.h). */
void secret_places(const struct secret *s, struct buf *out);
/* The texts that describe it, for whoever writes it down: by name, its place
 * and its size; ends at a NULL name. */
struct secret_text {
	const char *name, *help;
	size_t at, cap;
};
extern const struct secret_text secret_texts[];
