/*
 * What the scribe reads of the spool, and what everybody reads of the log. A
 * body that passes as an entry is put into a line, which must be one line and
 * read as that entry, whatever its bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "audit/entry.h"
#include "audit/spool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char zeros[HASH_HEX + 1];

static void require(int ok)
{
	if (!ok)
		abort();
}

static void on_body(const char *p, size_t n)
{
	struct buf line = { 0 };
	const struct entry_from from = {
		.body = p, .n = n, .source = n % 2 ? "gate.x" : NULL, .spool = 5
	};
	const char *why = NULL;
	struct entry e;

	if (entry_read_body(p, n, &e, &why) < 0) {
		require(why != NULL);
		return;
	}
	memset(zeros, '0', HASH_HEX);
	entry_begin(&line, 7, &from, zeros);
	buf_printf(&line, ",\"hash\":\"%s\"}", zeros);
	require(buf_len(&line) < ENTRY_LINE_MAX);
	require(memchr(buf_data(&line), '\n', buf_len(&line)) == NULL);
	require(entry_parse(buf_data(&line), buf_len(&line), &e, &why) == 0);
	require(e.seq == 7 && e.spool == 5 && !e.signature.p);
	require(from.source ? span_is(e.source, "gate.x") : !e.source.p);
	require(!span_starts(e.type, ENTRY_OWN_TYPES));
	require(e.data.p[0] == '{' && e.data.p[e.data.n - 1] == '}');
	buf_done(&line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct spool_record r;
	struct entry e;
	const char *why;
	struct spool_head head;
	size_t at = 0;

	if (entry_parse((const char *)data, size, &e, &why) == 0)
		require(e.hash.n == HASH_HEX && e.hashed_n < size);
	on_body((const char *)data, size);
	if (spool_head_get(data, size, &head) == 0) {
		require(head.first > 0 && head.start >= SPOOL_HEAD);
		at = SPOOL_HEAD;
	}
	while (spool_get(data + at, size - at, &r) == 1) {
		require(r.size <= size - at && r.n <= SPOOL_BODY_MAX);
		on_body(r.body, r.n);
		at += r.size;
	}
	return 0;
}
