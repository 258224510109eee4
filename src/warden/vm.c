/*
 * Sandboxes with a kernel of their own. Slot, groups, volume, socket, record
 * and end are those of all others (box.c); here is what a VM has in place of a
 * root: the disk of the image, its own disk, and a console whose last words
 * are kept for the day when it ends by itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "warden/warden.h"

enum { CONSOLE_MAX = 4096, READ_MAX = 4096, TOLD_MAX = 160 };

struct console {
	struct box *box;
	struct io io;
	struct buf last; /* at most CONSOLE_MAX bytes */
	struct deferred gone;
};

void vms_open(struct warden *w)
{
	w->vm = (struct vm_host){ .cg = &w->cg,
				  .mnt_fd = w->host_mnt_fd,
				  .template_fd = -1 };
	snprintf(w->vm.dir, sizeof(w->vm.dir), "%s", w->conf.vm_dir);
	if (vm_host_open(&w->vm, &w->vm_missing) < 0)
		log_info("no microvms: %s", w->vm_missing.msg);
}

/* --- the console --- */

static void console_free(struct deferred *d)
{
	struct console *c = container_of(d, struct console, gone);

	buf_done(&c->last);
	free(c);
}

/* The guest may write what it likes: what is kept is bounded, and text. */
static void on_console(struct io *io, uint32_t events)
{
	struct console *c = container_of(io, struct console, io);
	char piece[READ_MAX];
	ssize_t n = read(io->fd, piece, sizeof(piece)), i;

	(void)events;
	if (n == 0 || (n < 0 && errno != EAGAIN)) {
		io_close(&c->box->w->loop, io);
		return;
	}
	for (i = 0; i < n; i++)
		if ((piece[i] < ' ' && piece[i] != '\n') || piece[i] > '~')
			piece[i] = piece[i] == '\r' ? '\n' : '?';
	if (n > 0)
		buf_add(&c->last, piece, (size_t)n);
	if (buf_len(&c->last) > CONSOLE_MAX)
		buf_eat(&c->last, buf_len(&c->last) - CONSOLE_MAX);
}

static int console_watch(struct box *b, int fd, struct err *e)
{
	struct console *c = xcalloc(1, sizeof(*c));
	int r;

	c->box = b;
	c->io.fd = -1;
	b->console = c;
	r = io_add(&b->w->loop, &c->io, fd, EPOLLIN, on_console);
	if (r < 0) {
		close(fd);
		return err_set(e, -r, "watch the console: %s", strerror(-r));
	}
	return 0;
}

/* The last line that says something. */
static const char *last_line(struct buf *b)
{
	char *text = buf_str(b), *end = text + strlen(text), *nl;

	while (end > text && (end[-1] == '\n' || end[-1] == ' '))
		*--end = '\0';
	nl = strrchr(text, '\n');
	return nl ? nl + 1 : text;
}

void vm_end(struct box *b)
{
	struct console *c = b->console;

	if (b->basing)
		vm_base_leave(&b->base);
	b->basing = false;
	if (!c)
		return;
	if (c->io.fd >= 0)
		on_console(&c->io, 0);
	if (!b->asked && buf_len(&c->last) > 0) {
		const char *line = last_line(&c->last);

		log_warn("sandbox=%s console: %s", b->spec.id, line);
		if (b->failure.code == 0)
			err_set(&b->failure, EIO, "the machine ended: %.*s",
				TOLD_MAX, line);
	}
	io_close(&b->w->loop, &c->io);
	b->console = NULL;
	loop_defer(&b->w->loop, &c->gone, console_free);
}

/* --- disks --- */

static int copy_piece(int from, int to, off_t at, off_t end, struct err *e)
{
	char piece[READ_MAX * 4];

	while (at < end) {
		size_t most = (size_t)(end - at);
		ssize_t n =
			pread(from, piece,
			      most < sizeof(piece) ? most : sizeof(piece), at);

		if (n <= 0 || pwrite(to, piece, (size_t)n, at) != n)
			return err_sys(e, "fill the disk");
		at += n;
	}
	return 0;
}

/* The empty file system, of which only the parts with something are copied. It
 * is on another file system, so nothing can be shared. */
