/*
 * See cgroup.h for the layout. All work is relative to descriptors of our
 * parent groups that were opened at start: nothing here but views of v1 depends
 * on the mount namespace of the caller.
 */
#include "sandbox/cgroup.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/log.h"
#include "sandbox/cgroup_knob.h"
#include "sandbox/mount.h"
#include "sandbox/walls.h"

#define CGROUP_ROOT "/sys/fs/cgroup"

/* The v1 hierarchies that are used where the controllers are still on v1. */
static const struct v1 {
	const char *name;
	bool needed; /* without it limits would not hold */
	bool viewed; /* shown inside: Java wants all of these or none */
} v1_table[] = {
	{ "memory", true, true },  { "cpu", true, true },
	{ "pids", true, false },   { "cpuacct", false, true },
	{ "cpuset", false, true },
};
static_assert(ARRAY_LEN(v1_table) == CGROUP_V1_MAX, "a row each, as V1_*");

static bool is_cgroup2(int fd)
{
	struct statfs s;

	return fstatfs(fd, &s) == 0 && s.f_type == CGROUP2_SUPER_MAGIC;
}

/* cpuset of v1 gives a new group no processors unless it is told to. */
static int cpuset_inherit(int parent_fd, int fd, struct err *e)
{
	static const char *const files[] = { "cpuset.cpus", "cpuset.mems" };
	char value[256];
	size_t i;

	for (i = 0; i < ARRAY_LEN(files); i++) {
		if (read_file_at(parent_fd, files[i], value, sizeof(value)) < 0)
			return err_sys(e, "read %s", files[i]);
		if (cgroup_knob(fd, files[i], value, false, e) < 0)
			return -e->code;
	}
	return cgroup_knob(fd, "cgroup.clone_children", "1", false, e);
}

/* Is `name` one of the words of `list`? */
static bool has_word(const char *list, const char *name)
{
	size_t n = strlen(name);
	const char *p = list;

	while ((p = strstr(p, name))) {
		if ((p == list || p[-1] == ' ') &&
		    (p[n] == '\0' || p[n] == ' ' || p[n] == '\n'))
			return true;
		p += n;
	}
	return false;
}

/* Do the children of a v2 group have that controller? */
static bool hands_down(int fd, const char *name)
{
	char have[256];

	return read_file_at(fd, "cgroup.subtree_control", have, sizeof(have)) >
		       0 &&
	       has_word(have, name);
}

/*
 * Hands the controllers to the children of a group, those that it does not
 * hand down already: a group that holds processes (a container's root) refuses
 * even a write that changes nothing.
 */
static int enable_controllers(int fd, struct err *e)
{
	static const struct {
		const char *name;
		bool needed; /* fine without weights, or processors to choose */
	} wanted[] = {
		{ "cpu", true }, { "memory", true },  { "pids", true },
		{ "io", false }, { "cpuset", false },
	};
	char have[256], word[16];
	size_t i;
	int r;

	if (read_file_at(fd, "cgroup.subtree_control", have, sizeof(have)) < 0)
		return err_sys(e, "read cgroup.subtree_control");
	for (i = 0; i < ARRAY_LEN(wanted); i++) {
		if (has_word(have, wanted[i].name))
			continue;
		snprintf(word, sizeof(word), "+%s", wanted[i].name);
		r = knob_write_at(fd, "cgroup.subtree_control", word);
		if (r < 0 && wanted[i].needed)
			return err_set(e, -r,
				       "cgroup controller %s cannot be used "
				       "(%s); start where it is delegated, or "
				       "name such a group as `cgroup`",
				       wanted[i].name, strerror(-r));
		if (r < 0)
			log_info("no cgroup controller %s: %s", wanted[i].name,
				 strerror(-r));
	}
	return 0;
}

/* Opens our parent group below `root_fd`, making each part of the path. */
static int make_parent(int root_fd, const char *path, bool v2, bool cpuset,
		       struct err *e)
{
	AUTO_CLOSE int fd = dup(root_fd);
	char copy[CONF_PATH], *save = NULL, *part;

