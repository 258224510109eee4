#include "agent/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/buf.h"
#include "wire/frame.h"

enum { PAGE = 4096 }; /* output up to this goes to the heap */

/*
 * Two that were hardly used wait for the next process: most write a few lines,
 * and need neither system calls nor fresh pages for them.
 */
enum { SPARES = 2 };
static uint8_t *spares[SPARES];
static int n_spares;

int ring_make(struct ring *r)
{
	void *p;

	if (r->p)
		return 0;
	/* Not from the heap: it goes back to the system when freed. */
	p = n_spares ? spares[--n_spares]
		     : mmap(NULL, WIRE_WINDOW, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return -errno;
	*r = (struct ring){ .p = p, .size = WIRE_WINDOW };
	return 0;
}

int ring_iov(const struct ring *r, uint64_t from, size_t n, struct iovec *v)
{
	size_t at = (size_t)(from % r->size), first = r->size - at;

	v[0] = (struct iovec){ r->p + at, n < first ? n : first };
	if (n <= first)
		return 1;
	v[1] = (struct iovec){ r->p, n - first };
	return 2;
}

void ring_shrink(struct ring *r, uint64_t end)
{
	uint8_t *p = NULL;

	if (!r->p || end > PAGE)
		return;
	if (end > 0) {
		p = xcalloc(1, (size_t)end);
		memcpy(p, r->p, (size_t)end);
	}
	if (n_spares < SPARES)
		spares[n_spares++] = r->p;
	else
		munmap(r->p, r->size);
	*r = (struct ring){ .p = p, .size = (size_t)end };
}

size_t ring_bytes(const struct ring *r, uint64_t end)
{
	if (!r->p)
		return 0;
	if (r->size < WIRE_WINDOW)
		return r->size;
	return end < WIRE_WINDOW ? (size_t)(end + PAGE - 1) & ~(PAGE - 1UL)
				 : WIRE_WINDOW;
}

void ring_free(struct ring *r)
{
	if (r->size == WIRE_WINDOW)
		munmap(r->p, r->size);
	else
		free(r->p);
	*r = (struct ring){ 0 };
}
