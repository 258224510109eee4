/*
 * A log that somebody has written to: read from its end, checked, and taken up
 * again by the scribe. Whatever is in it, a log that was good before stays so.
 *
 * The first byte says what is made right, as somebody who can count could:
 * hashes, links, signatures (he cannot, but then nothing behind a signature
 * would be reached), and where the second file starts.
 */
#include "scribe_parts.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { HASHES = 1, LINKS = 2, SIGNATURES = 4, HEAD = 8, TWO = 16 };

static struct sign_key key;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct err e = { 0 };
	int dir_fd;

	(void)argc;
	(void)argv;
	if (sign_init(&e) < 0)
		abort();
	scratch_make();
	scribe_quiet();
	dir_fd = log_make();
	if (sign_load(dir_fd, &key, &e) < 0)
		abort();
	log_gone(dir_fd);
	return 0;
}

/* Of one line, in its place: they have the same length. */
static void make_right(char *line, size_t n, unsigned what,
		       char prev[HASH_HEX + 1])
{
	char signature[SIGNATURE_HEX + 1], hash[HASH_HEX + 1];
	struct entry e;
	const char *why;

	if (entry_parse(line, n, &e, &why) < 0)
		return;
	if (what & LINKS)
		memcpy(line + (e.prev.p - line), prev, HASH_HEX);
	if (what & SIGNATURES && e.signature.p) {
		sign_closed(&key, line, e.signed_n, signature);
		memcpy(line + (e.signature.p - line), signature, SIGNATURE_HEX);
	}
	if (what & HASHES) {
		hash_closed(line, e.hashed_n, hash);
		memcpy(line + (e.hash.p - line), hash, HASH_HEX);
	}
	memcpy(prev, e.hash.p, HASH_HEX);
}

static void put_file(int dir_fd, const char *name, const char *p, size_t n)
{
	AUTO_CLOSE int fd = openat(
		dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);

	if (fd < 0 || write_full(fd, p, n) < 0)
		abort();
}

/* Named after its first entry, if it has one. */
static void put_segment(int dir_fd, const char *p, size_t n, uint64_t other)
{
	const char *nl = memchr(p, '\n', n);
	char name[SEGMENT_NAME];
	const char *why;
	struct entry e;

	if (!nl || entry_parse(p, (size_t)(nl - p), &e, &why) < 0)
		e.seq = other;
	segment_name(e.seq, name);
	put_file(dir_fd, name, p, n);
}

static void put_log(int dir_fd, char *text, size_t n, unsigned what)
{
	char prev[HASH_HEX + 1];
	char *line = text, *end = text + n, *last = NULL, *second = NULL;

	memset(prev, '0', HASH_HEX);
	while (line < end) {
		char *nl = memchr(line, '\n', (size_t)(end - line));

		if (!nl)
			break;
		make_right(line, (size_t)(nl - line), what, prev);
		if (line > text &&
		    memmem(line, (size_t)(nl - line), "log.start", 9))
			second = line;
		last = line;
		line = nl + 1;
	}
	if (!(what & TWO) || !second)
		second = end;
	put_segment(dir_fd, text, (size_t)(second - text), 1);
	if (second < end)
		put_segment(dir_fd, second, (size_t)(end - second), 1000);
	if (what & HEAD && last)
		put_file(dir_fd, "head", last, (size_t)(line - last));
}

/* The scribe goes on with it. */
static int take_it_up(int dir_fd)
{
	static const char body[] =
		"{\"time\":\"2026-01-31T08:15:30.125Z\","
		"\"type\":\"sandbox.create\",\"sandbox\":null,\"project\":null,"
		"\"who\":null,\"request\":null,\"data\":{}}";
	struct writer *w;
	static struct chain c;
	struct err e = { 0 };

	if (chain_open(&c, dir_fd, 1 << 20, &e) < 0)
		return -e.code;
	chain_start(&c);
	w = writers_api(&c.writers);
	chain_add(&c, w, body, sizeof(body) - 1, w->now + 1);
	chain_sign(&c);
	if (chain_write(&c, &e) < 0 || chain_sync(&c, &e) < 0)
		abort();
	chain_done(&c);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static char line[ENTRY_LINE_MAX];
	struct entry last;
	struct err e = { 0 };
	char *text;
	int dir_fd, was;

	if (n < 1)
		return 0;
	text = malloc(n);
	memcpy(text, data + 1, n - 1);
	dir_fd = log_make();
	if (sign_load(dir_fd, &key, &e) < 0)
		abort();
	put_log(dir_fd, text, n - 1, data[0]);
	if (segments_last(dir_fd, line, &last, &e) == 1 && last.source.p)
		abort();
	was = log_verify();
	if (take_it_up(dir_fd) < 0) {
		if (was == VERIFY_GOOD)
			abort();
	} else if (was == VERIFY_GOOD && log_verify() != VERIFY_GOOD) {
		abort();
	}
	log_gone(dir_fd);
	free(text);
	return 0;
}
