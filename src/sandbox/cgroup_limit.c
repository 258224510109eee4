/*
 * What the groups of a sandbox allow, and what they have used.
 *
 * Limits of a sandbox that runs are changed through descriptors of its groups:
 * when it ends meanwhile, they lead nowhere, and never to the next owner of
 * its slot.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/str.h"
#include "sandbox/cgroup.h"
#include "sandbox/cgroup_knob.h"
#include "sandbox/walls.h"

void cgroup_name(unsigned slot, char name[16])
{
	snprintf(name, 16, "b%u", slot);
}

int cgroup_dir(int at_fd, const char *path)
{
	return openat(at_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int cgroup_knob(int dir_fd, const char *file, const char *value, bool may_miss,
		struct err *e)
{
	int r = knob_write_at(dir_fd, file, value);

	if (r == -ENOENT && may_miss)
		return 0;
	if (r < 0)
		return err_set(e, -r, "write '%s' to %s: %s", value, file,
			       strerror(-r));
	return 0;
}

static int knob_num(int dir_fd, const char *file, uint64_t value, bool may_miss,
		    struct err *e)
{
	char num[24];

	snprintf(num, sizeof(num), "%llu", (unsigned long long)value);
	return cgroup_knob(dir_fd, file, num, may_miss, e);
}

/* --- limits --- */

void cgroup_fds_close(struct cgroup_fds *f)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(f->fd); i++)
		auto_close(&f->fd[i]);
}

int cgroup_fds_open(struct cgroup_fds *f, const struct cgroup_host *h,
		    unsigned slot, struct err *e)
{
	const int v1[] = { h->v1_fd[V1_MEMORY], h->v1_fd[V1_CPU],
			   h->v1_fd[V1_PIDS] };
	size_t n = h->v2 ? 1 : ARRAY_LEN(v1), i;
	char name[16];

	cgroup_name(slot, name);
	*f = (struct cgroup_fds){ .v2 = h->v2, .fd = { -1, -1, -1 } };
	for (i = 0; i < n; i++) {
		f->fd[i] = cgroup_dir(h->v2 ? h->unified_fd : v1[i], name);
		if (f->fd[i] < 0) {
			err_sys(e, "open cgroup %s", name);
			cgroup_fds_close(f);
			return -e->code;
		}
	}
	return 0;
}

static int limit_v2(int fd, const struct cgroup_limits *l, struct err *e)
{
	char cpu[40];

	snprintf(cpu, sizeof(cpu), "%llu 100000",
		 (unsigned long long)l->cpus_milli * 100);
	if (knob_num(fd, "memory.max", l->mem_bytes, false, e) < 0 ||
	    cgroup_knob(fd, "memory.swap.max", "0", true, e) < 0 ||
	    knob_num(fd, "pids.max", l->pids, false, e) < 0 ||
	    /* Shown again where runtimes look for it. */
	    knob_num(fd, "user/memory.max", l->mem_bytes, false, e) < 0 ||
	    cgroup_knob(fd, "user/cpu.max", cpu, false, e) < 0)
		return -e->code;
	return 0;
}

/*
 * v1 does not charge buffers of sockets, TCP and UDP alike, to the memory
 * limit: the kernel counts them apart, and only if they have a limit of their
 * own. At that limit TCP slows down and datagrams are dropped. On v2 they are a
 * part of memory.max.
 */
enum { SOCKETS_PART = 4 };

/* Memory with swap must never be less than memory: which one comes first? */
static int limit_v1(const int fd[3], const struct cgroup_limits *l, bool more,
		    struct err *e)
{
	static const struct {
		const char *file;
		bool may_miss;
	} knobs[] = { { "memory.limit_in_bytes", false },
		      { "memory.memsw.limit_in_bytes", true } };
	size_t i;

	/* EBUSY while more is buffered: nothing else has changed then. */
	if (knob_num(fd[0], "memory.kmem.tcp.limit_in_bytes",
		     l->mem_bytes / SOCKETS_PART, true, e) < 0)
		return -e->code;
	for (i = 0; i < ARRAY_LEN(knobs); i++) {
		size_t k = more ? 1 - i : i;

		if (knob_num(fd[0], knobs[k].file, l->mem_bytes,
			     knobs[k].may_miss, e) < 0)
			return -e->code;
	}
	if (knob_num(fd[1], "user/cpu.cfs_quota_us", l->cpus_milli * 100, false,
		     e) < 0)
		return -e->code;
	return knob_num(fd[2], "pids.max", l->pids, false, e);
}

