/*
 * What a builtin of file work may send to the api: records, and the line of an
 * error. What can be read is written again and must read the same.
 */
#include <stdlib.h>
#include <string.h>

#include "wire/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
	if (!ok)
		abort();
}

static void again(const struct buf *in, const struct file_record *r, int n)
{
	struct file_record q;
	struct buf b = { 0 };

	file_record_put(&b, r);
	require(file_record_get(&b, &q) == n && q.kind == r->kind);
	require(buf_len(&b) == (size_t)n &&
		memcmp(buf_data(&b), buf_data(in), (size_t)n) == 0);
	if (r->kind == FILE_ENTRY) {
		require(strlen(r->entry.path) <= FILE_PATH_MAX);
		require(strlen(r->entry.user) <= FILE_NAME_MAX);
		require(file_type_name(r->entry.type) != NULL);
	}
	if (r->kind == FILE_EVENT)
		require(file_event_name(r->event.what) != NULL);
	buf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct file_record r;
	struct buf in = { 0 };
	struct err e;
	int n;

	buf_add(&in, data, size);
	file_error_get(buf_data(&in), buf_len(&in), &e);
	require(e.code > 0 && strlen(e.msg) < sizeof(e.msg));
	while ((n = file_record_get(&in, &r)) > 0) {
		again(&in, &r, n);
		buf_eat(&in, (size_t)n);
	}
	buf_done(&in);
	return 0;
}
