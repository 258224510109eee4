/* Which machines may start as the same template, and copies of files. */
#include "sandbox/vm/shape.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "store/share.h"

static struct vm_host host = { .files = { 1, 2, 3, 4, 5, 6, 7, 8 },
			       .cpu = { 7, 8, 9, 10 } };

static struct launch_spec spec(void)
{
	return (struct launch_spec){ .id = "i1",
				     .image = "i2",
				     .hostname = "one",
				     .flags = LAUNCH_MICROVM | LAUNCH_SUDO,
				     .pids = 100,
				     .cpus_milli = 2000,
				     .mem_bytes = 64 << 20,
				     .disk_bytes = 64 << 20 };
}

static bool same(const struct launch_spec *a, const struct launch_spec *b)
{
	char x[ID_CAP], y[ID_CAP];

	vm_key(&host, a, x);
	vm_key(&host, b, y);
	CHECK(id_valid(x) && id_valid(y));
	return strcmp(x, y) == 0;
}

static void shapes(void)
{
	const struct launch_spec a = spec();
	struct launch_spec b = spec();

	/* What a wake tells is no part of it. */
	strcpy(b.id, "i3");
	strcpy(b.hostname, "two");
	b.flags |= LAUNCH_EARLY | LAUNCH_ALLOW_MISSING_DISK;
	CHECK(same(&a, &b));
#define DIFFERS(change)               \
	do {                          \
		b = spec();           \
		change;               \
		CHECK(!same(&a, &b)); \
	} while (0)
	DIFFERS(strcpy(b.image, "i4"));
	DIFFERS(b.flags &= ~(uint32_t)LAUNCH_SUDO);
	DIFFERS(b.flags |= LAUNCH_PERSIST);
	DIFFERS(b.pids++);
	DIFFERS(b.nofile++);
	DIFFERS(b.cpus_milli++);
	DIFFERS(b.mem_bytes++);
	DIFFERS(b.disk_bytes++);
}

static void hosts(void)
{
	const struct launch_spec a = spec();
	char x[ID_CAP], y[ID_CAP], p[VM_PRINT_TEXT], q[VM_PRINT_TEXT];

	vm_key(&host, &a, x);
	vm_print(&host, p);
	host.files[3]++;
	vm_key(&host, &a, y);
	vm_print(&host, q);
	CHECK(strcmp(x, y) != 0 && strcmp(p, q) != 0);
	CHECK(strlen(p) == VM_PRINT_TEXT - 1);
	host.kvm = true;
	vm_print(&host, p);
	CHECK(strcmp(p, q) != 0);
}

/* Memory with holes, zeros, and a tail that is no page. */
static void copies(void)
{
	enum { SIZE = 40 * 4096 + 100 };
	static char one[SIZE], two[SIZE];
	int from = memfd_create("from", 0), to = memfd_create("to", 0);
	struct err e = { 0 };
	struct stat st;

	memset(one + 3 * 4096, 'a', 4096);
	memset(one + 5 * 4096 + 17, 'b', 70000);
	one[SIZE - 1] = 'c';
	CHECK(from >= 0 && to >= 0 && ftruncate(from, SIZE) == 0);
	CHECK(pwrite(from, one, SIZE, 0) == SIZE);
	CHECK(file_share(from, to, &e) == 0);
	CHECK(pread(to, two, SIZE, 0) == SIZE);
	CHECK(memcmp(one, two, SIZE) == 0);
	CHECK(fstat(to, &st) == 0 && st.st_size == SIZE);
	/* What is zero takes no room. */
	CHECK(st.st_blocks * 512 < 30 * 4096);
	close(from);
	close(to);
}

int main(void)
{
	shapes();
	hosts();
	copies();
	return CHECK_DONE();
}