	if (fd < 0)
		return err_sys(e, "dup");
	if (v2 && enable_controllers(fd, e) < 0)
		return -e->code;
	snprintf(copy, sizeof(copy), "%s", path);
	for (part = strtok_r(copy, "/", &save); part;
	     part = strtok_r(NULL, "/", &save)) {
		AUTO_CLOSE int up_fd = take_fd(&fd);

		if (mkdirat(up_fd, part, 0755) < 0 && errno != EEXIST)
			return err_sys(e, "create cgroup %s", path);
		fd = cgroup_dir(up_fd, part);
		if (fd < 0)
			return err_sys(e, "open cgroup %s", path);
		if (v2 && enable_controllers(fd, e) < 0)
			return -e->code;
		if (cpuset && cpuset_inherit(up_fd, fd, e) < 0)
			return -e->code;
	}
	return take_fd(&fd);
}

static int open_v1(struct cgroup_host *h, size_t i, struct err *e)
{
	char path[64];
	AUTO_CLOSE int root_fd = -1;
	struct stat cpu, own;

	snprintf(path, sizeof(path), CGROUP_ROOT "/%s", v1_table[i].name);
	root_fd = cgroup_dir(AT_FDCWD, path);
	if (root_fd < 0 && errno != ENOENT)
		return err_sys(e, "open %s", path);
	if (root_fd < 0 && v1_table[i].needed)
		return err_set(e, ENOTSUP,
			       "no cgroup controller '%s' (looked at %s); "
			       "mount it, or boot with cgroup v2",
			       v1_table[i].name, path);
	if (root_fd < 0)
		return 0;
	/* cpu and cpuacct are often one hierarchy: then cpu's row is enough */
	if (i == V1_CPUACCT && fstat(h->v1_fd[V1_CPU], &cpu) == 0 &&
	    fstat(root_fd, &own) == 0 && cpu.st_dev == own.st_dev) {
		h->cpu_accounts = true;
		return 0;
	}
	h->v1_fd[i] = make_parent(root_fd, h->path, false, i == V1_CPUSET, e);
	return h->v1_fd[i] < 0 ? h->v1_fd[i] : 0;
}

/* systemd's delegated unit when there is one, else a group of our own. */
static int choose_parent(struct cgroup_host *h, const struct conf *c,
			 int root_fd, struct err *e)
{
	static const char unit[] = "/system.slice/carrel-box.service";

	if (strcmp(c->cgroup, "auto") != 0)
		snprintf(h->path, sizeof(h->path), "%s", c->cgroup);
	else if (faccessat(root_fd, unit + 1, F_OK, 0) == 0)
		snprintf(h->path, sizeof(h->path), "%s", unit);
	else if (errno == ENOENT)
		snprintf(h->path, sizeof(h->path), "/carrel");
	else
		return err_sys(e, "look for cgroup %s", unit);
	return 0;
}

int cgroup_host_open(struct cgroup_host *h, const struct conf *c, struct err *e)
{
	AUTO_CLOSE int root_fd = cgroup_dir(AT_FDCWD, CGROUP_ROOT);
	size_t i;

	*h = (struct cgroup_host){ .unified_fd = -1 };
	for (i = 0; i < CGROUP_V1_MAX; i++)
		h->v1_fd[i] = -1;
	if (root_fd < 0)
		return err_sys(e, "open " CGROUP_ROOT " (is it mounted?)");
	h->v2 = is_cgroup2(root_fd);
	if (!h->v2) {
		/* Kill and freeze exist only in the unified tree. A mount of
		 * our own works whether or not the host has one. */
		close(root_fd);
		root_fd = mount_new("cgroup2", NULL, 0, e);
		if (root_fd < 0)
			return err_wrap(e, "unified cgroup tree");
	}
	if (choose_parent(h, c, root_fd, e) < 0)
		return -e->code;
	h->unified_fd = make_parent(root_fd, h->path, h->v2, false, e);
	if (h->unified_fd < 0)
		return -e->code;
	for (i = 0; !h->v2 && i < CGROUP_V1_MAX; i++)
		if (open_v1(h, i, e) < 0)
			return -e->code;
	h->cpusets = h->v2 ? hands_down(h->unified_fd, "cpuset")
			   : h->v1_fd[V1_CPUSET] >= 0;
	return 0;
}

