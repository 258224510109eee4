/*
 * A word and a stream that is cut in places: what comes out is as long as what
 * went in, has the word nowhere, and differs from it in stars alone.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "gate/scan.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct scan_set *set;
	struct scan s = { 0 }, look = { 0 };
	struct buf out = { 0 };
	size_t word, cut, at, piece;
	bool there;

	if (n < 3)
		return 0;
	word = data[0] % 32;
	cut = data[1];
	data += 2;
	n -= 2;
	if (word > n)
		return 0;
	set = scan_set_new();
	there = scan_set_add(set, data, word, 1) &&
		memmem(data + word, n - word, data, word);
	s.set = look.set = set;
	for (at = word; at < n; at += piece) {
		piece = 1 + (at * 7 + cut) % 13;
		piece = piece < n - at ? piece : n - at;
		scan_look(&look, data + at, piece);
		scan_mask(&s, data + at, piece, false, &out);
	}
	scan_mask(&s, "", 0, true, &out);
	assert(buf_len(&out) == n - word);
	for (at = 0; at < buf_len(&out); at++)
		assert(buf_data(&out)[at] == '*' ||
		       (uint8_t)buf_data(&out)[at] == data[word + at]);
	assert(!there || (s.found && look.found));
	scan_done(&s);
	scan_done(&look);
	scan_set_free(set);
	buf_done(&out);
	return 0;
}
