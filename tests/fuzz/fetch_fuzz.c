/*
 * What the worker of registries and the api say to each other, names of
 * images in registries, and what a registry says about who may come in. A
 * record that can be read is written again and must read the same.
 */
#include <stdlib.h>
#include <string.h>

#include "wire/fetch.h"
/* The program's files are not in the library. */
#include "fetch/challenge.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
	if (!ok)
		abort();
}

static void again(const struct buf *in, const struct fetch_record *r, int n)
{
	struct fetch_record q;
	struct buf b = { 0 };

	fetch_record_put(&b, r);
	/* A message that is too long, or not ASCII, is changed. */
	if (r->kind != FETCH_ERROR) {
		require(fetch_record_get(&b, &q) == n && q.kind == r->kind);
		require(memcmp(buf_data(&b), buf_data(in), (size_t)n) == 0);
	}
	buf_done(&b);
}

static void texts(const char *s)
{
	struct challenge c;
	struct fetch_ref ref;
	struct err e = { 0 };

	(void)challenge_find(s, "Bearer", &c);
	(void)fetch_host_listed(s, "a.example:5000");
	if (fetch_list_check(s, &e) < 0)
		err_clear(&e);
	if (fetch_ref_parse(&ref, s, &e) == 0)
		require(fetch_host_valid(ref.host) &&
			fetch_repository_valid(ref.repository) &&
			fetch_reference_valid(ref.reference));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fetch_record r;
	struct buf in = { 0 };
	int n;

	buf_add(&in, data, size);
	texts(buf_str(&in));
	while ((n = fetch_record_get(&in, &r)) > 0) {
		again(&in, &r, n);
		buf_eat(&in, (size_t)n);
	}
	buf_done(&in);
	return 0;
}
