/* Words that must not pass: in every form, over every border. */
#include <stdbool.h>
#include <stdlib.h>

#include "base/base64.h"
#include "check.h"
#include "gate/scan.h"

#define WORD "s3cr3t/+word=="

static struct buf masked(const struct scan_set *set, const char *text, size_t n,
			 size_t piece, unsigned *found)
{
	struct scan s = { .set = set };
	struct buf out = { 0 };
	size_t at;

	for (at = 0; at < n; at += piece)
		scan_mask(&s, text + at, piece < n - at ? piece : n - at, false,
			  &out);
	scan_mask(&s, "", 0, true, &out);
	*found = s.found;
	scan_done(&s);
	return out;
}

static bool hides(const struct scan_set *set, const char *text,
		  const char *want)
{
	size_t n = strlen(text), piece;
	bool ok = true;
	unsigned found;

	for (piece = 1; piece <= n; piece++) {
		struct buf out = masked(set, text, n, piece, &found);

		if (strcmp(buf_str(&out), want) != 0) {
			printf("# %zu: %s\n", piece, buf_str(&out));
			ok = false;
		}
		buf_done(&out);
	}
	return ok;
}

static void test_forms(void)
{
	struct scan_set *set = scan_set_new();

	CHECK(!scan_set_add(set, "short", 5, 1));
	CHECK(scan_set_empty(set));
	CHECK(scan_set_add(set, WORD, strlen(WORD), 7));
	CHECK(hides(set, "nothing here", "nothing here"));
	CHECK(hides(set, "", ""));
	CHECK(hides(set, "a " WORD " b", "a ************** b"));
	CHECK(hides(set, "s3cr3" WORD "s3cr3", "s3cr3**************s3cr3"));
	CHECK(hides(set, WORD WORD, "****************************"));
	CHECK(hides(set, "x s3cr3t%2F%2Bword%3D%3D x",
		    "x ********************** x"));
	CHECK(hides(set, "s3cr3t%2f%2bword%3d%3d", "**********************"));
	CHECK(hides(set, "s3cr3t/%2Bword%3D%3D", "********************"));
	CHECK(hides(set, "%73%33%63%72%33%74%2F%2B%77%6F%72%64%3D%3D",
		    "******************************************"));
	CHECK(hides(set, "7333637233742f2b776f72643d3d",
		    "****************************"));
	CHECK(hides(set, "7333637233742F2B776F72643D3D",
		    "****************************"));
	scan_set_free(set);
}

/* In the middle of something that is encoded as a whole. */
static void test_base64(void)
{
	struct scan_set *set = scan_set_new();
	size_t ahead;

	scan_set_add(set, "\xfb\xff\xfe\xfb\xff\xfe-word", 11, 0);
	for (ahead = 0; ahead < 4; ahead++) {
		struct buf raw = { 0 }, text = { 0 }, out;
		size_t i, piece;
		unsigned found;

		buf_add(&raw, "user", ahead);
		buf_add(&raw, "\xfb\xff\xfe\xfb\xff\xfe-word", 11);
		buf_puts(&raw, "tail");
		base64_add(&text, buf_data(&raw), buf_len(&raw));
		for (piece = 1; piece < 9; piece++) {
			out = masked(set, buf_data(&text), buf_len(&text),
				     piece, &found);
			CHECK(found == 1 && buf_len(&out) == buf_len(&text));
			CHECK(strstr(buf_str(&out), "*************"));
			buf_done(&out);
		}
		for (i = 0; i < buf_len(&text); i++) {
			char *c = buf_data(&text) + i;

			*c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
		}
		out = masked(set, buf_data(&text), buf_len(&text), 5, &found);
		CHECK(found == 1);
		buf_done(&out);
		buf_done(&raw);
		buf_done(&text);
	}
	scan_set_free(set);
}

/* What a plain search finds is found, however it comes in. */
static void test_random(void)
{
	static const char *const words[] = { "aabbaabb", "abababab",
					     "aaaaaaaaaa", "bbabbabbabba" };
	struct scan_set *set = scan_set_new();
	bool look_ok = true, gone = true, same_ok = true;
	unsigned round, w;

	for (w = 0; w < 4; w++)
		scan_set_add(set, words[w], strlen(words[w]), w);
	srandom(1);
	for (round = 0; round < 20000; round++) {
		size_t n = (size_t)random() % 60, at, piece;
		struct scan look = { .set = set }, mask = { .set = set };
		struct buf out = { 0 };
		bool there = false, seen = false;
		char text[64];

		for (at = 0; at < n; at++)
			text[at] = "ab"[random() % 2];
		text[n] = '\0';
		for (w = 0; w < 4; w++)
			there |= strstr(text, words[w]) != NULL;
		for (at = 0; at < n; at += piece) {
			piece = 1 + (size_t)random() % 9;
			piece = piece < n - at ? piece : n - at;
			seen = scan_look(&look, text + at, piece);
			scan_mask(&mask, text + at, piece, at + piece == n,
				  &out);
		}
		look_ok &= seen == there;
		same_ok &= buf_len(&out) == n && (mask.found > 0) == there;
		for (at = 0; at < buf_len(&out); at++)
			same_ok &= buf_data(&out)[at] == '*' ||
				   buf_data(&out)[at] == text[at];
		for (w = 0; w < 4; w++)
			gone &= !strstr(buf_str(&out), words[w]);
		scan_done(&look);
		scan_done(&mask);
		buf_done(&out);
	}
	CHECK(look_ok);
	CHECK(same_ok);
	CHECK(gone);
	scan_set_free(set);
}

