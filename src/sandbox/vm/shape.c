#include "sandbox/vm/shape.h"

#include <stdio.h>
#include <string.h>

#include "base/sha.h"

/* Changes when states of machines are not what they were. */
enum { SHAPE_VERSION = 2 };

static void host_hash(const struct vm_host *h, uint8_t out[SHA256_LEN])
{
	const uint64_t more[] = { SHAPE_VERSION, h->kvm };
	struct sha256 sha;

	sha256_init(&sha);
	sha256_add(&sha, more, sizeof(more));
	sha256_add(&sha, h->files, sizeof(h->files));
	sha256_add(&sha, h->cpu, sizeof(h->cpu));
	sha256_end(&sha, out);
}

void vm_print(const struct vm_host *h, char out[VM_PRINT_TEXT])
{
	uint8_t sum[SHA256_LEN];
	size_t i;

	host_hash(h, sum);
	for (i = 0; i < VM_PRINT_TEXT / 2; i++)
		snprintf(out + 2 * i, 3, "%02x", sum[i]);
}

void vm_key(const struct vm_host *h, const struct launch_spec *s,
	    char key[ID_CAP])
{
	const uint64_t shape[] = {
		s->mem_bytes,
		s->cpus_milli,
		s->disk_bytes,
		s->pids,
		s->nofile,
		s->flags & (uint32_t)(LAUNCH_SUDO | LAUNCH_PERSIST),
	};
	uint8_t sum[SHA256_LEN];
	struct sha256 sha;

	host_hash(h, sum);
	sha256_init(&sha);
	sha256_add(&sha, sum, sizeof(sum));
	sha256_add(&sha, s->image, strlen(s->image));
	sha256_add(&sha, shape, sizeof(shape));
	sha256_end(&sha, sum);
	id_from(sum, key);
}
