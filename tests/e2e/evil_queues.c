/*
 * Run as root of a guest's kernel: takes the virtio devices away from their
 * drivers and does with their queues what no driver does. Exit 0: it did all of
 * that, and the devices, which are QEMU, are still there.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SLOTS = 24, SLOT = 512, PAGE = 4096, QUEUES = 3, ROUNDS = 3000 };
#define MMIO 0xfeb00000u /* of QEMU's machine `microvm` */

enum reg {
	MAGIC = 0x00,
	VERSION = 0x04,
	DEVICE = 0x08,
	OFFERED = 0x10,
	OFFERED_SEL = 0x14,
	TAKEN = 0x20,
	TAKEN_SEL = 0x24,
	OLD_PAGE_SIZE = 0x28,
	QUEUE = 0x30,
	QUEUE_MAX = 0x34,
	QUEUE_NUM = 0x38,
	OLD_ALIGN = 0x3c,
	OLD_PFN = 0x40,
	READY = 0x44,
	NOTIFY = 0x50,
	ACK = 0x64,
	STATUS = 0x70,
	DESC = 0x80,
	AVAIL = 0x90,
	USED = 0xa0,
};
enum { NEEDS_RESET = 64 };
enum { NEXT = 1, WRITE = 2, INDIRECT = 4 };

struct desc {
	uint64_t addr;
	uint32_t len;
	uint16_t flags, next;
};

/* One page that the device sees: small rings, so that it is all there. */
struct page {
	struct desc desc[16];
	struct {
		uint16_t flags, idx, ring[16], event;
	} avail;
	uint8_t gap[512 - 256 - 38];
	struct {
		uint16_t flags, idx;
		struct {
			uint32_t id, len;
		} ring[16];
	} used;
	uint8_t gap2[1024 - 512 - 132];
	struct desc table[16];
	uint8_t data[PAGE - 1280];
};
_Static_assert(sizeof(struct page) == PAGE, "one page");

static volatile uint32_t *dev;
static struct page *page;
static uint64_t at, mmio; /* the page and the registers, for devices */
static unsigned heard; /* by the device, that is: it did something about it */
static uint64_t noise = 88172645463325252ull;

static uint64_t rnd(void)
{
	noise ^= noise << 13;
	noise ^= noise >> 7;
	noise ^= noise << 17;
	return noise;
}

static void set(enum reg r, uint32_t v)
{
	dev[r / 4] = v;
}

static void set64(enum reg r, uint64_t v)
{
	set(r, (uint32_t)v);
	set(r + 4, (uint32_t)(v >> 32));
}

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

/* --- the shapes --- */

#define OURS(field) (at + offsetof(struct page, field))
#define NOWHERE 0xfffffffffffff000ull

static void circle(void)
{
	page->desc[0] = (struct desc){ OURS(data), 16, NEXT, 1 };
	page->desc[1] = (struct desc){ OURS(data), 16, NEXT | WRITE, 0 };
}

static void nowhere(void)
{
	page->desc[0] = (struct desc){ NOWHERE, 0xffffffff, NEXT, 1 };
	page->desc[1] = (struct desc){ NOWHERE, 0xffffffff, WRITE, 0 };
}

static void far_ahead(void)
{
	circle();
	page->avail.idx = 0xfff0;
}

static void no_such_head(void)
{
	page->avail.ring[0] = 0x7fff;
}

static void no_such_next(void)
{
	page->desc[0] = (struct desc){ OURS(data), 16, NEXT, 0xffff };
}

static void table_in_table(void)
{
	page->desc[0] = (struct desc){ OURS(table), 256, INDIRECT, 0 };
	page->table[0] = (struct desc){ OURS(table), 256, INDIRECT | NEXT, 0 };
}

static void odd_table(void)
{
	page->desc[0] = (struct desc){ OURS(table), 255, INDIRECT | NEXT, 0 };
}

static void endless_table(void)
{
	page->desc[0] = (struct desc){ OURS(table), 0xfffffff0, INDIRECT, 0 };
	page->table[0] = (struct desc){ OURS(data), 1, NEXT, 0xfffe };
}

static void empty(void)
{
	page->desc[0] = (struct desc){ 0, 0, NEXT | WRITE, 1 };
	page->desc[1] = (struct desc){ 0, 0, 0, 0 };
}

/* What it reads, and what it writes, are its own registers. */
static void itself(void)
{
	page->desc[0] = (struct desc){ mmio, SLOT, NEXT, 1 };
	page->desc[1] = (struct desc){ mmio, SLOT, WRITE, 0 };
}

static void written_first(void)
{
	page->desc[0] = (struct desc){ OURS(data), 64, WRITE | NEXT, 1 };
	page->desc[1] = (struct desc){ OURS(data), 64, 0, 0 };
}

/* Never where the kernel has its own: that would be its end, not QEMU's. */
static void fill(struct desc *d)
{
	const uint64_t where[] = { OURS(data), OURS(desc), OURS(used),
				   NOWHERE,    mmio,       1ull << 52 };
	int i;

	for (i = 0; i < 16; i++, d++) {
		*d = (struct desc){ where[rnd() % 6], (uint32_t)rnd(),
				    (uint16_t)(rnd() & 7),
				    (uint16_t)(rnd() % 18) };
		if (d->addr >= at && d->addr < at + PAGE)
			d->len %= (uint32_t)(at + PAGE - d->addr);
		else if (d->addr == mmio)
			d->len %= SLOT;
	}
}

