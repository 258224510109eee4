/*
 * Templates: a machine of each shape is booted once, and every other one of
 * that shape starts as it. The boot is a sandbox like any other that nobody
 * hears of; when its guest is ready it stands still, and disk, devices and
 * memory go into the pool. Machines map the memory privately, from a sealed
 * file that is filled once in our life, and let go when nobody needed it for
 * a while.
 *
 *	(asked for) --boot--> saved --load--> ready
 *
 * Snapshots of machines have their own copy of what they started with. When
 * that is of no template that is there, it is loaded from the snapshot, and
 * stays in memory as that of a template does; the pool has nothing of it.
 *
 * The oldest go when there are too many, and those of an image go with it.
 * What runs from a template keeps it: its own snapshots are made of what
 * differs from there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "sandbox/vm/qmp.h"
#include "sandbox/vm/shape.h"
#include "sandbox/vm/state.h"
#include "sandbox/vm/written.h"
#include "store/share.h"
#include "warden/vm.h"

enum {
	TEMPLATES_MAX = 16,
	BOOTS_MAX = 2,
	IDLE_MS = 10 * 60 * 1000,
};

struct template
{
	struct list node;
	struct warden *w;
	char key[ID_CAP], image[ID_CAP];
	uint64_t used_s;
	bool saved;
	struct launch_spec shape; /* of who asked first */
	struct box *boot;         /* the machine that becomes one */
	int tree_fd;              /* where to, while it boots */
	int file_fd; /* what a snapshot's machine started with; -1: none */
	bool made;
	int ram_fd; /* its memory, sealed; -1: not loaded */
	struct job job;
	bool loading;
	struct err result; /* is told in a moment */
	struct timer tell, idle;
	struct list waits;
	struct deferred gone;
};

static struct template *find(const struct warden *w, const char *key)
{
	struct list *pos;

	for (pos = w->templates.next; pos != &w->templates; pos = pos->next) {
		struct template *t = container_of(pos, struct template, node);

		if (strcmp(t->key, key) == 0)
			return t;
	}
	return NULL;
}

static struct template *template_new(struct warden *w, const char *key,
				     const char *image)
{
	struct template *t = xcalloc(1, sizeof(*t));

	t->w = w;
	snprintf(t->key, sizeof(t->key), "%s", key);
	snprintf(t->image, sizeof(t->image), "%s", image);
	t->tree_fd = t->file_fd = t->ram_fd = -1;
	list_init(&t->waits);
	list_add(&w->templates, &t->node);
	return t;
}

static void template_free(struct deferred *d)
{
	free(container_of(d, struct template, gone));
}

static bool is_busy(const struct template *t)
{
	return t->boot || t->loading || t->tell.slot != 0;
}

/* Not busy. It may still be in the pool. */
static void forget(struct template *t)
{
	auto_close(&t->ram_fd);
	auto_close(&t->file_fd);
	timer_del(&t->w->loop, &t->idle);
	list_del(&t->node);
	loop_defer(&t->w->loop, &t->gone, template_free);
}

static void discard(struct template *t, const char *why)
{
	struct err e = { 0 };

	log_info("template=%s image=%s dropped: %s", t->key, t->image, why);
	if (store_template_discard(&t->w->store, t->key, &e) < 0 &&
	    e.code != ENOENT)
		log_warn("template=%s %s", t->key, e.msg);
	sweep_soon(t->w);
	forget(t);
}

/* --- which are kept --- */

/* Who waits for it does not run yet. */
static bool runs_from(const struct warden *w, const char *key)
{
	struct list *pos, *tmp;
	size_t i;

	for (i = 0; i < BOX_BUCKETS; i++)
		list_each (pos, tmp, &w->boxes[i]) {
			const struct box *b =
				container_of(pos, struct box, node);

			if (!b->basing && strcmp(b->template, key) == 0)
				return true;
		}
	return false;
}

static bool may_go(struct template *t)
{
	return !is_busy(t) && !runs_from(t->w, t->key);
}

static struct template *oldest(struct warden *w, unsigned *n)
{
	struct template *best = NULL;
	struct list *pos, *tmp;

	*n = 0;
	list_each (pos, tmp, &w->templates) {
		struct template *t = container_of(pos, struct template, node);

		if (t->file_fd >= 0)
			continue;
		++*n;
		if (may_go(t) && (!best || t->used_s < best->used_s))
			best = t;
	}
	return best;
}

/* For one more. */
static bool make_room(struct warden *w)
{
	unsigned n;
	struct template *t = oldest(w, &n);

	if (n >= TEMPLATES_MAX && t) {
		discard(t, "it is the one not used for longest");
		n--;
	}
	return n < TEMPLATES_MAX;
}

