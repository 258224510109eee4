/*
 * What a worker that speaks to a registry is asked, and says. The worker hears
 * strangers over the network: whoever reads its records believes none of them,
 * and checks every digest.
 *
 * Records are little-endian: u32 length of what follows | u8 kind | fields.
 * FETCH_OPEN comes first and has no answer. Then one request after the other:
 * each is answered by FETCH_DONE or FETCH_ERROR, with the records in front of
 * it that its line names. After an error the worker is gone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
	FETCH_DATA_MAX = 64 * 1024, /* bytes of one record */
	FETCH_RECORD_MAX = 80 * 1024,
	FETCH_HOST_CAP = 256,
	FETCH_REPO_CAP = 256,
	FETCH_TAG_CAP = 136,
	FETCH_SECRET_CAP = 8192, /* tokens are used as passwords, too */
	FETCH_MEDIA_CAP = 128,
	FETCH_MANIFEST_MAX = 1024 * 1024,
};

enum fetch_kind {
	/* Asked. */
	FETCH_OPEN = 1,     /* str host, repository, user, password; u8 push */
	FETCH_GET_MANIFEST, /* str tag or digest: HEAD, DATA... */
	FETCH_GET_BLOB, /* str digest, u64 size, u64 offset: HEAD, DATA... */
	FETCH_HAS_BLOB, /* str digest; DONE says */
	FETCH_PUT_BLOB, /* str digest, u64 size, then BYTES: SENT... */
	FETCH_PUT_MANIFEST, /* str tag, str media type, u64 size, then BYTES */
	FETCH_BYTES,
	/* Said. */
	FETCH_HEAD, /* str media type, u64 offset: what comes is from there */
	FETCH_DATA,
	FETCH_SENT,  /* u64 bytes that the registry has */
	FETCH_DONE,  /* u8 yes */
	FETCH_ERROR, /* u32 errno, str message */
	FETCH_KINDS
};

struct fetch_record {
	enum fetch_kind kind;
	/* Strings point into the buffer that it was read from. */
	const char *host, *repository, *user, *password;
	const char *reference; /* a tag or digest */
	const char *media_type;
	uint64_t size, offset;
	bool flag; /* of OPEN: for a push; of DONE: yes */
	const void *p;
	size_t n;
	struct err err;
};

void fetch_record_put(struct buf *b, const struct fetch_record *r);
/*
 * Its size in front of `b`, 0 when more is needed, -EBADMSG. What it names is
 * of the right form: hosts, repositories, tags, digests.
 */
int fetch_record_get(const struct buf *b, struct fetch_record *r) MUST_CHECK;

/* --- names ---------------------------------------------------------------- */

/* "HOST[:PORT]/NAME[:TAG|@DIGEST]"; there is no host that goes without. */
struct fetch_ref {
	char host[FETCH_HOST_CAP];
	char repository[FETCH_REPO_CAP];
	char reference[FETCH_TAG_CAP]; /* "latest" by default */
};

int fetch_ref_parse(struct fetch_ref *r, const char *s,
		    struct err *e) MUST_CHECK;
/* A name or address with an optional port; in lower case. */
bool fetch_host_valid(const char *s);
bool fetch_repository_valid(const char *s);
/* A tag, or a digest. */
bool fetch_reference_valid(const char *s);
/*
 * Is the host in the list "host[:port], *.domain, ..."? One without a port
 * means the default port of https.
 */
bool fetch_host_listed(const char *list, const char *host);
/* One of the list that can never match is an error. */
int fetch_list_check(const char *list, struct err *e) MUST_CHECK;