static void any(void)
{
	fill(page->desc);
	fill(page->table);
	page->avail.idx = (uint16_t)rnd();
	page->avail.ring[rnd() % 16] = (uint16_t)(rnd() % 20);
	/* What a disk or a port takes for the kind of a request. */
	page->data[0] = (uint8_t)(rnd() % 16);
}

static void (*const shapes[])(void) = {
	circle,        nowhere,   far_ahead,      no_such_head,
	no_such_next,  odd_table, table_in_table, endless_table,
	written_first, empty,     itself,
};

/* --- a queue --- */

static void negotiate(void)
{
	uint32_t i;

	set(STATUS, 0);
	set(STATUS, 1 | 2);
	for (i = 0; i < 2; i++) {
		set(OFFERED_SEL, i);
		set(TAKEN_SEL, i);
		set(TAKEN, dev[OFFERED / 4]);
	}
	set(STATUS, 1 | 2 | 8);
}

static void place(uint32_t queue, uint64_t desc, uint64_t avail, uint64_t used)
{
	set(QUEUE, queue);
	if (dev[VERSION / 4] == 1) {
		set(OLD_PAGE_SIZE, PAGE);
		set(QUEUE_NUM, 16);
		set(OLD_ALIGN, 256);
		set(OLD_PFN, (uint32_t)(desc / PAGE));
		return;
	}
	set(QUEUE_NUM, 16);
	set64(DESC, desc);
	set64(AVAIL, avail);
	set64(USED, used);
	set(READY, 1);
}

static void ring(uint32_t queue)
{
	uint32_t i;

	__sync_synchronize();
	set(STATUS, 1 | 2 | 4 | 8);
	for (i = 0; i < 3; i++)
		set(NOTIFY, queue);
	/* Another size while it is in use, and queues that are not there. */
	set(QUEUE, queue);
	set(QUEUE_NUM, 0xffff);
	set(NOTIFY, queue);
	set(QUEUE_NUM, 0);
	set(NOTIFY, queue);
	set(QUEUE, 0xffff);
	set(QUEUE_NUM, 0xffff);
	(void)dev[QUEUE_MAX / 4];
	set(NOTIFY, 0xffff);
	set(ACK, 0xffffffff);
}

static void abuse(uint32_t queue, void (*shape)(void))
{
	memset(page, 0, sizeof(*page));
	page->avail.idx = 1;
	shape();
	negotiate();
	place(queue, OURS(desc), OURS(avail), OURS(used));
	ring(queue);
	__sync_synchronize();
	if (page->used.idx || (dev[STATUS / 4] & NEEDS_RESET))
		heard++;
}

/* Rings that are no memory. */
static void misplaced(uint32_t queue)
{
	const uint64_t where[] = { NOWHERE, MMIO, 1ull << 52, 0 };
	size_t i;

	memset(page, 0, sizeof(*page));
	for (i = 0; i < 4; i++) {
		negotiate();
		place(queue, where[i], where[(i + 1) % 3], where[(i + 2) % 3]);
		ring(queue);
	}
}

static void attack(void)
{
	uint32_t queue, i;

	for (queue = 0; queue < QUEUES; queue++) {
		for (i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
			abuse(queue, shapes[i]);
		misplaced(queue);
	}
	for (i = 0; i < ROUNDS; i++)
		abuse((uint32_t)(rnd() % QUEUES), any);
	set(STATUS, 0);
}

/* --- getting there --- */

static void unbind_all(void)
{
	const char *dir = "/s/bus/platform/drivers/virtio-mmio";
	char path[256];
	struct dirent *e;
	DIR *d;
	int fd;

	mkdir("/s", 0755);
	if (mount("s", "/s", "sysfs", 0, NULL) < 0 || !(d = opendir(dir)))
		fail("sysfs");
	snprintf(path, sizeof(path), "%s/unbind", dir);
	fd = open(path, O_WRONLY);
	while ((e = readdir(d)))
		if (e->d_type == DT_LNK && strcmp(e->d_name, "module") &&
		    write(fd, e->d_name, strlen(e->d_name)) < 0)
			fail(e->d_name);
	closedir(d);
	close(fd);
}

static void find_page(void)
{
	uint64_t entry;
	int fd = open("/proc/self/pagemap", O_RDONLY);

	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED | MAP_POPULATE, -1,
		    0);
	if (page == MAP_FAILED || fd < 0 ||
	    pread(fd, &entry, 8, (off_t)((uintptr_t)page / PAGE * 8)) != 8 ||
	    !(entry >> 63))
		fail("memory");
	at = (entry & ((1ull << 55) - 1)) * PAGE;
	if (at == 0)
		fail("where the memory is");
	close(fd);
}

int main(void)
{
	int fd = open("/d/mem", O_RDWR | O_SYNC), i, found = 0;
	volatile uint32_t *all;

	find_page();
	unbind_all();
	all = mmap(NULL, SLOTS * SLOT, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		   MMIO);
	if (all == MAP_FAILED)
		fail("the devices");
	for (i = 0; i < SLOTS; i++) {
		dev = all + i * (SLOT / 4);
		mmio = MMIO + (uint64_t)i * SLOT;
		if (dev[MAGIC / 4] != 0x74726976 || dev[DEVICE / 4] == 0)
			continue;
		heard = 0;
		attack();
		if (dev[MAGIC / 4] != 0x74726976 || heard == 0)
			fail("a device is gone, or was never reached");
		found++;
	}
	printf("%d devices\n", found);
	return found < 3;
}
