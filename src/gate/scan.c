/*
 * How it is fast where nothing is found: every pattern has at least 8 bytes,
 * so of the 5 blocks of 4 bytes that begin in its first 5 places, one begins
 * at each fifth place of the text. Only those are looked up, in a bitmap;
 * what it knows is compared.
 */
#include "gate/scan.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"

enum {
	BLOCK = 4,
	STRIDE = SCAN_WORD_MIN - BLOCK + 1,
	HASH_BITS = 16,
	BUCKETS = 1024,
	WORD_MAX = 16 * 1024,
	DUMP_ROW = 16,      /* bytes in a row of a hex dump */
	DUMP_WORD_MAX = 64, /* a pattern for each row that it may have */
	NONE = -1
};

struct pattern {
	char *p;
	size_t n;
	unsigned label;
	int next; /* of the same bucket */
};

struct scan_set {
	struct pattern *v;
	int n, cap;
	unsigned words;
	size_t longest;
	int buckets[BUCKETS];                   /* by the first block */
	uint64_t blocks[(1 << HASH_BITS) / 64]; /* in the first 8 bytes */
	uint64_t starts[(1 << HASH_BITS) / 64]; /* at the start */
	struct scan_set *loose; /* patterns of the folded text; or NULL */
};

struct scan_set *scan_set_new(void)
{
	struct scan_set *s = xcalloc(1, sizeof(*s));
	size_t i;

	for (i = 0; i < BUCKETS; i++)
		s->buckets[i] = NONE;
	return s;
}

void scan_set_free(struct scan_set *s)
{
	int i;

	if (!s)
		return;
	scan_set_free(s->loose);
	for (i = 0; i < s->n; i++) {
		sodium_memzero(s->v[i].p, s->v[i].n);
		free(s->v[i].p);
	}
	free(s->v);
	sodium_memzero(s, sizeof(*s));
	free(s);
}

bool scan_set_empty(const struct scan_set *s)
{
	return !s || s->n == 0;
}

/* --- patterns --- */

static uint32_t hash(const char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v * 2654435761U >> (32 - HASH_BITS);
}

static bool has(const uint64_t *map, uint32_t h)
{
	return map[h / 64] >> h % 64 & 1;
}

static bool known(const struct scan_set *s, const char *p, size_t n)
{
	int i;

	for (i = s->buckets[hash(p) % BUCKETS]; i != NONE; i = s->v[i].next)
		if (s->v[i].n == n && memcmp(s->v[i].p, p, n) == 0)
			return true;
	return false;
}

static void add(struct scan_set *s, const char *p, size_t n, unsigned label)
{
	struct pattern *x;
	uint32_t h;
	int i;

	if (n < SCAN_WORD_MIN || known(s, p, n))
		return;
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 16;
		s->v = xrealloc(s->v, (size_t)s->cap * sizeof(*s->v));
	}
	x = &s->v[s->n];
	x->p = xcalloc(1, n);
	memcpy(x->p, p, n);
	x->n = n;
	x->label = label;
	h = hash(p);
	x->next = s->buckets[h % BUCKETS];
	s->buckets[h % BUCKETS] = s->n++;
	s->starts[h / 64] |= 1ULL << h % 64;
	for (i = 0; i < STRIDE; i++) {
		h = hash(p + i);
		s->blocks[h / 64] |= 1ULL << h % 64;
	}
	if (n > s->longest)
		s->longest = n;
}

static void add_wiped(struct scan_set *s, struct buf *b, unsigned label)
{
	add(s, buf_data(b), buf_len(b), label);
	if (b->p)
		sodium_memzero(b->p, b->cap);
	buf_done(b);
}

/* `ahead` bytes stand in front of the word: the letters that depend on nothing
 * but the word, in both alphabets. */
static void add_base64(struct scan_set *s, const char *word, size_t n,
		       size_t ahead, unsigned label)
{
	size_t first = (8 * ahead + 5) / 6, end = 8 * (ahead + n) / 6, i;
	struct buf raw = { 0 }, text = { 0 }, url = { 0 };

	buf_add(&raw, "\0\0", ahead);
	buf_add(&raw, word, n);
	base64_add(&text, buf_data(&raw), buf_len(&raw));
	buf_add(&url, buf_data(&text) + first, end - first);
	add(s, buf_data(&url), buf_len(&url), label);
	for (i = 0; i < buf_len(&url); i++) {
		char *c = buf_data(&url) + i;

		*c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
	}
	add_wiped(s, &url, label);
	sodium_memzero(raw.p, raw.cap);
	sodium_memzero(text.p, text.cap);
	buf_done(&raw);
	buf_done(&text);
}

