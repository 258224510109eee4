#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/str.h"
#include "guest/guest.h"

enum { UID_BASE = 0x100000 };

static struct guest guest = {
	.box = { .pid_fd = -1, .talk_fd = -1 },
	.listen_fd = -1,
	.group_fd = -1,
};

/* --- what it is told --- */

static int take_number(const char *v, uint64_t *to)
{
	return parse_u64(v, UINT64_MAX / 2, to);
}

static int take_u32(const char *v, uint32_t *to)
{
	uint64_t n = 0;
	int r = parse_u64(v, UINT32_MAX, &n);

	*to = (uint32_t)n;
	return r;
}

static int take_word(const char *arg)
{
	struct launch_spec *s = &guest.spec;
	const char *v = strchr(arg, '=');

	if (!v)
		return -EINVAL;
	v++;
	if (strcmp(arg, "probe=1") == 0) {
		dprintf(STDERR_FILENO, GUEST_PROBED "\n");
		reboot(RB_AUTOBOOT);
	}
	if (strcmp(arg, "settle=1") == 0) {
		guest.settles = true;
		return 0;
	}
	if (strcmp(arg, "look=1") == 0) {
		guest.looks = true;
		return 0;
	}
	if (str_starts(arg, "id="))
		return id_valid(v) ? str_copy(s->id, sizeof(s->id), v)
				   : -EINVAL;
	if (str_starts(arg, "image="))
		return id_valid(v) ? str_copy(s->image, sizeof(s->image), v)
				   : -EINVAL;
	if (str_starts(arg, "hostname="))
		return str_copy(s->hostname, sizeof(s->hostname), v);
	if (str_starts(arg, "flags="))
		return take_u32(v, &s->flags);
	if (str_starts(arg, "pids="))
		return take_u32(v, &s->pids);
	if (str_starts(arg, "nofile="))
		return take_u32(v, &s->nofile);
	if (str_starts(arg, "cpus="))
		return take_number(v, &s->cpus_milli);
	return str_starts(arg, "memory=") ? take_number(v, &s->mem_bytes)
					  : -EINVAL;
}

static int take_words(int argc, char **argv, struct err *e)
{
	int i;

	/* The kernel adds what it does not know itself. */
	for (i = 1; i < argc; i++)
		if (str_starts(argv[i], GUEST_WORD) &&
		    take_word(argv[i] + strlen(GUEST_WORD)) < 0)
			return err_set(e, EINVAL, "argument '%.60s'", argv[i]);
	if (!*guest.spec.id || !*guest.spec.image)
		return err_set(e, EINVAL, "no id or image was told");
	return 0;
}

/* --- the sandbox --- */

static int make_part(struct guest *g, struct err *e)
{
	const struct conf c = { .cgroup = "/carrel" };
	const struct cgroup_limits limits = { g->spec.mem_bytes,
					      g->spec.cpus_milli,
					      g->spec.pids };

	if (cgroup_host_open(&g->cg, &c, e) < 0 ||
	    part_open(&g->cg, PART_SANDBOX, &g->part, e) < 0 ||
	    part_start(&g->cg, &g->part, e) < 0 ||
	    part_finish(&g->cg, g->launch.proc_fd, &g->part, e) < 0)
		return -e->code;
	return cgroup_limit(&g->cg, g->part.slot, &limits, e);
}

static int launch(struct guest *g, struct err *e)
{
	int r;

	g->launch.cg = &g->cg;
	r = unix_listen_at(AT_FDCWD, GUEST_AGENT_SOCK, SOCK_STREAM, 0600);
	if (r < 0)
		return err_set(e, -r, "agent socket: %s", strerror(-r));
	g->listen_fd = r;
	if (launch_begin(&g->launch, &g->spec, &g->part, &g->box, e) < 0 ||
	    launch_go(&g->box, &g->spec, &g->part, g->listen_fd, e) < 0)
		return -e->code;
	auto_close(&g->listen_fd);
	if (launch_hear(g->box.talk_fd, e) < 0)
		return -e->code;
	launch_tidy();
	return 0;
}

static const struct step {
	const char *name;
	int (*fn)(struct guest *g, struct err *e);
} steps[] = {
	{ "load modules", machine_load },
	{ "make root", machine_root },
	{ "find the host", machine_ports },
	{ "mount disks", disk_mount },
	{ "make groups", make_part },
	{ "open the door", door_start },
	{ "launch", launch },
	{ "settle", settle },
	{ "listen to the host", control_start },
	{ "serve", bridge_run },
	{ 0 },
}, looks[] = {
	{ "load modules", machine_load },
	{ "make root", machine_root },
	{ "find the host", machine_ports },
	{ "mount disks", disk_mount_quiet },
	{ "look", look_run },
	{ 0 },
};

int main(int argc, char **argv)
{
	struct err e = { 0 };
	const struct step *s;

	guest.part = PART_NONE;
	guest.part.base = UID_BASE;
	if (take_words(argc, argv, &e) == 0)
		for (s = guest.looks ? looks : steps; s->name; s++)
			if (s->fn(&guest, &e) < 0) {
				err_wrap(&e, "%s", s->name);
				break;
			}
	if (e.code)
		dprintf(STDERR_FILENO, "guest: %s\n", e.msg);
	sync();
	reboot(RB_AUTOBOOT); /* QEMU ends instead */
	return 1;
}
