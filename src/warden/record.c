/*
 * Records: one root-only file per sandbox in its run directory, enough to find
 * it and to end it without anyone's help.
 *
 * A start has two halves. The first looks at every record and adopts each
 * sandbox whose process lives; it ends and removes nothing. A sandbox counts as
 * ended only by proof: the kernel has no such process, or one with another
 * start time. If a question cannot be answered (no descriptors, an I/O error, a
 * damaged record beside living processes), the warden refuses to start, and all
 * processes, groups, disks and run directories stay.
 *
 * Only after that does the second half remove the rest that bears our marks:
 * run directories, groups and volumes of sandboxes that have ended, which a
 * crash has left.
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

static int record_check(const struct record *rec, const char *id)
{
	return memcmp(rec->magic, "BOX\n", 4) == 0 &&
			       rec->version == RECORD_VERSION &&
			       rec->size == sizeof(*rec) && rec->pid >= 0 &&
			       strncmp(rec->spec.id, id, ID_CAP) == 0 &&
			       texts_end(&rec->spec)
		       ? 0
		       : -EBADMSG;
}

/*
 * -ENOENT: the launch was cut short before its record was written. -EBADMSG:
 * the record is damaged, or of another version. -ERANGE: the record is whole,
 * but its ids are another sandbox's under the present uid_base and uid_count.
 */
static int record_read(struct warden *w, const char *id, struct record *rec)
{
	char path[ID_CAP + 8]; /* `id` was checked: its length is fixed */
	AUTO_CLOSE int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "%.*s/record", ID_LEN, id);
	fd = openat(w->box_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	n = read_full(fd, rec, sizeof(*rec));
	if (n <= 0)
		return n < 0 ? (int)n : -ENOENT; /* made, and never written */
	if (n != (ssize_t)sizeof(*rec) || record_check(rec, id) < 0)
		return -EBADMSG;
	return rec->slot < w->n_slots && rec->base == slot_base(w, rec->slot)
		       ? 0
		       : -ERANGE;
}

/* The number behind the next `n` spaces, which `*at` is moved to. */
static uint64_t skip_to(char **at, int n)
{
	for (; *at && n > 0; n--)
		*at = strchr(*at + 1, ' ');
	return *at ? strtoull(*at, NULL, 10) : 0;
}