static int make_v1(int dir_fd, const char *name, bool cpu, struct err *e)
{
	char path[40];

	if (mkdirat(dir_fd, name, 0755) < 0)
		return err_sys(e, "create cgroup %s", name);
	if (!cpu)
		return 0;
	snprintf(path, sizeof(path), "%s/user", name);
	if (mkdirat(dir_fd, path, 0755) < 0)
		return err_sys(e, "create cgroup %s", path);
	return 0;
}

int cgroup_make(const struct cgroup_host *h, unsigned slot, struct err *e)
{
	char name[16];
	int fd;

	cgroup_name(slot, name);
	if (mkdirat(h->unified_fd, name, 0755) < 0)
		return err_sys(e, "create cgroup %s", name);
	fd = cgroup_dir(h->unified_fd, name);
	return fd < 0 ? err_sys(e, "open cgroup %s", name) : fd;
}

int cgroup_make_v1(const struct cgroup_host *h, unsigned slot, struct err *e)
{
	char name[16];
	size_t i;

	cgroup_name(slot, name);
	for (i = 0; i < CGROUP_V1_MAX; i++)
		if (h->v1_fd[i] >= 0 &&
		    make_v1(h->v1_fd[i], name, i == V1_CPU, e) < 0)
			return err_wrap(e, "controller %s", v1_table[i].name);
	return 0;
}

/* A process that was just reaped may take a moment more to leave its group. */
static int split_control(int fd)
{
	int r, tries = 50;

	do {
		r = knob_write_at(fd, "cgroup.subtree_control",
				  "+cpu +memory +pids");
		if (r != -EBUSY)
			break;
		usleep(100);
	} while (--tries > 0);
	return r;
}

/*
 * CLONE_INTO_CGROUP by the agent needs write access to cgroup.procs of the
 * target and of the common ancestor. The sandbox cannot use it: its own view
 * of the tree is read-only, and nobody inside has the agent's id.
 */
static int open_to_agent(int top_fd, const char *name, uid_t agent_uid,
			 struct err *e)
{
	static const char *const files[] = { "cgroup.procs",
					     "user/cgroup.procs" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(files); i++)
		if (fchownat(top_fd, files[i], agent_uid, (gid_t)-1, 0) < 0)
			return err_sys(e, "chown %s of %s", files[i], name);
	return 0;
}

int cgroup_split(const struct cgroup_host *h, unsigned slot, uid_t agent_uid,
		 struct err *e)
{
	AUTO_CLOSE int top_fd = -1;
	char name[16];
	int fd, r;

	cgroup_name(slot, name);
	top_fd = cgroup_dir(h->unified_fd, name);
	if (top_fd < 0)
		return err_sys(e, "open cgroup %s", name);
	r = split_control(top_fd);
	if (r < 0)
		return err_set(e, -r, "hand controllers to cgroup %s: %s", name,
			       strerror(-r));
	if (mkdirat(top_fd, "agent", 0755) < 0 ||
	    mkdirat(top_fd, "user", 0755) < 0)
		return err_sys(e, "split cgroup %s", name);
	if (open_to_agent(top_fd, name, agent_uid, e) < 0)
		return -e->code;
	fd = cgroup_dir(top_fd, "agent");
	return fd < 0 ? err_sys(e, "open cgroup %s/agent", name) : fd;
}

int cgroup_make_user(const struct cgroup_host *h, unsigned slot,
		     uid_t agent_uid, struct err *e)
{
	AUTO_CLOSE int top_fd = -1;
	char name[16];

	if (h->v2)
		return 0;
	cgroup_name(slot, name);
	top_fd = cgroup_dir(h->unified_fd, name);
	if (top_fd < 0 || mkdirat(top_fd, "user", 0755) < 0)
		return err_sys(e, "create cgroup %s/user", name);
	return open_to_agent(top_fd, name, agent_uid, e);
}

