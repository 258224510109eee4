#include "api/admission.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "api/api.h"
#include "base/fd.h"

enum { READ_MS = 5000 }; /* not while somebody waits for a sandbox */

static uint64_t mem_available(void)
{
	static const char key[] = "MemAvailable:";
	char text[512], *at;

	if (read_file_at(AT_FDCWD, "/proc/meminfo", text, sizeof(text)) <= 0)
		return 0;
	at = strstr(text, key);
	return at ? strtoull(at + strlen(key), NULL, 10) * 1024 : 0;
}

void host_load(struct host_load *h)
{
	struct sysinfo si = { 0 };
	cpu_set_t set;

	*h = (struct host_load){ .processors = 1 };
	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		h->processors = (uint64_t)CPU_COUNT(&set);
	if (sysinfo(&si) == 0) {
		h->mem_bytes = (uint64_t)si.totalram * si.mem_unit;
		h->load = (double)si.loads[0] / (1 << SI_LOAD_SHIFT);
	}
	h->mem_available = mem_available();
}

static void on_read(struct timer *t)
{
	admission_start(container_of(t, struct api, admission.timer));
}

void admission_start(struct api *a)
{
	host_load(&a->admission.host);
	timer_set(&a->loop, &a->admission.timer, READ_MS, on_read);
}

static int memory_full(const struct api *a, uint64_t limit, struct err *e)
{
	char have[SIZE_TEXT], most[SIZE_TEXT];

	size_text(a->boxes.promised.mem_bytes, have);
	size_text(limit, most);
	return err_set(e, ERR_HOST_FULL,
		       "the sandboxes of this host have %s of memory, and %s "
		       "may be promised: remove some, ask for less, or raise "
		       "overcommit_memory",
		       have, most);
}

static int cpus_full(const struct api *a, uint64_t limit, struct err *e)
{
	return err_set(e, ERR_HOST_FULL,
		       "the sandboxes of this host have %.10g processors, and "
		       "%.10g may be promised: remove some, ask for less, or "
		       "raise overcommit_cpus",
		       (double)a->boxes.promised.cpus_milli / 1000,
		       (double)limit / 1000);
}

static int nearly_out(const struct api *a, struct err *e)
{
	char left[SIZE_TEXT], least[SIZE_TEXT];

	size_text(a->admission.host.mem_available, left);
	size_text(a->conf.memory_reserve, least);
	return err_set(e, ERR_HOST_FULL,
		       "this host has %s of memory left, and keeps %s "
		       "(memory_reserve): end something, or try again",
		       left, least);
}

int admit(struct api *a, const struct spec *from, const struct spec *to,
	  struct err *e)
{
	const struct host_load *h = &a->admission.host;
	const struct promise *p = &a->boxes.promised;
	uint64_t limit = h->mem_bytes / 1000 * a->conf.overcommit_memory;

	if (limit > 0 && (!from || to->mem_bytes > from->mem_bytes) &&
	    p->mem_bytes + to->mem_bytes - (from ? from->mem_bytes : 0) > limit)
		return memory_full(a, limit, e);
	limit = h->processors * a->conf.overcommit_cpus;
	if (limit > 0 && (!from || to->cpus_milli > from->cpus_milli) &&
	    p->cpus_milli + to->cpus_milli - (from ? from->cpus_milli : 0) >
		    limit)
		return cpus_full(a, limit, e);
	if (!from && h->mem_available < a->conf.memory_reserve)
		return nearly_out(a, e);
	return 0;
}
