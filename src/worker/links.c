#include "worker/links.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "worker/limits.h"

struct key {
	uint64_t ino, size;
	int64_t ctime, mtime, btime;
	uint32_t ctime_ns, mtime_ns, btime_ns, zero;
};

static struct key key_of(const struct statx *sx)
{
	return (struct key){
		.ino = sx->stx_ino,
		.size = sx->stx_size,
		.ctime = sx->stx_ctime.tv_sec,
		.ctime_ns = sx->stx_ctime.tv_nsec,
		.mtime = sx->stx_mtime.tv_sec,
		.mtime_ns = sx->stx_mtime.tv_nsec,
		.btime = sx->stx_btime.tv_sec,
		.btime_ns = sx->stx_btime.tv_nsec,
	};
}

/* Numbers are given in order; a sandbox that chooses them wins nothing: the
 * table is bounded, and so is the time for one look. */
static size_t place(const struct links *l, uint64_t ino)
{
	return (size_t)(ino * UINT64_C(0x9e3779b97f4a7c15) >> 32) &
	       (l->n_slots - 1);
}

static uint32_t *find(const struct links *l, const struct key *k)
{
	size_t i = place(l, k->ino);

	while (l->slot[i] &&
	       memcmp(l->text + l->slot[i] - 1, k, sizeof(*k)) != 0)
		i = (i + 1) & (l->n_slots - 1);
	return &l->slot[i];
}

static void grow(struct links *l)
{
	uint32_t *old = l->slot;
	size_t n_old = l->n_slots, i;
	struct key k;

	l->n_slots = n_old ? 2 * n_old : 1024;
	l->slot = xcalloc(l->n_slots, sizeof(*l->slot));
	for (i = 0; i < n_old; i++)
		if (old[i]) {
			memcpy(&k, l->text + old[i] - 1, sizeof(k));
			*find(l, &k) = old[i];
		}
	free(old);
}

const char *links_first(struct links *l, const struct statx *sx,
			const char *path)
{
	struct key k = key_of(sx);
	size_t n = strlen(path) + 1;
	uint32_t *at;

	if (2 * l->n >= l->n_slots)
		grow(l);
	at = find(l, &k);
	if (*at)
		return l->text + *at - 1 + sizeof(k);
	if (l->len + sizeof(k) + n > LINKS_BYTES_MAX)
		return NULL;
	if (l->len + sizeof(k) + n > l->cap) {
		l->cap = l->cap ? 2 * l->cap : 64 * 1024;
		l->text = xrealloc(l->text, l->cap);
	}
	memcpy(l->text + l->len, &k, sizeof(k));
	memcpy(l->text + l->len + sizeof(k), path, n);
	*at = (uint32_t)l->len + 1;
	l->len += sizeof(k) + n;
	l->n++;
	return NULL;
}

void links_done(struct links *l)
{
	free(l->text);
	free(l->slot);
	*l = (struct links){ 0 };
}
