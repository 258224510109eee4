/*
 * What requests to models and their answers say about tokens: a reader of
 * JSON, and of event streams with JSON in them, that takes bytes in pieces of
 * any size and keeps a few numbers. A pure function; every byte is a
 * stranger's.
 *
 * It is no judge of JSON: what is malformed makes it find less. Names are
 * compared without their escapes, because the server does so, too, and without
 * regard to capitals, because some do. Of numbers that come more than once the
 * largest counts; of models that differ none: who charges takes the dearest.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	USAGE_WORD = 128, /* of a name or text that matters, with its NUL */
	USAGE_DEPTH = 8,  /* levels that can matter; deeper ones are passed */
};

/* What was found. */
struct usage {
	char model[USAGE_WORD]; /* "": none (yet), or several that differ */
	bool torn;              /* several: which one counts is unknown */
	/* Of a request. */
	uint64_t max_tokens; /* 0: it does not say */
	uint64_t choices;    /* answers that it wants; 0: it does not say */
	bool stream, include_usage;
	bool background; /* the answer comes another time */
	/* Of an answer. */
	bool counted; /* there was a usage */
	bool wrong;   /* ... with a value in it that is not a count */
	bool final;   /* ... and nothing comes behind it */
	uint64_t tokens_in, tokens_out, tokens_cached;
	uint64_t pieces; /* documents of a stream, or one */
};

/* Private: one document. */
struct json_reader {
	unsigned char state;
	bool key; /* the word is the name of a member */
	bool text, cut;
	unsigned depth;  /* brackets that are open */
	unsigned arrays; /* of the levels that matter, which are no objects */
	unsigned char names[USAGE_DEPTH]; /* of each level's current member */
	char word[USAGE_WORD];
	unsigned n, hex, left;
};

/* Zero-initialise. */
struct usage_reader {
	struct usage found;
	struct json_reader json;
	unsigned char line; /* of an event stream: where in it we are */
	bool begun;
};

/* A request's body. */
void usage_request(struct usage_reader *r, const void *p, size_t n);
/* An answer's: one document, or a stream of events. */
void usage_answer(struct usage_reader *r, const void *p, size_t n);