static int copy_template(int from, int to, struct err *e)
{
	off_t at = 0;

	for (;;) {
		off_t data = lseek(from, at, SEEK_DATA);

		if (data < 0)
			return 0;
		at = lseek(from, data, SEEK_HOLE);
		if (at < 0)
			return err_sys(e, "read the empty disk");
		if (copy_piece(from, to, data, at, e) < 0)
			return -e->code;
	}
}

/* The disk of a new one; one that comes from a snapshot has it. */
static int open_disk(struct box *b, struct err *e)
{
	struct warden *w = b->w;
	AUTO_CLOSE int tree_fd = store_volume_open(&w->store, b->spec.id, e);
	AUTO_CLOSE int fd = -1;

	if (tree_fd < 0)
		return tree_fd;
	fd = openat(tree_fd, "disk", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		return take_fd(&fd);
	if (errno != ENOENT)
		return err_sys(e, "open the disk");
	fd = openat(tree_fd, "disk.new",
		    O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, "make the disk");
	if (copy_template(w->vm.template_fd, fd, e) < 0)
		return -e->code;
	if (ftruncate(fd, (off_t)b->spec.disk_bytes) < 0 ||
	    renameat(tree_fd, "disk.new", tree_fd, "disk") < 0)
		return err_sys(e, "make the disk");
	return take_fd(&fd);
}

static void on_base(struct base_wait *wait, const struct err *e)
{
	struct box *b = container_of(wait, struct box, base);

	b->basing = false;
	box_base_made(b, e);
}

int vm_base_start(struct box *b, struct err *e)
{
	AUTO_CLOSE int fd = vm_base_open(b->w, b->spec.image, e);

	if (fd >= 0)
		return 0;
	if (fd != -ENOENT)
		return fd;
	*e = (struct err){ 0 };
	b->base.done = on_base;
	if (vm_base_wait(b->w, b->spec.image, &b->base, e) < 0)
		return -e->code;
	b->basing = true;
	return 0;
}

/* Lines of the guest: sockets in the run directory, so that they are found
 * again after a restart. The agent's is there. */
static int make_ports(const struct box *b, int port_fd[GUEST_PORTS],
		      struct err *e)
{
	static const char *const names[GUEST_PORTS] = GUEST_PORT_NAMES;
	AUTO_CLOSE int dir_fd = openat(b->w->box_fd, b->spec.id,
				       O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int i;

	if (dir_fd < 0)
		return err_sys(e, "open run directory");
	for (i = GUEST_PORT_AGENT + 1; i < GUEST_PORTS; i++) {
		char name[32];

		snprintf(name, sizeof(name), "%s.sock", names[i]);
		port_fd[i] = unix_listen_at(dir_fd, name, SOCK_STREAM, 0600);
		if (port_fd[i] < 0)
			return err_set(e, -port_fd[i], "%s: %s", name,
				       strerror(-port_fd[i]));
	}
	return 0;
}

static int open_files(struct box *b, struct vm_files *f, struct err *e)
{
	f->base_fd = vm_base_open(b->w, b->spec.image, e);
	if (f->base_fd < 0)
		return f->base_fd;
	f->disk_fd = open_disk(b, e);
	if (f->disk_fd < 0)
		return f->disk_fd;
	f->port_fd[GUEST_PORT_AGENT] = take_fd(&b->listen_fd);
	return make_ports(b, f->port_fd, e);
}

static void close_files(struct vm_files *f)
{
	int i;

	auto_close(&f->base_fd);
	auto_close(&f->disk_fd);
	for (i = 0; i < GUEST_PORTS; i++)
		auto_close(&f->port_fd[i]);
}

int vm_go(struct box *b, struct err *e)
{
	struct vm_files f = { .base_fd = -1, .disk_fd = -1 };
	struct vm_started s = { .talk_fd = -1, .console_fd = -1 };
	int r;

	memset(f.port_fd, -1, sizeof(f.port_fd)); /* each is -1 */
	r = open_files(b, &f, e);
	if (r == 0)
		r = vm_start(&b->w->vm, &b->spec, &b->part, &f, &s, e);
	close_files(&f);
	if (r < 0) {
		auto_close(&s.talk_fd);
		auto_close(&s.console_fd);
		return r;
	}
	r = console_watch(b, s.console_fd, e);
	if (box_begun(b, s.pid, s.pid_fd, s.talk_fd, e) < 0)
		r = -e->code;
	return r;
}