/* Of /proc/PID/stat; the name in field 2 may contain anything. */
int process_start_time(int proc_fd, pid_t pid, uint64_t *start, bool *ending)
{
	char path[32], text[1024], *at;
	uint64_t flags;
	ssize_t n;

	*ending = false;
	snprintf(path, sizeof(path), "%d/stat", (int)pid);
	n = read_file_at(proc_fd, path, text, sizeof(text));
	if (n == -ENOENT)
		n = -ESRCH;
	if (n < 0)
		return (int)n;
	at = strrchr(text, ')');
	flags = skip_to(&at, STAT_FLAGS - 2);
	*start = skip_to(&at, STAT_START - STAT_FLAGS);
	*ending = flags & FLAG_EXITING;
	return at ? 0 : -EIO;
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

/*
 * 1: the process of the record lives, and `*pid_fd` is of it. 0: it does not,
 * as the kernel says so or the pid is another process's by now. Or -errno: not
 * known. The pidfd first, then the start time: a reused pid shows.
 */
static int is_alive(struct warden *w, const struct record *rec, int *pid_fd)
{
	AUTO_CLOSE int fd = (int)syscall(SYS_pidfd_open, rec->pid, 0);
	int code = fd < 0 ? errno : 0, r;
	bool ending; /* its pidfd will say so, too */
	uint64_t start;

	if (code == ESRCH)
		return 0;
	r = process_start_time(w->launch.proc_fd, rec->pid, &start, &ending);
	if (r == -ESRCH || (r == 0 && start != rec->start_time))
		return 0;
	if (r < 0 || code)
		return r < 0 ? r : -code;
	*pid_fd = take_fd(&fd);
	return 1;
}

/* Takes the descriptor. */
static int adopt(struct warden *w, const struct record *rec, int pid_fd,
		 struct err *e)
{
	struct box *b = box_new(w, &rec->spec);
	int r;

	b->slot = rec->slot;
	b->pid = rec->pid;
	b->start_time = rec->start_time;
	b->paused = rec->paused != 0;
	b->ran = true;
	b->state = BOX_RUNNING;
	adopt_frozen(b);
	apart_adopted(b);
	slot_mark(w, b->slot);
	if (box_is_vm(b) && vm_adopted(b, e) < 0) {
		close(pid_fd);
		return -e->code;
	}
	r = box_watch(b, pid_fd);
	if (r < 0)
		return err_set(e, -r, "watch sandbox %s: %s", rec->spec.id,
			       strerror(-r));
	if (box_is_vm(b))
		relay_adopt(b);
	log_info("sandbox=%s adopted pid=%d", b->spec.id, (int)b->pid);
	return 0;
}

/* The first half of a start: it ends and removes nothing. */
struct survey {
	struct warden *w;
	char damaged[ID_CAP]; /* of a record that is; "": none */
};

static int adopt_found(struct survey *f, const struct record *rec, bool strange,
		       struct err *e)
{
	const char *id = rec->spec.id;
	int pid_fd = -1;
	int r = rec->pid > 0 ? is_alive(f->w, rec, &pid_fd) : 0;

	if (r < 0)
		return err_set(e, -r,
			       "ask whether sandbox %s still runs: %s; nothing "
			       "was ended or removed",
			       id, strerror(-r));
	if (r == 0)
		return 0;
	if (!strange)
		return adopt(f->w, rec, pid_fd, e);
	close(pid_fd);
	return err_set(
		e, EINVAL,
		"sandbox %s runs with user ids from %u on, which are not "
		"those of uid_base and uid_count any more: set them back "
		"or remove the sandbox first",
		id, rec->base);
}

static int survey_one(void *ctx, const char *id, struct err *e)
{
	struct survey *f = ctx;
	struct record rec = { 0 };
	int r = record_read(f->w, id, &rec);

	if (r == 0 || r == -ERANGE)
		return adopt_found(f, &rec, r < 0, e);
	if (r == -EBADMSG)
		memcpy(f->damaged, id, ID_CAP);
	else if (r != -ENOENT)
		return err_set(e, -r,
			       "read %s/box/%s/record: %s; nothing was ended "
			       "or removed",
			       f->w->conf.run_dir, id, strerror(-r));
	return 0;
}

static int remove_leftover(void *ctx, const char *id, struct err *e)
{
	struct warden *w = ctx;
	int r;

	(void)e;
	if (box_find(w, id))
		return 0;
	log_info("sandbox=%s leftover, removing", id);
	r = box_remove_run_dir(w, id);
	if (r < 0)
		log_warn("sandbox=%s run directory stays: %s", id,
			 strerror(-r));
	return 0;
}

/* Half a list is an error. */
static int each_run_dir(struct warden *w,
			int (*fn)(void *ctx, const char *id, struct err *e),
			void *ctx, struct err *e)
{
	int fd = openat(w->box_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_DIR DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	if (!d)
		return err_sys(e, "list %s/box", w->conf.run_dir);
	while (errno = 0, (de = readdir(d)))
		if (id_valid(de->d_name) && fn(ctx, de->d_name, e) < 0)
			return -e->code;
	return errno ? err_sys(e, "list %s/box", w->conf.run_dir) : 0;
}

/* Without the record, any group without an owner may be the sandbox's. */
static int check_damaged(struct warden *w, const char *id, struct err *e)
{
	unsigned slot;
	int r = cgroup_find_populated(&w->cg, w->slot_used, w->n_slots, &slot,
				      e);

	if (r > 0)
		return err_set(e, EBADMSG,
			       "%s/box/%s/record is damaged or of another "
			       "version, and its processes seem to run in "
			       "cgroup %s/b%u: put it back, or remove its "
			       "directory to end the sandbox",
			       w->conf.run_dir, id, w->cg.path, slot);
	if (r == 0)
		log_err("sandbox=%s its record is damaged, and none of its "
			"processes is left",
			id);
	return r;
}

/*
 * Adopts living sandboxes. Success means that all other run directories are of
 * sandboxes that have certainly ended: everything that ends or removes
 * something comes after this.
 */
static int adopt_living(struct warden *w, struct err *e)
{
	struct survey f = { .w = w };

	if (each_run_dir(w, survey_one, &f, e) < 0)
		return -e->code;
	return *f.damaged ? check_damaged(w, f.damaged, e) : 0;
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

/* The disk of a sandbox that has ended: kept if it was marked for that. */
static int clear_volume(struct warden *w, const char *id, struct err *e)
{
	int r = store_volume_marked(&w->store, id, e);

	if (r < 0)
		return r;
	if (r == 0) {
		log_info("volume=%s leftover, removing", id);
		return store_volume_discard(&w->store, id, e);
	}
	if (vm_state_drop(w, id, e) < 0 ||
	    store_volume_keep(&w->store, id, e) < 0)
		return -e->code;
	log_info("sandbox=%s has ended, its disk is kept", id);
	return 0;
}

static int clear_volumes(struct warden *w, struct err *e)
{
	char id[ID_CAP] = "";
	int r;

	while ((r = store_volume_next(&w->store, id, id)) == 0)
		if (!box_find(w, id) && clear_volume(w, id, e) < 0)
			return -e->code;
	if (r != -ENOENT)
		return err_set(e, -r, "list the volumes of the pool: %s",
			       strerror(-r));
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

	if (adopt_living(w, e) < 0 ||
	    each_run_dir(w, remove_leftover, w, e) < 0 ||
	    cgroup_each(&w->cg, clear_group, &g, e) < 0 ||
	    clear_volumes(w, e) < 0)
		return -e->code;
	templates_open(w);
	sweep_soon(w);
	return 0;
}
