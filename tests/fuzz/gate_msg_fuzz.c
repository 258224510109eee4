/*
 * What the api and a door say to each other, and a door and the keeper: a
 * message that can be read is written, read and written again: the same. The
 * first byte says whose it is.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "wire/gate.h"
/* The program's files are not in the library. */
#include "gate/within.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
	if (!ok)
		abort();
}

static void of_api(const void *p, size_t n)
{
	static struct gate_msg m, q;
	struct buf a = { 0 }, b = { 0 };
	size_t text = 0;
	unsigned i;

	if (gate_msg_get(p, n, &m) < 0)
		return;
	require(m.n_parts <= GATE_PARTS_MAX && m.n_uses <= GATE_USES_MAX);
	for (i = 0; i < m.n_parts; i++)
		text += strlen(m.parts[i].text);
	require(text <= GATE_TEXT_MAX && m.port <= UINT16_MAX);
	require(!*m.project || name_valid(m.project));
	require(!*m.id || id_valid(m.id));
	gate_msg_put(&a, &m);
	require(gate_msg_get(buf_data(&a), buf_len(&a), &q) == 0);
	gate_msg_put(&b, &q);
	require(buf_len(&a) == n && buf_len(&b) == n);
	require(memcmp(buf_data(&a), buf_data(&b), n) == 0);
	buf_done(&a);
	buf_done(&b);
}

static void of_door(const void *p, size_t n)
{
	struct within_msg m;
	struct buf a = { 0 };

	if (within_get(p, n, &m) < 0)
		return;
	require(m.op > 0 && m.op < WITHIN_OPS);
	if (m.op == WITHIN_STATE || m.op == WITHIN_DROP)
		require(id_valid(m.name));
	within_put(&a, &m);
	require(buf_len(&a) == n && memcmp(buf_data(&a), p, n) == 0);
	buf_done(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] & 1)
		of_door(data + 1, size - 1);
	else
		of_api(data + 1, size - 1);
	return 0;
}
