#include "sandbox/vm/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/sha.h"
#include "sandbox/vm/control.h"
#include "sandbox/vm/written.h"
#include "store/share.h"

/* How long they may take: emulation on a busy host is slow. */
enum { QMP_MS = 60 * 1000, HOLD_MS = 60 * 1000, WAKE_MS = 30 * 1000 };

int state_drop(int tree_fd, struct err *e)
{
	/* In this order: the others are nothing without the first. */
	static const char *const files[] = { STATE_SHAPE, STATE_CHANGED,
					     STATE_DEVICES, STATE_HELD,
					     STATE_HELD_HALF };
	size_t i;

	for (i = 0; i < ARRAY_LEN(files); i++)
		if (unlinkat(tree_fd, files[i], 0) < 0 && errno != ENOENT)
			return err_sys(e, "remove '%s'", files[i]);
	return 0;
}

int state_take_disk(int tree_fd, struct err *e)
{
	if (renameat(tree_fd, STATE_HELD, tree_fd, STATE_DISK) < 0 &&
	    errno != ENOENT)
		return err_sys(e, "take the disk that was held");
	return 0;
}

int state_forget(int tree_fd, struct err *e)
{
	if (unlinkat(tree_fd, STATE_MEMORY, 0) < 0 && errno != ENOENT)
		return err_sys(e, "remove '" STATE_MEMORY "'");
	return state_drop(tree_fd, e);
}