void templates_drop_image(struct warden *w, const char *image)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, &w->templates) {
		struct template *t = container_of(pos, struct template, node);

		if (strcmp(t->image, image) == 0 && !is_busy(t))
			discard(t, "its image was removed");
	}
}

bool template_uses_image(const struct warden *w, const char *image)
{
	struct list *pos;

	for (pos = w->templates.next; pos != &w->templates; pos = pos->next) {
		const struct template *t =
			container_of(pos, struct template, node);

		if (strcmp(t->image, image) == 0 && is_busy(t))
			return true;
	}
	return false;
}

/* --- what is in the pool --- */

/* "IMAGE PRINT" */
static void of_text(const struct template *t, char of[STORE_OF_CAP])
{
	char print[VM_PRINT_TEXT];

	vm_print(&t->w->vm, print);
	snprintf(of, STORE_OF_CAP, "%s %s", t->image, print);
}

static void take_saved(struct warden *w, const struct store_template *s)
{
	char image[ID_CAP], of[STORE_OF_CAP];
	struct template *t;

	snprintf(image, sizeof(image), "%.*s", ID_LEN, s->of);
	t = template_new(w, s->key, image);
	t->saved = true;
	t->used_s = s->used_s;
	of_text(t, of);
	/* Another QEMU or kernel is installed: nobody will ask for it. */
	if (strcmp(of, s->of) != 0 && may_go(t))
		discard(t, "it is of another host than this is now");
}

void templates_open(struct warden *w)
{
	struct store_template s = { .key = "" };
	int r;

	if (w->vm_missing.code)
		return;
	while ((r = store_template_next(&w->store, s.key, &s)) == 0)
		take_saved(w, &s);
	/* A template that is not listed is made again when it is needed. */
	if (r != -ENOENT)
		log_err("list the templates: %s", strerror(-r));
}

/* --- the end of it --- */

static void tell(struct timer *timer)
{
	struct template *t = container_of(timer, struct template, tell);
	struct list waits;

	if (t->result.code)
		log_warn("template=%s image=%s %s", t->key, t->image,
			 t->result.msg);
	/* What runs from it needs it for its snapshots. */
	if (t->result.code && (!t->saved || !runs_from(t->w, t->key)))
		discard(t, "it could not be made, or loaded");
	/* Who hears it may ask for another one. */
	list_init(&waits);
	while (!list_empty(&t->waits)) {
		struct list *n = t->waits.next;

		list_del(n);
		list_add(&waits, n);
	}
	while (!list_empty(&waits)) {
		struct base_wait *wait =
			container_of(waits.next, struct base_wait, node);

		list_del(&wait->node);
		wait->done(wait, &t->result);
	}
}

/* Never while somebody is being added to those who wait. */
static void finish(struct template *t, const struct err *e)
{
	t->result = *e;
	timer_set(&t->w->loop, &t->tell, 1, tell);
}

/* --- loading --- */