/* Where a process of the sandbox is in that hierarchy, below our parent. */
static void v1_place(const struct cgroup_host *h, unsigned slot, unsigned i,
		     bool user, char *out, size_t cap)
{
	bool cpu = i == V1_CPU || (i == V1_CPUACCT && h->cpu_accounts);

	snprintf(out, cap, "b%u%s", slot, user && cpu ? "/user" : "");
}

/*
 * "0" is the writer itself: far faster than a parent's write of a pid to
 * cgroup.procs, which waits for a grace period.
 */
int cgroup_join(const struct cgroup_host *h, unsigned slot, bool user)
{
	char place[24], path[40];
	unsigned i;
	int r;

	for (i = 0; i < CGROUP_V1_MAX; i++) {
		if (h->v1_fd[i] < 0)
			continue;
		v1_place(h, slot, i, user, place, sizeof(place));
		snprintf(path, sizeof(path), "%s/tasks", place);
		r = knob_write_at(h->v1_fd[i], path, "0");
		if (r < 0)
			return r;
	}
	return 0;
}

int cgroup_leave_quota(const struct cgroup_host *h, unsigned slot)
{
	char path[40];

	if (h->v1_fd[V1_CPU] < 0)
		return 0;
	snprintf(path, sizeof(path), "b%u/tasks", slot);
	return knob_write_at(h->v1_fd[V1_CPU], path, "0");
}

int cgroup_open_user(const struct cgroup_host *h, unsigned slot, int *into_fd,
		     int *join_fd, struct err *e)
{
	char path[40];

	*join_fd = -1;
	*into_fd = cgroup_open_user_group(h, slot, e);
	if (*into_fd < 0 || h->v2)
		return *into_fd < 0 ? *into_fd : 0;
	snprintf(path, sizeof(path), "b%u/user/tasks", slot);
	*join_fd = openat(h->v1_fd[V1_CPU], path, O_WRONLY | O_CLOEXEC);
	return *join_fd < 0 ? err_sys(e, "open %s", path) : 0;
}

int cgroup_kill(const struct cgroup_host *h, unsigned slot, struct err *e)
{
	char path[40];
	int r;

	snprintf(path, sizeof(path), "b%u/cgroup.kill", slot);
	r = knob_write_at(h->unified_fd, path, "1");
	if (r < 0 && r != -ENOENT)
		return err_set(e, -r, "kill cgroup b%u: %s", slot,
			       strerror(-r));
	return 0;
}

static int remove_dir(int dir_fd, const char *path)
{
	if (dir_fd < 0 || unlinkat(dir_fd, path, AT_REMOVEDIR) == 0 ||
	    errno == ENOENT)
		return 0;
	return -errno;
}

int cgroup_remove(const struct cgroup_host *h, unsigned slot)
{
	static const char *const parts[] = { "/user", "/agent", "" };
	char path[40];
	size_t i, k;
	int r, bad = 0;

	for (k = 0; k < ARRAY_LEN(parts); k++) {
		snprintf(path, sizeof(path), "b%u%s", slot, parts[k]);
		for (i = 0; i < CGROUP_V1_MAX; i++) {
			r = remove_dir(h->v1_fd[i], path);
			bad = bad ? bad : r;
		}
		/* Last: as long as it is there, the slot is known as used. */
		r = bad ? 0 : remove_dir(h->unified_fd, path);
		bad = bad ? bad : r;
	}
	return bad;
}

int cgroup_each(const struct cgroup_host *h, void (*fn)(void *ctx, unsigned),
		void *ctx, struct err *e)
{
	int i;

	for (i = -1; i < CGROUP_V1_MAX; i++) {
		int fd = i < 0 ? h->unified_fd : h->v1_fd[i];
		AUTO_DIR DIR *d = NULL;
		struct dirent *de;
		unsigned slot;

		if (fd < 0)
			continue;
		fd = cgroup_dir(fd, ".");
		d = fd < 0 ? NULL : fdopendir(fd);
		if (!d)
			return err_sys(e, "list cgroups");
		while (errno = 0, (de = readdir(d)))
			if (sscanf(de->d_name, "b%u", &slot) == 1)
				fn(ctx, slot);
		if (errno)
			return err_sys(e, "list cgroups");
	}
	return 0;
}

