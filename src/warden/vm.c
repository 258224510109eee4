/*
 * Sandboxes with a kernel of their own. Slot, groups, volume, socket, record
 * and end are those of all others (box.c); here is what a VM has in place of a
 * root: the disk of the image, its own disk, memory, sockets that QEMU serves,
 * and a console whose last words are kept for the day when it ends by itself.
 *
 * QEMU runs long before the guest does, so a launch is not done when its
 * program is there: a child speaks to the guest, and then it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "sandbox/vm/patience.h"
#include "sandbox/vm/qmp.h"
#include "sandbox/vm/ram.h"
#include "sandbox/vm/shape.h"
#include "sandbox/vm/state.h"
#include "sandbox/vm/written.h"
#include "store/share.h"
#include "warden/vm.h"

enum { CONSOLE_MAX = 4096, READ_MAX = 4096 };

#define CONSOLE "console"
#define TEMPLATE "template" /* a link: which one it started as */
#define SHAPE "shape"       /* another: what it can go on in */

struct vm {
	struct warden *w;
	struct box
		*box; /* NULL: it has ended, the child's word is waited for */
	struct io console;
	struct buf last; /* at most CONSOLE_MAX bytes */
	enum vm_mode mode;
	int ram_fd;           /* of one that becomes a template */
	int process_fd;       /* of one that goes on: QEMU\'s, in /proc */
	struct job job;       /* speaks to the guest until that is ready */
	uint32_t slow_tenths; /* its answer besides: see speed.c */
	bool speaking;
	struct deferred gone;
};

/* What the configuration says of the tier. */
static int take_word(struct warden *w, struct err *e)
{
	static const char *const words[] = { "auto", "kvm", "emulated", "off" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(words); i++)
		if (strcmp(w->conf.microvm, words[i]) == 0)
			return 0;
	return err_set(e, EINVAL,
		       "microvm: %s is none of auto, kvm, emulated, off",
		       w->conf.microvm);
}

int vms_open(struct warden *w, struct err *e)
{
	vm_patience_set(w->conf.microvm_patience);
	w->vm = (struct vm_host){ .cg = &w->cg,
				  .mnt_fd = w->host_mnt_fd,
				  .empty_fd = -1 };
	snprintf(w->vm.dir, sizeof(w->vm.dir), "%s", w->conf.vm_dir);
	if (take_word(w, e) < 0)
		return -e->code;
	if (strcmp(w->conf.microvm, "off") == 0)
		err_set(&w->vm_missing, ENOTSUP,
			"the tier microvm is switched off on this host: "
			"microvm = off in its configuration");
	else if (vm_host_open(&w->vm, &w->vm_missing) < 0)
		log_info("no microvms: %s", w->vm_missing.msg);
	return kvm_open(w, e) < 0 ? -e->code : speed_open(w, e);
}

void vms_tell(const struct warden *w, struct host_info *h)
{
	if (w->vm_missing.code == 0)
		h->flags |= HOST_MICROVM;
	if (w->vm.kvm)
		h->flags |= HOST_KVM;
	else
		h->slow_tenths = w->speed.tenths;
	snprintf(h->microvm, sizeof(h->microvm), "%.*s",
		 (int)sizeof(h->microvm) - 1,
		 w->vm_missing.code ? w->vm_missing.msg : w->kvm.why);
}

static void vm_free(struct deferred *d)
{
	struct vm *v = container_of(d, struct vm, gone);

	auto_close(&v->ram_fd);
	auto_close(&v->process_fd);
	buf_done(&v->last);
	free(v);
}

static struct vm *vm_new(struct box *b)
{
	struct vm *v = xcalloc(1, sizeof(*v));

	v->w = b->w;
	v->box = b;
	v->console.fd = v->ram_fd = v->process_fd = -1;
	b->vm = v;
	return v;
}

/* --- the console --- */