int template_memory(struct warden *w, const char *key, struct err *e)
{
	AUTO_CLOSE int tree_fd = store_template_open(&w->store, key, e);
	int fd;

	if (tree_fd < 0)
		return tree_fd;
	fd = openat(tree_fd, "ram", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open the memory of template %s", key) : fd;
}

static int load_work(struct job *j, struct err *e)
{
	const struct template *t = container_of(j, struct template, job);
	AUTO_CLOSE int fd = -1;

	if (t->file_fd >= 0)
		return file_copy(t->file_fd, t->ram_fd, e);
	fd = template_memory(j->w, t->key, e);
	return fd < 0 ? fd : file_copy(fd, t->ram_fd, e);
}

static void unload(struct timer *timer)
{
	struct template *t = container_of(timer, struct template, idle);

	if (is_busy(t))
		timer_set(&t->w->loop, timer, IDLE_MS, unload);
	else if (t->file_fd >= 0)
		forget(t);
	else
		auto_close(&t->ram_fd);
}

static void load_done(struct job *j, const struct err *result)
{
	struct template *t = container_of(j, struct template, job);
	struct err e = *result;

	t->loading = false;
	if (e.code || vm_memory_seal(t->ram_fd, &e) < 0)
		auto_close(&t->ram_fd);
	else
		timer_set(&t->w->loop, &t->idle, IDLE_MS, unload);
	finish(t, &e);
}

static int load(struct template *t, struct err *e)
{
	t->ram_fd = vm_memory_new(0, e);
	if (t->ram_fd < 0)
		return t->ram_fd;
	t->job = (struct job){ .w = t->w,
			       .work = load_work,
			       .done = load_done,
			       .urgent = true,
			       .said.fd = -1,
			       .pid_fd = -1 };
	if (job_start(&t->job, e) < 0) {
		auto_close(&t->ram_fd);
		return -e->code;
	}
	t->loading = true;
	return 0;
}

/* --- booting --- */

static int new_file(int tree_fd, const char *name, struct err *e)
{
	int fd = openat(tree_fd, name,
			O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			0600);

	return fd < 0 ? err_sys(e, "make %s", name) : fd;
}

static int save_devices(const struct template *t, const char *box,
			struct err *e)
{
	AUTO_CLOSE int fd = vm_qmp_connect(t->w, box, e), file_fd = -1;
	struct qmp q;

	if (fd < 0 || qmp_open(&q, fd, VM_QMP_MS, e) < 0 ||
	    qmp_run(&q, "stop", NULL, e) < 0)
		return -e->code;
	file_fd = new_file(t->tree_fd, "devices", e);
	if (file_fd < 0)
		return file_fd;
	return qmp_save_devices(&q, file_fd, e);
}

static int save_disk(const struct template *t, const char *box, struct err *e)
{
	AUTO_CLOSE int volume_fd = store_volume_open(&t->w->store, box, e);
	AUTO_CLOSE int from_fd = -1, to_fd = -1;

	if (volume_fd < 0)
		return volume_fd;
	from_fd = openat(volume_fd, "disk", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (from_fd < 0)
		return err_sys(e, "open the disk");
	to_fd = new_file(t->tree_fd, "disk", e);
	return to_fd < 0 ? to_fd : file_share(from_fd, to_fd, e);
}

static int save_memory(const struct template *t, int ram_fd, struct err *e)
{
	AUTO_CLOSE int fd = new_file(t->tree_fd, "ram", e);

	return fd < 0 ? fd : file_copy(ram_fd, fd, e);
}

static int save(struct template *t, const struct template_of *of, struct err *e)
{
	if (save_devices(t, of->box, e) < 0 || save_disk(t, of->box, e) < 0 ||
	    save_memory(t, of->ram_fd, e) < 0)
		return -e->code;
	return 0;
}

/* From when it has booted; how fast it is, is seen on the way. */
static int hold(const struct template *t, struct template_of *of,
		struct control_line *line, struct err *e)
{
	if (control_ask(line, VM_BOOT_MS, e) < 0 ||
	    written_loaded(of->process_fd, e) < 0)
		return -e->code;
	if (speed_wanted(t->w))
		of->slow_tenths = speed_measure(line);
	return control_hold(line, VM_WAKE_MS, e);
}

int template_save(struct template *t, struct template_of *of, struct err *e)
{
	struct control_line line;
	char text[STORE_OF_CAP];
	int r;

	if (control_open(&line, t->w->box_fd, of->box, e) < 0)
		return -e->code;
	r = hold(t, of, &line, e);
	if (r == 0)
		r = save(t, of, e);
	/* Not before: that a line was closed is told in the guest's memory. */
	control_close(&line);
	if (r < 0)
		return r;
	of_text(t, text);
	return store_template_commit(&t->w->store, t->key, text, e);
}

void template_saved(struct template *t)
{
	t->made = true;
}

void template_boot_ended(struct template *t, const struct err *failure)
{
	struct err e = *failure;

	t->boot = NULL;
	auto_close(&t->tree_fd);
	if (t->made) {
		log_info("template=%s image=%s event=template_made", t->key,
			 t->image);
		t->saved = true;
		err_clear(&e);
		if (load(t, &e) == 0)
			return;
	} else if (e.code == 0) {
		err_set(&e, ECANCELED, "template %s was not wanted any more",
			t->key);
	} else {
		err_wrap(&e, "prepare a machine to start others as");
	}
	finish(t, &e);
}

uint32_t template_flags(const struct template *t)
{
	return t->shape.flags;
}

/* Its spec on this host: nothing of it is to stay. */
static int boot_spec(const struct template *t, struct launch_spec *s,
		     struct err *e)
{
	*s = t->shape;
	s->flags &= (uint32_t)~(LAUNCH_PERSIST | LAUNCH_EARLY);
	s->from[0] = '\0';
	memset(s->volumes, 0, sizeof(s->volumes));
	snprintf(s->hostname, sizeof(s->hostname), "template");
	return id_make(s->id) < 0 ? err_set(e, EIO, "no randomness") : 0;
}

static int boot(struct template *t, struct err *e)
{
	struct launch_spec s;

	if (boot_spec(t, &s, e) < 0)
		return -e->code;
	t->made = false;
	t->tree_fd = store_template_new(&t->w->store, t->key, e);
	if (t->tree_fd < 0)
		return t->tree_fd;
	log_info("template=%s image=%s sandbox=%s event=template_boots", t->key,
		 t->image, s.id);
	if (box_launch_template(t->w, &s, t, e) < 0) {
		auto_close(&t->tree_fd);
		return -e->code;
	}
	return 0;
}

void template_boots(struct template *t, struct box *b)
{
	t->boot = b;
}

static unsigned n_boots(const struct warden *w)
{
	struct list *pos;
	unsigned n = 0;

	for (pos = w->templates.next; pos != &w->templates; pos = pos->next)
		n += container_of(pos, struct template, node)->boot != NULL;
	return n;
}

/* --- who starts as one --- */

static int wait_for(struct template *t, struct base_wait *wait, struct err *e)
{
	bool there = t->saved || t->file_fd >= 0;
	int r = is_busy(t) ? 0 : there ? load(t, e) : boot(t, e);

	if (r < 0) {
		if (!t->saved)
			discard(t, "it could not be booted");
		return r;
	}
	list_add(&t->waits, &wait->node);
	return 0;
}

/* Then it stays so until who asked has come to use it. */
static bool is_ready(struct template *t)
{
	if (t->ram_fd < 0 || is_busy(t))
		return false;
	timer_set(&t->w->loop, &t->idle, IDLE_MS, unload);
	return true;
}

int template_wait(struct box *b, struct err *e)
{
	const struct launch_spec *s = &b->spec;
	const struct vm_host h = vm_host_of(b);
	struct warden *w = b->w;
	struct template *t;

	list_init(&b->base.node);
	vm_key(&h, s, b->template);
	t = find(w, b->template);
	if (t && is_ready(t))
		return TEMPLATE_READY;
	if (!t && !make_room(w))
		return TEMPLATE_NONE;
	if (!t && n_boots(w) >= BOOTS_MAX)
		return err_set(e, EAGAIN,
			       "%d kinds of machines are being prepared: try "
			       "again when one is done",
			       BOOTS_MAX);
	if (!t) {
		t = template_new(w, b->template, s->image);
		t->shape = *s;
	}
	if (wait_for(t, &b->base, e) < 0)
		return -e->code;
	return TEMPLATE_WAIT;
}

/* Is this what machines of the template start with? */
static bool is_memory_of(struct warden *w, const char *key, const char *name)
{
	struct err e = { 0 };
	AUTO_CLOSE int fd = template_memory(w, key, &e);
	char its[ID_CAP];

	return fd >= 0 && state_memory_name(fd, its, &e) == 0 &&
	       strcmp(its, name) == 0;
}

int template_wait_memory(struct box *b, int tree_fd, struct err *e)
{
	AUTO_CLOSE int fd = openat(tree_fd, STATE_MEMORY,
				   O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	const struct vm_host h = vm_host_of(b);
	struct warden *w = b->w;
	struct template *t;
	char name[ID_CAP];
	struct stat st;

	if (fd < 0)
		return err_sys(e, "open the memory of snapshot %s",
			       b->spec.from);
	if (fstat(fd, &st) < 0 ||
	    (uint64_t)st.st_size != vm_ram_bytes(&b->spec))
		return err_set(e, EPROTO,
			       "the memory of snapshot %s is of another size",
			       b->spec.from);
	if (state_memory_name(fd, name, e) < 0)
		return -e->code;
	vm_key(&h, &b->spec, b->template);
	/* One that is there: another one of its shape would not do. */
	if (find(w, b->template) && is_memory_of(w, b->template, name))
		return template_wait(b, e);
	list_init(&b->base.node);
	memcpy(b->template, name, sizeof(name));
	t = find(w, name);
	if (t && is_ready(t))
		return TEMPLATE_READY;
	if (!t) {
		t = template_new(w, name, b->spec.image);
		t->file_fd = take_fd(&fd);
	}
	if (wait_for(t, &b->base, e) < 0)
		return -e->code;
	return TEMPLATE_WAIT;
}

int template_take(struct box *b, struct vm_files *f, struct err *e)
{
	const char *key = b->template;
	struct template *t = find(b->w, key);
	char path[32];
	struct stat st;

	if (!t || t->ram_fd < 0)
		return err_set(e, ENOENT, "no template %s", key);
	if (fstat(t->ram_fd, &st) < 0 ||
	    (uint64_t)st.st_size != vm_ram_bytes(&b->spec))
		return err_set(e, EIO, "template %s has other memory", key);
	/* Opened anew: machines that share an open file share its offset and
	 * its flags. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", t->ram_fd);
	f->ram_fd = open(path, O_RDWR | O_CLOEXEC);
	if (f->ram_fd < 0)
		return err_sys(e, "the memory of template %s", key);
	t->used_s = (uint64_t)time(NULL);
	if (t->saved)
		store_template_use(&b->w->store, key);
	timer_set(&b->w->loop, &t->idle, IDLE_MS, unload);
	return 0;
}