/* 1 or 0, or -errno. A removed group counts as empty. */
static int is_populated(const struct cgroup_host *h, unsigned slot)
{
	char path[40], text[128];
	ssize_t n;

	snprintf(path, sizeof(path), "b%u/cgroup.events", slot);
	n = read_file_at(h->unified_fd, path, text, sizeof(text));
	if (n == -ENOENT || n == -ENODEV)
		return 0;
	if (n < 0)
		return (int)n;
	if (strstr(text, "populated 0"))
		return 0;
	return strstr(text, "populated 1") ? 1 : -EIO;
}

struct search {
	const struct cgroup_host *h;
	const unsigned char *owned;
	unsigned n_owned, slot;
	bool found;
	struct err *e;
};

static void search_one(void *ctx, unsigned slot)
{
	struct search *s = ctx;
	int r;

	if (s->found || s->e->code || (slot < s->n_owned && s->owned[slot]))
		return;
	r = is_populated(s->h, slot);
	if (r < 0)
		err_set(s->e, -r, "look into cgroup %s/b%u: %s", s->h->path,
			slot, strerror(-r));
	s->found = r > 0;
	s->slot = slot;
}

int cgroup_find_populated(const struct cgroup_host *h,
			  const unsigned char *owned, unsigned n_owned,
			  unsigned *slot, struct err *e)
{
	struct search s = {
		.h = h, .owned = owned, .n_owned = n_owned, .e = e
	};

	if (cgroup_each(h, search_one, &s, e) < 0 || e->code)
		return -e->code;
	*slot = s.slot;
	return s.found;
}

/* Of a row that is viewed; cpuacct may be a part of cpu's hierarchy. */
static int viewed_fd(const struct cgroup_host *h, unsigned i)
{
	if (h->v2 || !v1_table[i].viewed)
		return -1;
	return i == V1_CPUACCT && h->cpu_accounts ? h->v1_fd[V1_CPU]
						  : h->v1_fd[i];
}

static uint64_t view_flags(void)
{
	return VIEW_FLAGS | (WALL(CGROUPRO) ? MOUNT_ATTR_RDONLY : 0);
}

int cgroup_parent_mount(const struct cgroup_host *h, unsigned i,
			const char **name, struct err *e)
{
	int fd = viewed_fd(h, i);

	*name = v1_table[i].name;
	return fd < 0 ? -1 : mount_clone(fd, "", view_flags(), -1, e);
}

/* In the current directory. A copy has the attributes of what it is of. */
static int view_v1(const struct cgroup_host *h, unsigned slot, unsigned i,
		   struct err *e)
{
	const char *name = v1_table[i].name;
	char place[24], path[64];

	v1_place(h, slot, i, true, place, sizeof(place));
	snprintf(path, sizeof(path), CGROUP_PARENTS "/%s/%s", name, place);
	if (mkdir(name, 0755) < 0 || mount(path, name, NULL, MS_BIND, NULL) < 0)
		return err_sys(e, "cgroup view %s", name);
	return 0;
}

int cgroup_view(const struct cgroup_host *h, unsigned slot, int at_fd,
		struct err *e)
{
	unsigned i;

	if (h->v2) {
		AUTO_CLOSE int fd =
			mount_new("cgroup2", NULL, (unsigned)view_flags(), e);

		return fd < 0 ? fd : mount_at(fd, at_fd, e);
	}
	if (fchdir(at_fd) < 0)
		return err_sys(e, "enter /sys/fs/cgroup");
	for (i = 0; i < CGROUP_V1_MAX; i++)
		if (viewed_fd(h, i) >= 0 && view_v1(h, slot, i, e) < 0)
			return -e->code;
	return 0;
}