/* A word that is the beginning of another one. */
static void test_prefix(void)
{
	struct scan_set *set = scan_set_new();
	struct scan s = { .set = set };

	scan_set_add(set, "abcdefgh", 8, 1);
	scan_set_add(set, "abcdefghijkl", 12, 2);
	CHECK(scan_look(&s, "abcdefgh", 8) && s.label == 1);
	CHECK(hides(set, "abcdefghij", "********ij"));
	CHECK(hides(set, "abcdefghijkl", "************"));
	scan_done(&s);
	scan_set_free(set);
	/* In the other order, too. */
	set = scan_set_new();
	scan_set_add(set, "abcdefghijkl", 12, 2);
	scan_set_add(set, "abcdefgh", 8, 1);
	CHECK(hides(set, "abcdefghijkl", "************"));
	scan_set_free(set);
}

/* What cannot be a beginning is not held back. */
static void test_prompt(void)
{
	struct scan_set *set = scan_set_new();
	struct scan s = { .set = set };
	struct buf out = { 0 };

	scan_set_add(set, WORD, strlen(WORD), 1);
	scan_mask(&s, "data: hello\n\n", 13, false, &out);
	CHECK(buf_len(&out) == 13);
	scan_mask(&s, "data: s3cr", 10, false, &out);
	CHECK(buf_len(&out) == 13 + 6);
	scan_mask(&s, "ipt", 3, false, &out);
	CHECK(buf_len(&out) == 13 + 13);
	scan_done(&s);
	buf_done(&out);
	scan_set_free(set);
}

#define CANARY "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a6978"

/* However it is cut into pieces. */
static bool finds(const struct scan_set *set, const char *text)
{
	size_t n = strlen(text), piece, at;
	bool all = true;

	for (piece = 1; piece <= n; piece++) {
		struct scan s = { .set = set };
		bool found = false;

		for (at = 0; at < n; at += piece)
			found |= scan_look(&s, text + at,
					   piece < n - at ? piece : n - at);
		all &= found;
		scan_done(&s);
	}
	return all;
}

static void test_loose(void)
{
	struct scan_set *set = scan_set_new(), *copy = scan_set_new();

	CHECK(scan_set_add_loose(set, CANARY, strlen(CANARY), 3));
	CHECK(finds(set, "A=0F1E2D3C4B5A69788796A5B4C3D2E1F00F1E2D3C4B5A6978"));
	/* env | base64 */
	CHECK(finds(set,
		    "SE9NRT0vcm9vdApLRVk9MGYxZTJkM2M0YjVhNjk3ODg3OTZhNWI0YzNk"
		    "MmUxZjAwZjFlMmQzYzRi\r\nNWE2OTc4Cg==\n"));
	/* xxd -p */
	CHECK(finds(set,
		    "3066316532643363346235613639373838373936613562346333643265"
		    "31\n66303066316532643363346235613639373800\n"));
	/* xxd, hexdump -C */
	CHECK(finds(
		set,
		"00000000: 4b3d 3066 3165 3264 3363 3462 3561 3639 K=0f\n"
		"00000010: 3738 3837 3936 6135 6234 6333 6432 6531 7887\n"
		"00000020: 6630 3066 3165 3264 3363 3462 3561 3639 f00f\n"));
	CHECK(finds(set,
		    "00000010  37 38 38 37 39 36 61 35  62 34 63 33 64 32 65 "
		    "31  |7887|\n"));
	CHECK(!finds(set, "0f1e2d3c4b5a69788796a5b4c3d2e1f0"));
	CHECK(!finds(set, "00000010  37 38 38 37 39 36 61 35  62 34 63 33"));
	scan_set_copy(copy, set, 1);
	CHECK(finds(copy, "0F1E2D3C4B5A69788796A5B4C3D2E1F00F1E2D3C4B5A6978"));
	/* Masking is about exact words: the rest of a text is not touched. */
	CHECK(hides(copy, "0F1E2D3C4B5A69788796A5B4C3D2E1F00F1E2D3C4B5A6978",
		    "0F1E2D3C4B5A69788796A5B4C3D2E1F00F1E2D3C4B5A6978"));
	scan_set_free(copy);
	scan_set_free(set);
}

int main(void)
{
	test_loose();
	test_forms();
	test_base64();
	test_random();
	test_prompt();
	test_prefix();
	return CHECK_DONE();
}
