#include "sandbox/vm/state.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "sandbox/vm/control.h"

/* How long they may take: emulation on a busy host is slow. */
enum { QMP_MS = 60 * 1000, HOLD_MS = 60 * 1000, WAKE_MS = 30 * 1000 };
enum { PIECE = 256 * 1024 };

static const char *const files[] = { STATE_MEMORY, STATE_CHANGED, STATE_DEVICES,
				     STATE_SHAPE };

int state_drop(int tree_fd, struct err *e)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(files); i++)
		if (unlinkat(tree_fd, files[i], 0) < 0 && errno != ENOENT)
			return err_sys(e, "remove '%s'", files[i]);
	return 0;
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

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%.*s/qmp.sock",
		 of->box_fd, ID_LEN, of->id);
	fd = unix_connect(path, SOCK_STREAM);
	if (fd < 0)
		return err_set(e, -fd, "reach QEMU: %s", strerror(-fd));
	if (qmp_open(q, fd, QMP_MS, e) < 0) {
		close(fd);
		return -e->code;
	}
	return fd;
}

static int wake(const struct state_of *of, int control_fd, uint32_t flags,
		struct err *e)
{
	const struct control_name name = { .id = of->id,
					   .hostname = of->hostname,
					   .flags = flags };

	return control_wake(control_fd, &name, WAKE_MS, e);
}

/* --- what it started with --- */

/* Where nothing can be shared, or there is no template any more. */
static int copy_data(int from, int to, uint64_t bytes, struct err *e)
{
	static char piece[PIECE];
	off_t at = 0;

	if (ftruncate(to, (off_t)bytes) < 0)
		return err_sys(e, "make room for the memory");
	while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
		off_t end = lseek(from, at, SEEK_HOLE);

		while (at < end) {
			size_t most = (size_t)(end - at);
			ssize_t n = pread(from, piece,
					  most < PIECE ? most : PIECE, at);

			if (n <= 0 || pwrite(to, piece, (size_t)n, at) != n)
				return err_sys(e, "copy the memory");
			at += n;
		}
	}
	return 0;
}

static int save_memory(const struct state_of *of, const struct ram_map *m,
		       struct err *e)
{
	AUTO_CLOSE int to = file_new(of->tree_fd, STATE_MEMORY, O_RDWR, e);
	AUTO_CLOSE int from = -1;

	if (to < 0)
		return to;
	if (of->template_fd >= 0 && ioctl(to, FICLONE, of->template_fd) == 0)
		return 0;
	from = ram_open(of->proc_fd, m, e);
	if (from < 0)
		return from;
	return copy_data(from, to, m->bytes, e);
}

/* --- saving --- */

int state_save_begin(struct state_save *s, const struct state_of *of,
		     struct err *e)
{
	struct ram_map map;

	*s = (struct state_save){ .of = of,
				  .qmp_fd = -1,
				  .control_fd = -1,
				  .changed_fd = -1,
				  .ram = { .pagemap_fd = -1 } };
	if (state_drop(of->tree_fd, e) < 0 ||
	    ram_find(of->proc_fd, of->pid, of->bytes, &map, e) < 0 ||
	    save_memory(of, &map, e) < 0)
		return -e->code;
	s->changed_fd = file_new(of->tree_fd, STATE_CHANGED, O_RDWR, e);
	if (s->changed_fd < 0 ||
	    ram_save_open(&s->ram, of->proc_fd, &map, s->changed_fd, e) < 0)
		return -e->code;
	/* The second time it is less, and so it is when it stands still. */
	if (ram_save_begin(&s->ram, e) < 0 || fdatasync(s->changed_fd) < 0)
		return e->code ? -e->code : err_sys(e, "save the memory");
	s->control_fd = control_open(of->box_fd, of->id, e);
	if (s->control_fd < 0)
		return s->control_fd;
	s->qmp_fd = qmp_reach(of, &s->qmp, e);
	return s->qmp_fd < 0 ? s->qmp_fd : 0;
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
	int r;

	if (fd < 0)
		return fd;
	r = write_full(fd, of->key, strlen(of->key));
	return r < 0 ? err_set(e, -r, "write '" STATE_SHAPE "'") : 0;
}

int state_save_end(struct state_save *s, struct err *e)
{
	s->held = true;
	if (control_hold(s->control_fd, HOLD_MS, e) < 0)
		return -e->code;
	s->stopped = true;
	if (qmp_run(&s->qmp, "stop", NULL, e) < 0 ||
	    ram_save_end(&s->ram, e) < 0 || save_devices(s, e) < 0)
		return -e->code;
	/* Last: without it the others are nothing. */
	return save_shape(s->of, e);
}

int state_save_close(struct state_save *s, bool stay, struct err *e)
{
	int r = 0;

	if (s->stopped && !stay)
		r = qmp_run(&s->qmp, "cont", NULL, e);
	if (r == 0 && s->held && !stay)
		r = wake(s->of, s->control_fd, 0, e);
	ram_save_close(&s->ram);
	auto_close(&s->changed_fd);
	auto_close(&s->control_fd);
	auto_close(&s->qmp_fd);
	if (r == 0)
		r = state_drop(s->of->tree_fd, e);
	return r;
}

int state_go_on(const struct state_of *of, bool copied, struct err *e)
{
	AUTO_CLOSE int qmp_fd = -1, control_fd = -1;
	struct qmp q;

	qmp_fd = qmp_reach(of, &q, e);
	if (qmp_fd < 0 || qmp_run(&q, "cont", NULL, e) < 0)
		return -e->code;
	control_fd = control_open(of->box_fd, of->id, e);
	if (control_fd < 0)
		return control_fd;
	return wake(of, control_fd, copied ? GUEST_COPIED : 0, e);
}

/* --- loading --- */

int state_shape(int tree_fd, char key[ID_CAP], struct err *e)
{
	ssize_t n = read_file_at(tree_fd, STATE_SHAPE, key, ID_CAP);

	if (n == -ENOENT)
		return err_set(e, ENOENT, "it has no memory");
	if (n < 0 || !id_valid(key))
		return err_set(e, EPROTO, "its memory is of no known shape");
	return 0;
}

int state_load(const struct state_of *of, struct err *e)
{
	AUTO_CLOSE int changed_fd = file_open(of->tree_fd, STATE_CHANGED, e);
	AUTO_CLOSE int devices_fd = -1, qmp_fd = -1;
	struct ram_map map;
	struct qmp q;

	if (changed_fd < 0)
		return changed_fd;
	devices_fd = file_open(of->tree_fd, STATE_DEVICES, e);
	if (devices_fd < 0)
		return devices_fd;
	/* It has mapped its memory when it answers. */
	qmp_fd = qmp_reach(of, &q, e);
	if (qmp_fd < 0 ||
	    ram_find(of->proc_fd, of->pid, of->bytes, &map, e) < 0 ||
	    ram_load(changed_fd, &map, e) < 0)
		return -e->code;
	return qmp_load_devices(&q, devices_fd, e);
}