/*
 * Who may have less than a processor waits longer for one, too: many of them
 * that come at the same moment, each with little, would have everybody else
 * stand behind all of them.
 */
static int weigh(const struct cgroup_fds *f, const struct cgroup_limits *l,
		 struct err *e)
{
	uint64_t milli = l->cpus_milli < CGROUP_CPU_MILLI ? l->cpus_milli
							  : CGROUP_CPU_MILLI;

	return f->v2 ? knob_num(f->fd[0], "cpu.weight",
				milli * 100 / CGROUP_CPU_MILLI, false, e)
		     : knob_num(f->fd[1], "cpu.shares",
				milli * 1024 / CGROUP_CPU_MILLI, false, e);
}

int cgroup_limit(const struct cgroup_host *h, unsigned slot,
		 const struct cgroup_limits *l, struct err *e)
{
	struct cgroup_fds f;
	int r;

	if (!WALL(LIMITS))
		return 0;
	r = cgroup_fds_open(&f, h, slot, e);
	if (r < 0)
		return r;
	r = f.v2 ? limit_v2(f.fd[0], l, e) : limit_v1(f.fd, l, false, e);
	if (r == 0 &&
	    l->cpus_milli < CGROUP_CPU_MILLI) /* the others have it so */
		r = weigh(&f, l, e);
	cgroup_fds_close(&f);
	return r;
}

/* --- figures --- */

static uint64_t read_num(int dir_fd, const char *path)
{
	char text[64];

	if (dir_fd < 0 || read_file_at(dir_fd, path, text, sizeof(text)) <= 0)
		return 0;
	return strtoull(text, NULL, 10);
}

