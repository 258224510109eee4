/*
 * What a view worker may send to the api, and what it is asked. What can be
 * read is written again and must read the same.
 */
#include <stdlib.h>
#include <string.h>

#include "wire/view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
	if (!ok)
		abort();
}

static void again(const struct buf *in, const struct view_record *r, int n)
{
	struct view_record q;
	struct buf b = { 0 };

	view_record_put(&b, r);
	require(view_record_get(&b, &q) == n && q.kind == r->kind);
	/* Control bytes of a message were replaced. */
	if (r->kind != VIEW_ERROR)
		require(memcmp(buf_data(&b), buf_data(in), (size_t)n) == 0);
	if (r->kind == VIEW_CHANGE)
		require(view_path_ok(r->change.before.path));
	if (r->kind == VIEW_STEP)
		require(view_path_ok(r->step.ours.path));
	buf_done(&b);
}

static void ask(const uint8_t *data, size_t size)
{
	struct buf b = { 0 };
	struct view_ask a;

	if (view_ask_get(data, size, &a) < 0)
		return;
	view_ask_put(&b, a.flags, a.paths, a.n);
	require(buf_len(&b) == size && memcmp(buf_data(&b), data, size) == 0);
	buf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct view_record r;
	struct buf in = { 0 };
	int n;

	ask(data, size);
	buf_add(&in, data, size);
	while ((n = view_record_get(&in, &r)) > 0) {
		again(&in, &r, n);
		buf_eat(&in, (size_t)n);
	}
	buf_done(&in);
	return 0;
}
