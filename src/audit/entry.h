/*
 * One entry of the log: one line of JSON, in one form only.
 *
 *	{"seq":7,"time":"2026-01-31T08:15:30.125Z","type":"sandbox.create",
 *	 "sandbox":"i...","project":"default","who":"uid:0","request":"4f...",
 *	 "data":{...},"source":"gate","spool":5,"prev":"...","signature":"...",
 *	 "hash":"..."}
 *
 * (without the breaks). The members stand in this order; `sandbox` to
 * `request` may be null; `source` is there when it came from another writer
 * than the api, and `spool` is that writer's number then; `signature` is there
 * when the scribe speaks for itself (types "log.*"). `hash` is the SHA-256 of
 *the line without its last member, in hexadecimal; `prev` is the hash of the
 *entry before. What is signed is the line without its last two members.
 *
 * The body of an entry is what a writer sends: "time" to "data" as an object
 * of its own. It is checked here byte by byte, because whoever has taken over
 * a writer may send anything: a body that passes cannot add a line, a member
 * in front of or behind its own, or an entry in the scribe's name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
	ENTRY_BODY_MAX = 16 * 1024,
	ENTRY_LINE_MAX = ENTRY_BODY_MAX + 512, /* with its newline */
	ENTRY_WORD_MAX = 127,                  /* who, project and the like */
	ENTRY_TYPE_MAX = 48,
	ENTRY_DEPTH_MAX = 16,
	HASH_HEX = 64,
	SIGNATURE_HEX = 128,
};
#define ENTRY_OWN_TYPES "log."

struct span {
	const char *p; /* NULL: null */
	size_t n;
};

struct entry {
	uint64_t seq, spool;
	struct span time, type, sandbox, project, who, request, data;
	struct span source; /* NULL: the api, or the scribe itself */
	struct span prev, signature, hash;
	size_t signed_n; /* bytes in front of ,"signature" or ,"hash" */
	size_t hashed_n; /* bytes in front of ,"hash" */
};

/* 0, or -EINVAL with `why` in words; the spans point into the body. */
int entry_read_body(const char *p, size_t n, struct entry *out,
		    const char **why) MUST_CHECK;
/* A line without its newline; the spans point into it. */
int entry_parse(const char *line, size_t n, struct entry *out,
		const char **why) MUST_CHECK;

bool span_is(struct span s, const char *text);
bool span_starts(struct span s, const char *prefix);

/* A body, and who sent it with which number. */
struct entry_from {
	const char *body;
	size_t n;
	const char *source; /* NULL: as in struct entry */
	uint64_t spool;
};
/* The start of a line: everything up to and with `prev`, not closed. */
void entry_begin(struct buf *out, uint64_t seq, const struct entry_from *from,
		 const char *prev);