/* The number behind `key` in a text of "key number" lines. */
static uint64_t find_key(const char *text, const char *key)
{
	const char *line = text;

	while (line && !str_starts(line, key)) {
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	return line ? strtoull(line + strlen(key), NULL, 10) : 0;
}

static uint64_t read_key(int dir_fd, const char *path, const char *key)
{
	char text[4096];

	if (dir_fd < 0 || read_file_at(dir_fd, path, text, sizeof(text)) <= 0)
		return 0;
	return find_key(text, key);
}

static uint64_t cpu_us(const struct cgroup_host *h, const char *group)
{
	bool own = h->v1_fd[V1_CPUACCT] >= 0;
	char path[64];

	snprintf(path, sizeof(path), "%s/%s", group,
		 h->v2 ? "cpu.stat" : "cpuacct.usage");
	if (h->v2)
		return read_key(h->unified_fd, path, "usage_usec ");
	return read_num(h->v1_fd[own ? V1_CPUACCT : V1_CPU], path) / 1000;
}

uint64_t cgroup_cpu_us(const struct cgroup_host *h, unsigned slot)
{
	char name[16];

	cgroup_name(slot, name);
	return cpu_us(h, name);
}

uint64_t cgroup_cpu_us_all(const struct cgroup_host *h)
{
	return cpu_us(h, ".");
}

uint64_t cgroup_mem_bytes(const struct cgroup_host *h, unsigned slot)
{
	char path[64];

	snprintf(path, sizeof(path), "b%u/%s", slot,
		 h->v2 ? "memory.current" : "memory.usage_in_bytes");
	return read_num(h->v2 ? h->unified_fd : h->v1_fd[V1_MEMORY], path);
}

uint64_t cgroup_dirty_bytes(const struct cgroup_host *h, unsigned slot)
{
	int fd = h->v2 ? h->unified_fd : h->v1_fd[V1_MEMORY];
	char path[64], text[4096];

	snprintf(path, sizeof(path), "b%u/memory.stat", slot);
	if (read_file_at(fd, path, text, sizeof(text)) <= 0)
		return UINT64_MAX; /* nobody knows: it may be much */
	return h->v2 ? find_key(text, "file_dirty ") +
			       find_key(text, "file_writeback ")
		     : find_key(text, "total_dirty ") +
			       find_key(text, "total_writeback ");
}

void cgroup_use(const struct cgroup_host *h, unsigned slot,
		struct sandbox_use *u)
{
	char pids[64], oom[64];

	snprintf(pids, sizeof(pids), "b%u/pids.current", slot);
	snprintf(oom, sizeof(oom), "b%u/%s", slot,
		 h->v2 ? "memory.events" : "memory.oom_control");
	u->cpu_us = cgroup_cpu_us(h, slot);
	u->mem_bytes = cgroup_mem_bytes(h, slot);
	u->pids = read_num(h->v2 ? h->unified_fd : h->v1_fd[V1_PIDS], pids);
	u->oom_kills = read_key(h->v2 ? h->unified_fd : h->v1_fd[V1_MEMORY],
				oom, "oom_kill ");
}

/* --- other limits --- */

static uint64_t used_now(const struct cgroup_fds *f)
{
	return read_num(f->fd[0],
			f->v2 ? "memory.current" : "memory.usage_in_bytes");
}

/* What the kernel could drop: file contents and caches. */
static uint64_t droppable(const struct cgroup_fds *f)
{
	static const char *const v2[] = { "active_file ", "inactive_file ",
					  "slab_reclaimable " };
	static const char *const v1[] = { "total_active_file ",
					  "total_inactive_file " };
	const char *const *keys = f->v2 ? v2 : v1;
	size_t n = f->v2 ? ARRAY_LEN(v2) : ARRAY_LEN(v1), i;
	uint64_t sum = 0;
	char text[4096];

	if (read_file_at(f->fd[0], "memory.stat", text, sizeof(text)) <= 0)
		return 0;
	for (i = 0; i < n; i++)
		sum += find_key(text, keys[i]);
	return sum;
}

static int too_much(uint64_t used, uint64_t want, struct err *e)
{
	char have[SIZE_TEXT], less[SIZE_TEXT];

	size_text(used, have);
	size_text(want, less);
	return err_set(e, EBUSY,
		       "it uses %s of memory now, %s is too little: end "
		       "processes in it first",
		       have, less);
}

/*
 * A limit below what is used would make v2 kill processes until it fits: what
 * can be dropped is dropped first, and the rest is not taken away.
 */
static int make_room(const struct cgroup_fds *f, uint64_t mem_bytes,
		     struct err *e)
{
	uint64_t used = used_now(f), drop;
	struct err ignored = { 0 };

	if (used <= mem_bytes)
		return 0;
	drop = droppable(f);
	if (used > drop && used - drop > mem_bytes)
		return too_much(used - drop, mem_bytes, e);
	if (!f->v2) /* where the write itself does it, or fails */
		return 0;
	if (knob_num(f->fd[0], "memory.reclaim", used - mem_bytes, true,
		     &ignored) < 0)
		err_clear(&ignored); /* it did what it could */
	used = used_now(f);
	return used > mem_bytes ? too_much(used, mem_bytes, e) : 0;
}

/*
 * The kernel says how much of it is left by what is used: a group that cannot
 * give more makes the write fail.
 */
void cgroup_reclaim(const struct cgroup_fds *f)
{
	struct err ignored = { 0 };

	if (knob_num(f->fd[0], f->v2 ? "memory.reclaim" : "memory.force_empty",
		     f->v2 ? used_now(f) : 0, true, &ignored) < 0)
		err_clear(&ignored); /* it did what it could */
}

int cgroup_resize(const struct cgroup_fds *f, const struct cgroup_limits *from,
		  const struct cgroup_limits *to, struct err *e)
{
	int r = 0;

	if (!WALL(LIMITS))
		return 0;
	if (to->mem_bytes < from->mem_bytes)
		r = make_room(f, to->mem_bytes, e);
	if (r < 0 || weigh(f, to, e) < 0)
		return -e->code;
	if (f->v2)
		return limit_v2(f->fd[0], to, e);
	r = limit_v1(f->fd, to, to->mem_bytes > from->mem_bytes, e);
	if (r == -EBUSY) {
		err_clear(e);
		r = too_much(used_now(f), to->mem_bytes, e);
	}
	return r;
}
