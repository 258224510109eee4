/*
 * Records: one root-only file per sandbox in its run directory, enough to find
 * it and to end it without anyone's help. A restarted warden adopts what its
 * records describe and still lives; everything else that bears our marks
 * (groups, volumes, run directories) is a leftover of a crash and is removed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "warden/vm.h"
#include "warden/warden.h"

enum { RECORD_VERSION = 4, LEFTOVER_MS = 2000 };

/* Of /proc/PID/stat. The flag is the kernel's PF_EXITING: it is set before a
 * dying process's descriptors are closed. */
enum { STAT_FLAGS = 9, STAT_START = 22, FLAG_EXITING = 4 };

struct record {
	char magic[4]; /* "BOX\n" */
	uint32_t version, size;
	uint32_t slot;
	int32_t pid;   /* 0 while launching */
	uint32_t base; /* of its ids: the configuration may have changed */
	uint32_t paused;
	uint32_t zero;
	uint64_t start_time;
	struct launch_spec spec;
};

/* The whole record is one write: a crash leaves the old one or the new one. */
int record_write(const struct box *b, struct err *e)
{
	struct record rec = { .magic = "BOX\n",
			      .version = RECORD_VERSION,
			      .size = sizeof(rec),
			      .slot = b->slot,
			      .base = slot_base(b->w, b->slot),
			      .pid = b->state == BOX_RUNNING ? b->pid : 0,
			      .paused = b->paused,
			      .start_time = b->start_time,
			      .spec = b->spec };
	char path[ID_CAP + 8];
	AUTO_CLOSE int fd = -1;

	snprintf(path, sizeof(path), "%s/record", b->spec.id);
	fd = openat(b->w->box_fd, path,
		    O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(e, "open record of %s", b->spec.id);
	if (pwrite(fd, &rec, sizeof(rec), 0) != (ssize_t)sizeof(rec))
		return err_sys(e, "write record of %s", b->spec.id);
	return 0;
}

/* A record that a full disk or somebody's editor has spoilt has texts without
 * an end. */
static bool texts_end(const struct launch_spec *s)
{
	size_t i;

	for (i = 0; i < LAUNCH_VOLUMES_MAX; i++)
		if (!memchr(s->volumes[i].id, '\0', ID_CAP) ||
		    !memchr(s->volumes[i].path, '\0', LAUNCH_PATH_CAP))
			return false;
	return memchr(s->image, '\0', ID_CAP) &&
	       memchr(s->from, '\0', ID_CAP) &&
	       memchr(s->hostname, '\0', NAME_CAP);
}

static int record_read(struct warden *w, const char *id, struct record *rec)
{
	char path[ID_CAP + 8]; /* `id` was checked: its length is fixed */
	AUTO_CLOSE int fd = -1;

	snprintf(path, sizeof(path), "%.*s/record", ID_LEN, id);
	fd = openat(w->box_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	if (read_full(fd, rec, sizeof(*rec)) != (ssize_t)sizeof(*rec) ||
	    memcmp(rec->magic, "BOX\n", 4) != 0 ||
	    rec->version != RECORD_VERSION || rec->size != sizeof(*rec) ||
	    strncmp(rec->spec.id, id, ID_CAP) != 0 || !texts_end(&rec->spec))
		return -EBADMSG;
	/* Its ids would be those of others. */
	if (rec->slot >= w->n_slots || rec->base != slot_base(w, rec->slot)) {
		log_warn("sandbox=%s is not in the range of uid_base and "
			 "uid_count any more",
			 id);
		return -EBADMSG;
	}
	return 0;
}

/* The number behind the next `n` spaces, which `*at` is moved to. */
static uint64_t skip_to(char **at, int n)
{
	for (; *at && n > 0; n--)
		*at = strchr(*at + 1, ' ');
	return *at ? strtoull(*at, NULL, 10) : 0;
}

/* Of /proc/PID/stat; the name in field 2 may contain anything. */
uint64_t process_start_time(int proc_fd, pid_t pid, bool *ending)
{
	char path[32], text[1024], *at;
	uint64_t flags;
	ssize_t n;

	snprintf(path, sizeof(path), "%d/stat", (int)pid);
	n = read_file_at(proc_fd, path, text, sizeof(text));
	*ending = n == 0 || n == -ENOENT || n == -ESRCH;
	if (n <= 0)
		return 0;
	at = strrchr(text, ')');
	flags = skip_to(&at, STAT_FLAGS - 2);
	*ending = !at || (flags & FLAG_EXITING);
	return skip_to(&at, STAT_START - STAT_FLAGS);
}

/*
 * What was frozen for a moment only has lost who would thaw it. What the record
 * calls paused and the freezer does not was resumed a moment ago.
 */
static void adopt_frozen(struct box *b)
{
	const struct cgroup_host *h = &b->w->cg;
	struct err e = { 0 };
	bool resumed = b->paused && cgroup_goes_on(h, b->slot);

	if (resumed)
		b->paused = false;
	box_thaw(b, true);
	if (!b->paused)
		box_thaw(b, false);
	if (resumed && record_write(b, &e) < 0)
		log_err("sandbox=%s %s", b->spec.id, e.msg);
}

static void adopt(struct warden *w, const struct record *rec)
{
	int pid_fd = (int)syscall(SYS_pidfd_open, rec->pid, 0);
	struct box *b;
	bool ending; /* its pidfd will say so, too */

	/* The pidfd first, then the start time: a reused pid shows. */
	if (pid_fd < 0 || process_start_time(w->launch.proc_fd, rec->pid,
					     &ending) != rec->start_time) {
		if (pid_fd >= 0)
			close(pid_fd);
		return;
	}
	b = box_new(w, &rec->spec);
	b->slot = rec->slot;
	b->pid = rec->pid;
	b->start_time = rec->start_time;
	b->paused = rec->paused != 0;
	b->ran = true;
	b->state = BOX_RUNNING;
	adopt_frozen(b);
	apart_adopted(b);
	slot_mark(w, b->slot);
	if (box_is_vm(b))
		vm_adopted(b);
	if (box_watch(b, pid_fd) < 0)
		box_end(b, NULL);
	else if (box_is_vm(b))
		relay_adopt(b);
	log_info("sandbox=%s adopted pid=%d", b->spec.id, (int)b->pid);
}

static void remove_run_dir(struct warden *w, const char *id)
{
	int r = box_remove_run_dir(w, id);

	if (r < 0)
		log_warn("sandbox=%s run directory stays: %s", id,
			 strerror(-r));
}

static int adopt_living(struct warden *w, struct err *e)
{
	int fd = openat(w->box_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_DIR DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	if (!d)
		return err_sys(e, "list run directories");
	while ((de = readdir(d))) {
		struct record rec = { 0 };

		if (!id_valid(de->d_name))
			continue;
		if (record_read(w, de->d_name, &rec) == 0 && rec.pid > 0)
			adopt(w, &rec);
		if (!box_find(w, de->d_name)) {
			log_info("sandbox=%s leftover, removing", de->d_name);
			remove_run_dir(w, de->d_name);
		}
	}
	return 0;
}

struct group_scan {
	struct warden *w;
	unsigned left;
};

/* A group that no living sandbox owns: kill what is in it, then remove it. */
static void clear_group(void *ctx, unsigned slot)
{
	struct group_scan *g = ctx;
	uint64_t until = clock_boot_ms() + LEFTOVER_MS;
	struct err e = { 0 };

	if (slot < g->w->n_slots && g->w->slot_used[slot])
		return;
	if (cgroup_kill(&g->w->cg, slot, &e) < 0)
		log_warn("%s", e.msg);
	while (cgroup_remove(&g->w->cg, slot) < 0) {
		if (clock_boot_ms() > until) {
			log_err("cgroup b%u cannot be removed, its slot stays "
				"unused",
				slot);
			slot_mark(g->w, slot);
			g->left++;
			return;
		}
		usleep(1000);
	}
}

static int clear_volumes(struct warden *w, struct err *e)
{
	char id[ID_CAP] = "";

	while (store_volume_next(&w->store, id, id) == 0) {
		struct err none = { 0 };

		if (box_find(w, id))
			continue;
		if (vm_state_drop(w, id, &none) < 0) {
			log_err("sandbox=%s %s, its disk is left for the next "
				"start",
				id, none.msg);
			continue;
		}
		if (store_volume_keep(&w->store, id, &none) == 0) {
			log_info("sandbox=%s has ended, its disk is kept", id);
			continue;
		}
		log_info("volume=%s leftover, removing", id);
		if (store_volume_discard(&w->store, id, e) < 0)
			return -e->code;
	}
	if (store_snapshot_clear(&w->store, e) < 0 ||
	    store_copy_clear(&w->store, e) < 0 ||
	    store_base_clear(&w->store, e) < 0 ||
	    store_template_clear(&w->store, e) < 0 ||
	    store_attached_clear(&w->store, e) < 0)
		return -e->code;
	return store_stage_clear(&w->store, e);
}

int adopt_all(struct warden *w, struct err *e)
{
	struct group_scan g = { .w = w };

	if (adopt_living(w, e) < 0)
		return -e->code;
	if (cgroup_each(&w->cg, clear_group, &g, e) < 0)
		return -e->code;
	if (clear_volumes(w, e) < 0)
		return -e->code;
	templates_open(w);
	sweep_soon(w);
	return 0;
}