/* The guest may write what it likes: what is kept is bounded, and text. */
static void on_console(struct io *io, uint32_t events)
{
	struct vm *v = container_of(io, struct vm, console);
	char piece[READ_MAX];
	ssize_t n = read(io->fd, piece, sizeof(piece)), i;

	(void)events;
	if (n == 0 || (n < 0 && errno != EAGAIN)) {
		io_close(&v->w->loop, io);
		return;
	}
	for (i = 0; i < n; i++)
		if ((piece[i] < ' ' && piece[i] != '\n') || piece[i] > '~')
			piece[i] = piece[i] == '\r' ? '\n' : '?';
	if (n > 0)
		buf_add(&v->last, piece, (size_t)n);
	if (buf_len(&v->last) > CONSOLE_MAX)
		buf_eat(&v->last, buf_len(&v->last) - CONSOLE_MAX);
}

/*
 * A pipe with a name: the next warden reads on where this one stopped. QEMU
 * can read from its end, too, so that it never finds nobody there.
 */
static int console_watch(struct vm *v, int dir_fd, struct err *e)
{
	int fd = openat(dir_fd, CONSOLE,
			O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (fd < 0)
		return err_sys(e, "open the console");
	r = io_add(&v->w->loop, &v->console, fd, EPOLLIN, on_console);
	if (r < 0) {
		close(fd);
		v->console.fd = -1;
		return err_set(e, -r, "watch the console: %s", strerror(-r));
	}
	return 0;
}

/* The end that QEMU gets. */
static int console_open(struct vm *v, int dir_fd, struct err *e)
{
	AUTO_CLOSE int fd = -1;

	if (mkfifoat(dir_fd, CONSOLE, 0600) < 0)
		return err_sys(e, "make the console");
	fd = openat(dir_fd, CONSOLE,
		    O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open the console");
	if (console_watch(v, dir_fd, e) < 0)
		return -e->code;
	return take_fd(&fd);
}

void vm_last_line(struct buf *b, char out[VM_LINE_CAP])
{
	static const char ends[] = "] reboot: ";
	const char *text = buf_str(b), *end = strstr(text, "Kernel panic"), *at;

	at = end ? end + strcspn(end, "\n") : text + strlen(text);
	do {
		for (end = at; end > text && strchr("\n ", end[-1]); end--)
			;
		for (at = end; at > text && at[-1] != '\n'; at--)
			;
	} while (at > text &&
		 memmem(at, (size_t)(end - at), ends, strlen(ends)));
	snprintf(out, VM_LINE_CAP, "%.*s", (int)(end - at), at);
}

/* What can be read of it now. */
static void console_drain(struct vm *v)
{
	unsigned i;

	for (i = 0; i < CONSOLE_MAX && v->console.fd >= 0; i++) {
		size_t had = buf_len(&v->last);

		on_console(&v->console, 0);
		if (buf_len(&v->last) == had)
			break;
	}
}

static void tell_last(struct vm *v)
{
	struct box *b = v->box;
	char line[VM_LINE_CAP];

	console_drain(v);
	if (buf_len(&v->last) == 0)
		return;
	vm_last_line(&v->last, line);
	if (b->asked) {
		log_info("sandbox=%s console: %s", b->spec.id, line);
		return;
	}
	log_warn("sandbox=%s console: %s", b->spec.id, line);
	if (b->failure.code == 0)
		err_set(&b->failure, EIO, "the machine ended: %s", line);
}

void vm_end(struct box *b)
{
	struct vm *v = b->vm;

	if (b->basing)
		vm_base_leave(&b->base);
	b->basing = false;
	if (!v)
		return;
	tell_last(v);
	io_close(&b->w->loop, &v->console);
	b->vm = NULL;
	v->box = NULL;
	if (v->speaking)
		job_kill(&v->job);
	else
		loop_defer(&b->w->loop, &v->gone, vm_free);
}

/* A template whose users are not known might be discarded under them. */
static int read_template(struct box *b, int dir_fd, struct err *e)
{
	char key[ID_CAP] = "";
	ssize_t n = readlinkat(dir_fd, TEMPLATE, key, sizeof(key) - 1);

	if (n < 0 && errno != ENOENT)
		return err_sys(e, "read the template of sandbox %s",
			       b->spec.id);
	if (n == ID_LEN && id_valid(key))
		memcpy(b->template, key, sizeof(key));
	return 0;
}

int vm_adopted(struct box *b, struct err *e)
{
	struct vm *v = vm_new(b);
	AUTO_CLOSE int dir_fd = openat(b->w->box_fd, b->spec.id,
				       O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err bad = { 0 };

	if (dir_fd < 0)
		return err_sys(e, "open the run directory of sandbox %s",
			       b->spec.id);
	if (console_watch(v, dir_fd, &bad) < 0)
		log_warn("sandbox=%s its console is lost: %s", b->spec.id,
			 bad.msg);
	if (read_template(b, dir_fd, e) < 0)
		return -e->code;
	/* Somebody may have made it stand still, and died. */
	if (b->paused)
		return 0;
	if (vm_state_drop(b->w, b->spec.id, &bad) < 0)
		log_warn("sandbox=%s %s", b->spec.id, bad.msg);
	/* One that looks has nobody inside who answers. */
	if (!(b->spec.flags & LAUNCH_LOOK))
		vm_go_on(b);
	return 0;
}

/* --- the guest --- */

int vm_qmp_connect(const struct warden *w, const char *id, struct err *e)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%.*s/qmp.sock",
		 w->box_fd, ID_LEN, id);
	fd = unix_connect(path, SOCK_STREAM | SOCK_NONBLOCK);
	return fd < 0 ? err_set(e, -fd, "reach QEMU: %s", strerror(-fd)) : fd;
}

/* It goes on where the template stopped. */
static int load_devices(const struct box *b, int process_fd, struct err *e)
{
	AUTO_CLOSE int tree_fd =
		store_template_open(&b->w->store, b->template, e);
	AUTO_CLOSE int file_fd = -1, fd = -1;
	struct qmp q;

	if (tree_fd < 0)
		return tree_fd;
	file_fd = openat(tree_fd, "devices", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (file_fd < 0)
		return err_sys(e, "open the devices of template %s",
			       b->template);
	fd = vm_qmp_connect(b->w, b->spec.id, e);
	if (fd < 0 || qmp_open(&q, fd, VM_QMP_MS, e) < 0 ||
	    written_loaded(process_fd, e) < 0)
		return -e->code;
	return qmp_load_devices(&q, file_fd, e);
}

/* Who connects waits for its boot; not we. */
static int looker_starts(const struct box *b, int process_fd, struct err *e)
{
	AUTO_CLOSE int fd = vm_qmp_connect(b->w, b->spec.id, e);
	struct qmp q;

	if (fd < 0 || qmp_open(&q, fd, VM_QMP_MS, e) < 0)
		return -e->code;
	return written_loaded(process_fd, e);
}

static int become_template(struct vm *v, struct err *e)
{
	struct template_of of = { .box = v->box->spec.id,
				  .ram_fd = v->ram_fd,
				  .process_fd = v->process_fd };
	int r = template_save(v->box->makes, &of, e);

	v->slow_tenths = of.slow_tenths;
	return r;
}

static int speak(struct job *j, struct err *e)
{
	struct vm *v = container_of(j, struct vm, job);
	const struct box *b = v->box;
	const struct control_name name = { .id = b->spec.id,
					   .hostname = b->spec.hostname };
	struct control_line line;
	int r = 0;

	if (v->mode == VM_TEMPLATE)
		return become_template(v, e);
	if (b->spec.flags & LAUNCH_LOOK)
		return looker_starts(b, v->process_fd, e);
	if (b->goes_on)
		return vm_state_load(b, v->process_fd, e);
	if (v->mode == VM_RESTORE && load_devices(b, v->process_fd, e) < 0)
		return -e->code;
	if (control_open(&line, j->w->box_fd, b->spec.id, e) < 0)
		return -e->code;
	if (v->mode == VM_BOOT)
		r = control_ask(&line, VM_BOOT_MS, e);
	if (v->mode == VM_BOOT && r == 0)
		r = written_loaded(v->process_fd, e);
	if (r == 0)
		r = control_wake(&line, &name, VM_WAKE_MS, e);
	control_close(&line);
	return r;
}

/* The console knows more than that nobody answers. */
static void explain(struct vm *v, struct err *e)
{
	const struct err was = *e;
	char line[VM_LINE_CAP];

	console_drain(v);
	vm_last_line(&v->last, line);
	if (was.code == 0 || !*line)
		return;
	err_clear(e);
	err_set(e, was.code, "%.80s; its console says: %s", was.msg, line);
}

static void spoken(struct job *j, const struct err *result)
{
	struct vm *v = container_of(j, struct vm, job);
	struct err e = *result;

	v->speaking = false;
	if (!v->box) {
		loop_defer(&v->w->loop, &v->gone, vm_free);
		return;
	}
	speed_note(v->w, v->slow_tenths);
	explain(v, &e);
	box_guest_ready(v->box, &e);
}

int vm_guest_start(struct box *b, struct err *e)
{
	struct vm *v = b->vm;

	v->job = (struct job){ .w = b->w,
			       .work = speak,
			       .done = spoken,
			       .urgent = true,
			       .answer = &v->slow_tenths,
			       .answer_len = sizeof(v->slow_tenths),
			       .said.fd = -1,
			       .pid_fd = -1 };
	v->process_fd = vm_process_open(b, e);
	if (v->process_fd < 0)
		return v->process_fd;
	if (job_start(&v->job, e) < 0)
		return -e->code;
	v->speaking = true;
	return 0;
}

/* --- what it is made of --- */

int vm_memory_new(uint64_t bytes, struct err *e)
{
	AUTO_CLOSE int fd =
		memfd_create(RAM_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		return err_sys(e, "make memory");
	return take_fd(&fd);
}

int vm_memory_seal(int fd, struct err *e)
{
	const int all =
		F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

	return fcntl(fd, F_ADD_SEALS, all) < 0 ? err_sys(e, "seal memory") : 0;
}

/* What its disk starts as: that of its template, or nothing. */
static int fill_disk(const struct box *b, int fd, struct err *e)
{
	AUTO_CLOSE int tree_fd = -1, from_fd = -1;

	if (b->vm->mode != VM_RESTORE)
		return file_copy(b->w->vm.empty_fd, fd, e);
	tree_fd = store_template_open(&b->w->store, b->template, e);
	if (tree_fd < 0)
		return tree_fd;
	from_fd = openat(tree_fd, "disk", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (from_fd < 0)
		return err_sys(e, "open the disk of template %s", b->template);
	return file_share(from_fd, fd, e);
}

/* The disk of a new one; one that comes from a snapshot has it. */
static int open_disk(struct box *b, struct err *e)
{
	AUTO_CLOSE int tree_fd = store_volume_open(&b->w->store, b->spec.id, e);
	AUTO_CLOSE int fd = -1;

	if (tree_fd < 0)
		return tree_fd;
	if (state_take_disk(tree_fd, e) < 0 ||
	    (b->boots && state_forget(tree_fd, e) < 0))
		return -e->code;
	fd = openat(tree_fd, STATE_DISK, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		return take_fd(&fd);
	if (errno != ENOENT || b->spec.from[0])
		return err_sys(e, "open the disk");
	fd = openat(tree_fd, "disk.new",
		    O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, "make the disk");
	if (fill_disk(b, fd, e) < 0)
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

static int base_start(struct box *b, struct err *e)
{
	AUTO_CLOSE int fd = vm_base_open(b->w, b->spec.image, e);

	if (fd >= 0)
		return 0;
	if (fd != -ENOENT)
		return fd;
	err_clear(e);
	if (vm_base_wait(b->w, b->spec.image, &b->base, e) < 0)
		return -e->code;
	b->basing = true;
	return 0;
}

int vm_base_start(struct box *b, struct err *e)
{
	int r = TEMPLATE_NONE;

	b->base.done = on_base;
	if (!b->makes && !(b->spec.flags & LAUNCH_LOOK))
		r = b->spec.from[0] ? vm_state_wait(b, e) : template_wait(b, e);
	if (r < 0)
		return r;
	b->boots = r == TEMPLATE_NONE;
	if (b->boots)
		b->template[0] = '\0';
	b->basing = r == TEMPLATE_WAIT;
	return b->boots ? base_start(b, e) : 0;
}

static int make_socket(int dir_fd, const char *name, int *fd, struct err *e)
{
	char file[32];

	snprintf(file, sizeof(file), "%s.sock", name);
	*fd = unix_listen_at(dir_fd, file, SOCK_STREAM, 0600);
	return *fd < 0 ? err_set(e, -*fd, "%s: %s", file, strerror(-*fd)) : 0;
}

/* Lines of the guest: sockets in the run directory, so that they are found
 * again after a restart. The agent's is there. */
static int make_ports(struct box *b, int dir_fd, struct vm_files *f,
		      struct err *e)
{
	static const char *const names[GUEST_PORTS] = GUEST_PORT_NAMES;
	int i;

	f->port_fd[GUEST_PORT_AGENT] = take_fd(&b->listen_fd);
	for (i = GUEST_PORT_AGENT + 1; i < GUEST_PORTS; i++)
		if (make_socket(dir_fd, names[i], &f->port_fd[i], e) < 0)
			return -e->code;
	return make_socket(dir_fd, "qmp", &f->qmp_fd, e);
}

static int open_memory(struct box *b, struct vm_files *f, struct err *e)
{
	if (f->mode == VM_RESTORE)
		return template_take(b, f, e);
	f->ram_fd = vm_memory_new(vm_ram_bytes(&b->spec), e);
	if (f->ram_fd < 0)
		return f->ram_fd;
	if (f->mode == VM_BOOT)
		return vm_memory_seal(f->ram_fd, e);
	b->vm->ram_fd = fcntl(f->ram_fd, F_DUPFD_CLOEXEC, 0);
	return b->vm->ram_fd < 0 ? err_sys(e, "keep memory") : 0;
}

/* For the next warden. */
static int note_template(const struct box *b, int dir_fd, struct err *e)
{
	const struct vm_host h = vm_host_of(b);
	char key[ID_CAP];

	vm_key(&h, &b->spec, key);
	if ((*b->template && symlinkat(b->template, dir_fd, TEMPLATE) < 0) ||
	    symlinkat(key, dir_fd, SHAPE) < 0)
		return err_sys(e, "note the template");
	return 0;
}

void vm_shape_of(const struct box *b, int run_fd, char key[ID_CAP])
{
	char text[ID_CAP] = "";

	if (readlinkat(run_fd, SHAPE, text, sizeof(text) - 1) == ID_LEN &&
	    id_valid(text))
		memcpy(key, text, sizeof(text));
	else
		vm_key(&b->w->vm, &b->spec, key);
}

static void files_close(struct vm_files *f)
{
	int i;

	auto_close(&f->base_fd);
	auto_close(&f->disk_fd);
	auto_close(&f->ram_fd);
	auto_close(&f->console_fd);
	auto_close(&f->qmp_fd);
	for (i = 0; i < GUEST_PORTS; i++)
		auto_close(&f->port_fd[i]);
}

static int files_open(struct box *b, struct vm_files *f, struct err *e)
{
	AUTO_CLOSE int dir_fd = openat(b->w->box_fd, b->spec.id,
				       O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir_fd < 0)
		return err_sys(e, "open run directory");
	if (open_memory(b, f, e) < 0 || note_template(b, dir_fd, e) < 0)
		return -e->code;
	f->base_fd = vm_base_open(b->w, b->spec.image, e);
	if (f->base_fd < 0)
		return f->base_fd;
	f->disk_fd = open_disk(b, e);
	if (f->disk_fd < 0)
		return f->disk_fd;
	f->console_fd = console_open(b->vm, dir_fd, e);
	if (f->console_fd < 0)
		return f->console_fd;
	return make_ports(b, dir_fd, f, e);
}

int vm_go(struct box *b, struct err *e)
{
	struct vm_files f = { .mode = b->makes   ? VM_TEMPLATE
				      : b->boots ? VM_BOOT
						 : VM_RESTORE,
			      .base_fd = -1,
			      .disk_fd = -1,
			      .ram_fd = -1,
			      .console_fd = -1,
			      .qmp_fd = -1 };
	struct vm_started s = { .talk_fd = -1 };
	const struct vm_host h = vm_host_of(b);
	struct launch_spec told = b->spec;
	int r;

	memset(f.port_fd, -1, sizeof(f.port_fd)); /* each is -1 */
	vm_new(b)->mode = f.mode;
	if (b->makes)
		told.flags = template_flags(b->makes);
	r = files_open(b, &f, e);
	if (r == 0)
		r = vm_start(&h, &told, &b->part, &f, &s, e);
	files_close(&f);
	if (r < 0) {
		auto_close(&s.talk_fd);
		return r;
	}
	return box_begun(b, s.pid, s.pid_fd, s.talk_fd, e);
}