static void add_hex(struct scan_set *s, const char *word, size_t n,
		    const char *digits, unsigned label)
{
	struct buf b = { 0 };
	size_t i;

	for (i = 0; i < n; i++) {
		buf_add(&b, &digits[(unsigned char)word[i] >> 4], 1);
		buf_add(&b, &digits[word[i] & 15], 1);
	}
	add_wiped(s, &b, label);
}

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

/* All but the letters of `keep` as %XX. */
static void add_url(struct scan_set *s, const char *word, size_t n,
		    const char *digits, const char *keep, unsigned label)
{
	struct buf b = { 0 };
	size_t i;

	for (i = 0; i < n; i++) {
		if (word[i] && strchr(keep, word[i])) {
			buf_add(&b, &word[i], 1);
			continue;
		}
		buf_puts(&b, "%");
		buf_add(&b, &digits[(unsigned char)word[i] >> 4], 1);
		buf_add(&b, &digits[word[i] & 15], 1);
	}
	add_wiped(s, &b, label);
}

bool scan_set_add(struct scan_set *s, const void *word, size_t n,
		  unsigned label)
{
	static const char *const digits[] = { "0123456789abcdef",
					      "0123456789ABCDEF" };
	/* As browsers, forms and libraries do it; and everything. */
	static const char *const keeps[] = { LETTERS "-_.~", LETTERS "-_.~/",
					     LETTERS "-_.!~*'()", LETTERS, "" };
	size_t i, k;

	if (n < SCAN_WORD_MIN || n > WORD_MAX || s->words == SCAN_WORDS_MAX)
		return false;
	s->words++;
	add(s, word, n, label);
	for (i = 0; i < 3; i++)
		add_base64(s, word, n, i, label);
	for (i = 0; i < 2; i++) {
		add_hex(s, word, n, digits[i], label);
		for (k = 0; k < sizeof(keeps) / sizeof(keeps[0]); k++)
			add_url(s, word, n, digits[i], keeps[k], label);
	}
	return true;
}

/* --- loose patterns --- */

