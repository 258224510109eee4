/*
 * Which processors a sandbox may run on. Of the parent group's, and all of
 * them unless somebody says otherwise (warden/apart.c).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "sandbox/cgroup.h"
#include "sandbox/cgroup_knob.h"

enum { LIST_TEXT = 4096 };

/* "0-3,8", as the kernel writes it. */
int cpus_parse(const char *text, cpu_set_t *out)
{
	const char *p = text;

	CPU_ZERO(out);
	while (*p && *p != '\n') {
		char *end;
		unsigned long from = strtoul(p, &end, 10), to = from;

		if (end == p)
			return -EINVAL;
		if (*end == '-') {
			p = end + 1;
			to = strtoul(p, &end, 10);
			if (end == p)
				return -EINVAL;
		}
		if (from > to || to >= CPU_SETSIZE)
			return -ERANGE;
		for (; from <= to; from++)
			CPU_SET(from, out);
		if (*end != ',' && *end != '\n' && *end != '\0')
			return -EINVAL;
		p = *end == ',' ? end + 1 : end;
	}
	return 0;
}

int cpus_text(const cpu_set_t *set, char *out, size_t cap)
{
	size_t n = 0;
	int i;

	out[0] = '\0';
	for (i = 0; i < CPU_SETSIZE; i++) {
		int from = i;

		if (!CPU_ISSET(i, set))
			continue;
		while (i + 1 < CPU_SETSIZE && CPU_ISSET(i + 1, set))
			i++;
		n += (size_t)(from == i ? snprintf(out + n, cap - n, "%s%d",
						   n ? "," : "", i)
					: snprintf(out + n, cap - n, "%s%d-%d",
						   n ? "," : "", from, i));
		if (n >= cap)
			return -ENOSPC;
	}
	return 0;
}

static int parent_fd(const struct cgroup_host *h)
{
	return h->v2 ? h->unified_fd : h->v1_fd[V1_CPUSET];
}

int cgroup_cpus(const struct cgroup_host *h, cpu_set_t *out, struct err *e)
{
	const char *file = h->v2 ? "cpuset.cpus.effective" : "cpuset.cpus";
	char text[LIST_TEXT];
	int r;

	if (parent_fd(h) < 0 || !h->cpusets)
		return err_set(e, ENOTSUP, "no cgroup controller 'cpuset'");
	if (read_file_at(parent_fd(h), file, text, sizeof(text)) < 0)
		return err_sys(e, "read %s", file);
	r = cpus_parse(text, out);
	return r < 0 ? err_set(e, -r, "%s: %s", file, strerror(-r)) : 0;
}

static int write_cpus(const struct cgroup_host *h, unsigned slot,
		      const char *text)
{
	char path[40];

	snprintf(path, sizeof(path), "b%u/cpuset.cpus", slot);
	return knob_write_at(parent_fd(h), path, text);
}

int cgroup_set_cpus(const struct cgroup_host *h, unsigned slot,
		    const cpu_set_t *set, struct err *e)
{
	char text[LIST_TEXT];
	cpu_set_t all;
	int r;

	/* v2: as the parent has it. But older kernels (6.1) do not let who has
	 * processes have none of its own any more. */
	if (!set && h->v2 && write_cpus(h, slot, "\n") == 0)
		return 0;
	if (!set && cgroup_cpus(h, &all, e) < 0)
		return -e->code;
	if (cpus_text(set ? set : &all, text, sizeof(text)) < 0)
		return err_set(e, E2BIG, "too many processors");
	r = write_cpus(h, slot, text);
	return r < 0 ? err_set(e, -r, "processors %s for group b%u: %s", text,
			       slot, strerror(-r))
		     : 0;
}
