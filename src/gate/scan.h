/*
 * Words that must not pass: secrets in answers, canaries in requests. Each is
 * looked for as it is, in base64 (all three alignments), URL-encoded and in
 * hexadecimal, over the borders of pieces.
 *
 * scan_look() finds words that were added as `loose` in more forms: in other
 * cases, with line breaks, blanks or punctuation anywhere in them (`base64`,
 * `xxd -p`), and in rows of 16 bytes or more of a hex dump (`xxd`, `hexdump
 * -C`). Compressed or encrypted words are not found.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { SCAN_WORD_MIN = 8, SCAN_WORDS_MAX = 64 };

struct scan_set; /* the patterns; shared by many scans */

struct scan_set *scan_set_new(void);
void scan_set_free(struct scan_set *s); /* wipes */
/* Words that are too short to be told from chance are left out: false. */
bool scan_set_add(struct scan_set *s, const void *word, size_t n,
		  unsigned label);
/* The same, and scan_look() finds it in its looser forms, too. Only for random
 * words: some of these forms are short. */
bool scan_set_add_loose(struct scan_set *s, const char *word, size_t n,
			unsigned label);
/* All that is in another one. */
void scan_set_copy(struct scan_set *s, const struct scan_set *from,
		   unsigned label);
bool scan_set_empty(const struct scan_set *s);

/* One stream of bytes. Zero-initialise; `set` may be NULL: nothing is found. */
struct scan {
	const struct scan_set *set;
	struct buf held; /* the end of what came, that may be a beginning */
	struct buf held_loose; /* the same of the folded text */
	unsigned found;        /* how often */
	unsigned label;        /* of the last one */
};

/*
 * Bytes in, bytes out: what was found is replaced by as many '*'; what may be
 * the beginning of a word is held back until more comes or `last`.
 */
void scan_mask(struct scan *s, const void *p, size_t n, bool last,
	       struct buf *out);
/* Only looks: is a word in what came so far? Nothing is held back. */
bool scan_look(struct scan *s, const void *p, size_t n);
void scan_done(struct scan *s);