/* Lower case, and only the letters of base64's two alphabets. */
static void fold(const char *p, size_t n, struct buf *out)
{
	char *to = buf_room(out, n);
	size_t i, k = 0;

	for (i = 0; i < n; i++) {
		char c =
			p[i] >= 'A' && p[i] <= 'Z' ? (char)(p[i] | 0x20) : p[i];

		to[k] = c;
		k += (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
		     c == '+' || c == '/' || c == '-' || c == '_';
	}
	buf_fill(out, k);
}

static void add_folded(struct scan_set *s, const char *p, size_t n,
		       unsigned label)
{
	struct buf b = { 0 };

	fold(p, n, &b);
	add_wiped(s, &b, label);
}

bool scan_set_add_loose(struct scan_set *s, const char *word, size_t n,
			unsigned label)
{
	static const char digits[] = "0123456789abcdef";
	int from = s->n, i;
	size_t at;

	if (!scan_set_add(s, word, n, label))
		return false;
	if (!s->loose)
		s->loose = scan_set_new();
	for (i = from; i < s->n; i++)
		add_folded(s->loose, s->v[i].p, s->v[i].n, label);
	/* A dump has other things between its rows. */
	for (at = 0; n <= DUMP_WORD_MAX && at + DUMP_ROW <= n; at++)
		add_hex(s->loose, word + at, DUMP_ROW, digits, label);
	return true;
}

void scan_set_copy(struct scan_set *s, const struct scan_set *from,
		   unsigned label)
{
	int i;

	for (i = 0; i < from->n; i++)
		add(s, from->v[i].p, from->v[i].n, label);
	if (!from->loose)
		return;
	if (!s->loose)
		s->loose = scan_set_new();
	scan_set_copy(s->loose, from->loose, label);
}

/* --- looking --- */

struct match {
	size_t at, n; /* n 0: none */
	unsigned label;
};

/* The longest pattern that stands at `at`, whole. */
static bool whole_at(const struct scan_set *s, const char *p, size_t n,
		     size_t at, struct match *m)
{
	uint32_t h = hash(p + at);
	int i;

	*m = (struct match){ .at = at };
	if (!has(s->starts, h))
		return false;
	for (i = s->buckets[h % BUCKETS]; i != NONE; i = s->v[i].next) {
		const struct pattern *x = &s->v[i];

		if (x->n <= n - at && x->n > m->n &&
		    memcmp(x->p, p + at, x->n) == 0) {
			m->n = x->n;
			m->label = x->label;
		}
	}
	return m->n > 0;
}

/* The first one that begins at `from` or behind. */
static bool find(const struct scan_set *s, const char *p, size_t n, size_t from,
		 struct match *m)
{
	size_t q, at;

	for (q = from; q + BLOCK <= n; q += STRIDE) {
		if (!has(s->blocks, hash(p + q)))
			continue;
		at = q >= from + STRIDE ? q - (STRIDE - 1) : from;
		for (; at <= q; at++)
			if (whole_at(s, p, n, at, m))
				return true;
	}
	return false;
}

static bool begins_at(const struct scan_set *s, const char *p, size_t left)
{
	int i;

	if (left >= BLOCK) {
		uint32_t h = hash(p);

		if (!has(s->starts, h))
			return false;
		for (i = s->buckets[h % BUCKETS]; i != NONE; i = s->v[i].next)
			if (s->v[i].n > left && memcmp(s->v[i].p, p, left) == 0)
				return true;
		return false;
	}
	for (i = 0; i < s->n; i++)
		if (memcmp(s->v[i].p, p, left) == 0)
			return true;
	return false;
}

/* Where the first pattern begins whose end has not come yet; `n`: none. */
static size_t beginning(const struct scan_set *s, const char *p, size_t n,
			size_t from)
{
	size_t at = n >= s->longest ? n - s->longest + 1 : 0;

	for (at = at > from ? at : from; at < n; at++)
		if (begins_at(s, p + at, n - at))
			break;
	return at;
}

static void put_stars(struct buf *out, size_t n)
{
	if (out)
		memset(buf_room(out, n), '*', n);
	if (out)
		buf_fill(out, n);
}

/* Where that is to be looked at again begins. */
static size_t pass(struct scan *s, const char *p, size_t n, bool last,
		   struct buf *out)
{
	size_t at = 0, held = last ? n : beginning(s->set, p, n, 0);
	struct match m;

	/* Who only looks does not wait for a longer one. */
	while (find(s->set, p, n, at, &m) && (m.at < held || !out)) {
		s->found++;
		s->label = m.label;
		if (out)
			buf_add(out, p + at, m.at - at);
		put_stars(out, m.n);
		at = m.at + m.n;
		if (!last && held < at)
			held = beginning(s->set, p, n, at);
	}
	if (out && held > at)
		buf_add(out, p + at, held - at);
	return held;
}

static void wipe(struct buf *b)
{
	if (b->p)
		sodium_memzero(b->p, b->cap);
	buf_done(b);
}

static void keep(struct scan *s, const char *p, size_t n)
{
	struct buf rest = { 0 };

	if (n > 0)
		buf_add(&rest, p, n);
	wipe(&s->held);
	s->held = rest;
}

static void run(struct scan *s, const void *p, size_t n, bool last,
		struct buf *out)
{
	size_t at;

	if (buf_len(&s->held) > 0) {
		buf_add(&s->held, p, n);
		p = buf_data(&s->held);
		n = buf_len(&s->held);
	}
	at = pass(s, p, n, last, out);
	if (at < n || s->held.p)
		keep(s, (const char *)p + at, n - at);
}

void scan_mask(struct scan *s, const void *p, size_t n, bool last,
	       struct buf *out)
{
	if (scan_set_empty(s->set))
		buf_add(out, p, n);
	else
		run(s, p, n, last, out);
}

static void look_loose(struct scan *s, const void *p, size_t n)
{
	struct scan folded = { .set = s->set->loose, .held = s->held_loose };
	struct buf text = { 0 };

	fold(p, n, &text);
	run(&folded, buf_data(&text), buf_len(&text), false, NULL);
	s->held_loose = folded.held;
	if (folded.found > 0) {
		s->found += folded.found;
		s->label = folded.label;
	}
	wipe(&text);
}

bool scan_look(struct scan *s, const void *p, size_t n)
{
	if (scan_set_empty(s->set))
		return false;
	run(s, p, n, false, NULL);
	if (s->found == 0 && s->set->loose)
		look_loose(s, p, n);
	return s->found > 0;
}

void scan_done(struct scan *s)
{
	wipe(&s->held);
	wipe(&s->held_loose);
}
