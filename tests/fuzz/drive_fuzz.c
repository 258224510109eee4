/*
 * The drive from inside: records that a sandbox sends to the api, and grants
 * of a spec. What can be read is written again and must read the same.
 */
#include <stdlib.h>
#include <string.h>

#include "spec/grant.h"
#include "wire/drive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
	if (!ok)
		abort();
}

static void again(const struct buf *in, const struct drive_record *r, int n)
{
	struct buf b = { 0 };

	drive_record_put(&b, r);
	require(buf_len(&b) == (size_t)n &&
		memcmp(buf_data(&b), buf_data(in), (size_t)n) == 0);
	require(strlen(r->path) <= DRIVE_TEXT_MAX);
	require(r->kind != DRIVE_DATA || (r->n > 0 && r->n <= DRIVE_DATA_MAX));
	buf_done(&b);
}

/* What a grant covers is its prefix, or below it. */
static void grants(const char *text, const char *path)
{
	struct drive_grant g;
	struct err e = { 0 };

	if (drive_grant_parse(text, &g) < 0 ||
	    drive_path_check(path, false, &e) < 0)
		return;
	require(strlen(path) <= DRIVE_PATH_MAX && *path != '/');
	require(strstr(path, "//") == NULL);
	if (!drive_grant_covers(&g, path) || g.n == 0)
		return;
	require(memcmp(path, g.prefix, g.n) == 0);
	require(path[g.n] == '\0' || path[g.n] == '/');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct drive_record r;
	struct buf in = { 0 };
	int n;

	buf_add(&in, data, size);
	while ((n = drive_record_get(&in, &r)) > 0) {
		again(&in, &r, n);
		if (r.kind == DRIVE_REQUEST)
			grants(r.path, r.after);
		buf_eat(&in, (size_t)n);
	}
	buf_done(&in);
	return 0;
}