static int file_new(int tree_fd, const char *name, int how, struct err *e)
{
	int fd = openat(tree_fd, name,
			how | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? err_sys(e, "make '%s'", name) : fd;
}

static int file_open(int tree_fd, const char *name, struct err *e)
{
	int fd = openat(tree_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_sys(e, "open '%s'", name) : fd;
}

/* --- who is spoken to --- */

static int qmp_reach(const struct state_of *of, struct qmp *q, struct err *e)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/qmp.sock", of->run_fd);
	fd = unix_connect(path, SOCK_STREAM | SOCK_NONBLOCK);
	if (fd < 0)
		return err_set(e, -fd, "reach QEMU: %s", strerror(-fd));
	if (qmp_open(q, fd, QMP_MS, e) < 0) {
		close(fd);
		return -e->code;
	}
	return fd;
}

static int control_reach(const struct state_of *of, struct control_line *l,
			 struct err *e)
{
	return control_open(l, of->run_fd, ".", e);
}

static int wake(const struct state_of *of, struct control_line *line,
		struct err *e)
{
	const struct control_name name = { .id = of->id,
					   .hostname = of->hostname };

	return control_wake(line, &name, WAKE_MS, e);
}

static int reach_and_wake(const struct state_of *of, struct err *e)
{
	struct control_line line;
	int r = control_reach(of, &line, e);

	if (r == 0)
		r = wake(of, &line, e);
	control_close(&line);
	return r;
}

/* --- what it started with --- */

static int keep_time(int from, int to, struct err *e)
{
	struct stat st;

	if (fstat(from, &st) < 0)
		return err_sys(e, "look at the memory");
	return futimens(to, (struct timespec[]){ st.st_mtim, st.st_mtim }) < 0
		       ? err_sys(e, "name the memory")
		       : 0;
}

/* From its template, which may be gone; QEMU has it, too. */
static int fill_memory(const struct state_of *of, const struct ram_map *m,
		       int to, struct err *e)
{
	AUTO_CLOSE int from = -1;

	if (of->template_fd >= 0)
		return file_share(of->template_fd, to, e) < 0
			       ? -e->code
			       : keep_time(of->template_fd, to, e);
	from = ram_open(m, e);
	return from < 0 ? from : file_copy(from, to, e);
}

static int save_memory(const struct state_of *of, const struct ram_map *m,
		       struct err *e)
{
	static const char half[] = STATE_MEMORY ".new";
	AUTO_CLOSE int fd = -1;

	/* What it started with does not change. */
	if (faccessat(of->tree_fd, STATE_MEMORY, F_OK, AT_SYMLINK_NOFOLLOW) ==
	    0)
		return 0;
	unlinkat(of->tree_fd, half, 0);
	fd = file_new(of->tree_fd, half, O_RDWR, e);
	if (fd < 0 || fill_memory(of, m, fd, e) < 0)
		return -e->code;
	if (renameat(of->tree_fd, half, of->tree_fd, STATE_MEMORY) < 0)
		return err_sys(e, "keep the memory");
	return 0;
}

int state_memory_name(int file_fd, char name[ID_CAP], struct err *e)
{
	uint8_t sum[SHA256_LEN];
	struct sha256 sha;
	struct stat st;

	if (fstat(file_fd, &st) < 0)
		return err_sys(e, "look at the memory");
	sha256_init(&sha);
	sha256_add(&sha,
		   (int64_t[]){ st.st_size, st.st_mtim.tv_sec,
				st.st_mtim.tv_nsec },
		   3 * sizeof(int64_t));
	sha256_end(&sha, sum);
	id_from(sum, name);
	return 0;
}

/* --- saving --- */

static int save_changed(struct state_save *s, struct err *e)
{
	const struct state_of *of = s->of;
	struct ram_map map;

	if (ram_find(of->process_fd, of->bytes, &map, e) < 0 ||
	    save_memory(of, &map, e) < 0)
		return -e->code;
	map.pid_fd = of->pid_fd;
	s->changed_fd = file_new(of->tree_fd, STATE_CHANGED, O_RDWR, e);
	if (s->changed_fd < 0 ||
	    ram_save_open(&s->ram, &map, s->changed_fd, e) < 0 ||
	    ram_save_begin(&s->ram, e) < 0)
		return -e->code;
	/* What is on its way to the disk is not waited for later. */
	return fdatasync(s->changed_fd) < 0 ? err_sys(e, "save the memory") : 0;
}

/* So that little of it is left when it stands still. */
static int write_disk(struct state_save *s, struct err *e)
{
	struct err older = { 0 };
	int fd;

	/* A machine of an older guest does that only when it is held; and one
	 * that is busy may be late with what is not needed. */
	if (control_sync(&s->control, HOLD_MS, &older) < 0 &&
	    older.code != EIO && older.code != ETIMEDOUT) {
		*e = older;
		return -e->code;
	}
	fd = file_open(s->of->tree_fd, STATE_DISK, e);
	if (fd < 0)
		return fd;
	if (file_is_light(fd))
		s->disk_fd = fd;
	else
		close(fd);
	return 0;
}

int state_save_begin(struct state_save *s, const struct state_of *of,
		     struct err *e)
{
	*s = (struct state_save){
		.of = of,
		.qmp_fd = -1,
		.control = { .fd = -1 },
		.changed_fd = -1,
		.disk_fd = -1,
		.ram = { .pagemap_fd = -1, .mem_fd = -1, .written_fd = -1 }
	};
	if (state_drop(of->tree_fd, e) < 0 ||
	    (!of->disk_only && save_changed(s, e) < 0))
		return -e->code;
	/* In this order, as everybody does: each line is for one at a time. */
	s->qmp_fd = qmp_reach(of, &s->qmp, e);
	if (s->qmp_fd < 0)
		return s->qmp_fd;
	if (control_reach(of, &s->control, e) < 0)
		return -e->code;
	if (write_disk(s, e) < 0)
		return -e->code;
	/* Again, of what was written while that took its time. */
	return of->disk_only ? 0 : ram_save_begin(&s->ram, e);
}

static int save_devices(struct state_save *s, struct err *e)
{
	AUTO_CLOSE int fd =
		file_new(s->of->tree_fd, STATE_DEVICES, O_WRONLY, e);

	return fd < 0 ? fd : qmp_save_devices(&s->qmp, fd, e);
}

static int save_shape(const struct state_of *of, struct err *e)
{
	AUTO_CLOSE int fd = file_new(of->tree_fd, STATE_SHAPE, O_WRONLY, e);
	char text[2 * ID_CAP];
	int r;

	if (fd < 0)
		return fd;
	r = snprintf(text, sizeof(text), "%s %s", of->key, of->id);
	r = write_full(fd, text, (size_t)r);
	return r < 0 ? err_set(e, -r, "write '" STATE_SHAPE "'") : 0;
}

int state_save_end(struct state_save *s, struct err *e)
{
	s->held = true;
	if (control_hold(&s->control, HOLD_MS, e) < 0)
		return -e->code;
	s->stopped = true;
	if (qmp_run(&s->qmp, "stop", NULL, e) < 0)
		return -e->code;
	if (s->of->disk_only)
		return 0;
	if (ram_save_end(&s->ram, e) < 0 || save_devices(s, e) < 0)
		return -e->code;
	/* Last: without it the others are nothing. */
	return save_shape(s->of, e);
}

static int go_on(struct state_save *s, struct err *e)
{
	if (s->stopped && qmp_run(&s->qmp, "cont", NULL, e) < 0)
		return -e->code;
	s->stopped = false;
	if (s->held && wake(s->of, &s->control, e) < 0)
		return -e->code;
	s->held = false;
	return 0;
}

int state_save_go_on(struct state_save *s, struct err *e)
{
	int tree_fd = s->of->tree_fd;
	AUTO_CLOSE int fd = -1;
	struct err none = { 0 };

	if (s->disk_fd < 0)
		return 0;
	/* Half a disk is none: it has its name when it is whole. */
	fd = file_new(tree_fd, STATE_HELD_HALF, O_RDWR, &none);
	if (fd >= 0 && file_share(s->disk_fd, fd, &none) == 0 &&
	    renameat(tree_fd, STATE_HELD_HALF, tree_fd, STATE_HELD) == 0)
		return go_on(s, e);
	if (unlinkat(tree_fd, STATE_HELD_HALF, 0) < 0 && errno != ENOENT)
		return err_sys(e, "remove '" STATE_HELD_HALF "'");
	return 0;
}

/* The files first: beside a disk that changes they are not true any more. */
int state_save_close(struct state_save *s, bool stay, struct err *e)
{
	struct err files = { 0 };
	int r = state_drop(s->of->tree_fd, &files);

	if (!stay && go_on(s, e) < 0)
		r = -e->code;
	else if (r < 0)
		*e = files;
	ram_save_close(&s->ram);
	auto_close(&s->changed_fd);
	auto_close(&s->disk_fd);
	control_close(&s->control);
	auto_close(&s->qmp_fd);
	return r;
}

int state_go_on(const struct state_of *of, struct err *e)
{
	AUTO_CLOSE int qmp_fd = -1;
	struct qmp q;

	qmp_fd = qmp_reach(of, &q, e);
	if (qmp_fd < 0 || qmp_run(&q, "cont", NULL, e) < 0)
		return -e->code;
	return reach_and_wake(of, e);
}

/* --- loading --- */

int state_shape(int tree_fd, struct state_shape *s, struct err *e)
{
	char text[2 * ID_CAP + 1]; /* a byte more than it may have */
	ssize_t n = read_file_at(tree_fd, STATE_SHAPE, text, sizeof(text));

	*s = (struct state_shape){ 0 };
	if (n == -ENOENT)
		return err_set(e, ENOENT, "it has no memory");
	if (n == 2 * ID_LEN + 1 && text[ID_LEN] == ' ') {
		memcpy(s->key, text, ID_LEN);
		memcpy(s->id, text + ID_LEN + 1, ID_LEN);
	}
	if (!id_valid(s->key) || !id_valid(s->id))
		return err_set(e, EPROTO, "its memory is of no known shape");
	return 0;
}

/* What it is told with: opened, so that the names can go. */
struct load {
	struct state_shape shape;
	int changed_fd, devices_fd;
};

static int load_open(const struct state_of *of, struct load *l, struct err *e)
{
	if (state_shape(of->tree_fd, &l->shape, e) < 0)
		return -e->code;
	l->changed_fd = file_open(of->tree_fd, STATE_CHANGED, e);
	if (l->changed_fd < 0)
		return l->changed_fd;
	l->devices_fd = file_open(of->tree_fd, STATE_DEVICES, e);
	if (l->devices_fd < 0)
		return l->devices_fd;
	return state_drop(of->tree_fd, e);
}

static int load(const struct state_of *of, const struct load *l, struct err *e)
{
	AUTO_CLOSE int qmp_fd = -1;
	struct ram_map map;
	struct qmp q;

	/* It has mapped its memory when it answers. */
	qmp_fd = qmp_reach(of, &q, e);
	if (qmp_fd < 0 || written_loaded(of->process_fd, e) < 0 ||
	    ram_find(of->process_fd, of->bytes, &map, e) < 0 ||
	    ram_load(l->changed_fd, &map, e) < 0 ||
	    qmp_load_devices(&q, l->devices_fd, e) < 0)
		return -e->code;
	return reach_and_wake(of, e);
}

int state_load(const struct state_of *of, struct err *e)
{
	struct load l = { .changed_fd = -1, .devices_fd = -1 };
	int r = load_open(of, &l, e);

	if (r == 0)
		r = load(of, &l, e);
	auto_close(&l.changed_fd);
	auto_close(&l.devices_fd);
	return r;
}
