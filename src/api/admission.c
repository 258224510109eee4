#include "api/admission.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "api/api.h"
#include "base/fd.h"

/*
 * Reading takes a tenth of a millisecond, which most creates do not wait for.
 * A start takes about 1 MiB, so so many stay within the default reserve.
 */
enum { READ_MS = 5000, STARTS_MAX = 64 };

enum { PLACES_LEFT = 4 }; /* 1/N of max_sandboxes is for other projects */

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
	a->admission.started = 0;
	timer_set(&a->loop, &a->admission.timer, READ_MS, on_read);
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

int admit_memory(struct api *a, unsigned n, struct err *e)
{
	struct admission *ad = &a->admission;

	ad->started += n;
	if (ad->started >= STARTS_MAX)
		admission_start(a);
	if (ad->host.mem_available < a->conf.memory_reserve)
		return nearly_out(a, e);
	return 0;
}

static bool others_exist(const struct api *a, const char *project)
{
	struct list *n, *next;

	list_each (n, next, &a->keys.all) {
		const struct key *k = container_of(n, struct key, node);

		if (*k->project && strcmp(k->project, project) != 0)
			return true;
	}
	list_each (n, next, &a->boxes.all) {
		const struct sandbox *s = container_of(n, struct sandbox, all);

		if (s->counted && strcmp(s->project, project) != 0)
			return true;
	}
	return false;
}

static unsigned places_of(const struct api *a, const char *project)
{
	struct list *n, *next;
	unsigned count = 0;

	list_each (n, next, &a->boxes.all) {
		const struct sandbox *s = container_of(n, struct sandbox, all);

		count += s->counted && strcmp(s->project, project) == 0;
	}
	return count;
}

static int project_has_its_part(const struct api *a, const char *project,
				uint64_t part, struct err *e)
{
	if (a->conf.project_sandboxes)
		return err_set(e, EMFILE,
			       "project %s may have %llu sandboxes at once: "
			       "remove or suspend some, or raise "
			       "project_sandboxes",
			       project, (unsigned long long)part);
	return err_set(e, EMFILE,
		       "project %s may have %llu of %llu sandboxes, because "
		       "there are other projects: remove or suspend some, or "
		       "raise max_sandboxes or project_sandboxes",
		       project, (unsigned long long)part,
		       (unsigned long long)a->conf.max_sandboxes);
}

/* Walks the table only when the project could have its part. */
static int admit_places(const struct api *a, const char *project, unsigned n,
			struct err *e)
{
	uint64_t max = a->conf.max_sandboxes, own = a->conf.project_sandboxes;
	uint64_t part = own ? own : max - max / PLACES_LEFT;

	if (a->boxes.n_users + n > max)
		return err_set(e, EMFILE,
			       "%u sandboxes live already: remove or suspend "
			       "some, or raise max_sandboxes",
			       a->boxes.n_users);
	if (a->boxes.n_users + n <= part || places_of(a, project) + n <= part ||
	    (!own && !others_exist(a, project)))
		return 0;
	return project_has_its_part(a, project, part, e);
}

int admit(struct api *a, const char *project, unsigned n, struct err *e)
{
	int r = admit_places(a, project, n, e);

	return r < 0 ? r : admit_memory(a, n, e);
}
