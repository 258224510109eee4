/*
 * Machines that go on: from a snapshot with their memory, and when somebody
 * who had them stand still is gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/log.h"
#include "sandbox/vm/shape.h"
#include "sandbox/vm/state.h"
#include "warden/vm.h"

struct state_of vm_state_of(const struct box *b, int tree_fd)
{
	return (struct state_of){
		.run_fd = -1,
		.tree_fd = tree_fd,
		.template_fd = -1,
		.process_fd = -1,
		.pid_fd = -1,
		.bytes = vm_ram_bytes(&b->spec),
		.id = b->spec.id,
		.hostname = b->spec.hostname,
	};
}

int vm_run_open(const struct box *b, struct err *e)
{
	int fd = openat(b->w->box_fd, b->spec.id,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_sys(e, "open its run directory") : fd;
}

int vm_state_drop(struct warden *w, const char *id, struct err *e)
{
	AUTO_CLOSE int tree_fd = store_volume_read(&w->store, id, e);

	if (tree_fd == -ENOENT) { /* half a volume */
		err_clear(e);
		return 0;
	}
	return tree_fd < 0 ? tree_fd : state_drop(tree_fd, e);
}

struct vm_host vm_host_of(const struct box *b)
{
	struct vm_host h = b->w->vm;

	if (b->emulated)
		h.kvm = false;
	return h;
}

int vm_process_open(const struct box *b, struct err *e)
{
	char name[16];
	int fd;

	snprintf(name, sizeof(name), "%d", (int)b->pid);
	fd = openat(b->w->launch.proc_fd, name,
		    O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "look at QEMU") : fd;
}

/* --- from a snapshot --- */

static bool has_key(const struct box *b, const struct state_shape *shape)
{
	const struct vm_host h = vm_host_of(b);
	char key[ID_CAP];

	vm_key(&h, &b->spec, key);
	return strcmp(key, shape->key) == 0;
}

/*
 * Another QEMU or kernel, or another size: only its disk is of use here. One
 * from before KVM was found to work goes on as it was: emulated, unless the
 * configuration wants none of those.
 */
static bool is_ours(struct box *b, const struct state_shape *shape)
{
	if (has_key(b, shape))
		return true;
	b->emulated = b->w->vm.kvm && strcmp(b->w->conf.microvm, "kvm") != 0;
	if (b->emulated && has_key(b, shape)) {
		b->spec.flags &= ~(uint32_t)LAUNCH_KVM;
		return true;
	}
	b->emulated = false;
	return false;
}

int vm_state_wait(struct box *b, struct err *e)
{
	AUTO_CLOSE int tree_fd =
		store_snapshot_open(&b->w->store, b->spec.from, e);
	struct state_shape shape;
	int r;

	if (tree_fd < 0)
		return tree_fd;
	r = state_shape(tree_fd, &shape, e);
	if (r == -ENOENT) {
		err_clear(e);
		return TEMPLATE_NONE;
	}
	if (r < 0)
		return r;
	if (!is_ours(b, &shape)) {
		log_warn("sandbox=%s snapshot=%s has the memory of another "
			 "machine: it starts anew from its disk",
			 b->spec.id, b->spec.from);
		return TEMPLATE_NONE;
	}
	b->goes_on = true;
	return template_wait_memory(b, tree_fd, e);
}

int vm_state_load(const struct box *b, int process_fd, struct err *e)
{
	AUTO_CLOSE int tree_fd = store_volume_read(&b->w->store, b->spec.id, e);
	AUTO_CLOSE int run_fd = -1;
	struct state_of of;

	if (tree_fd < 0)
		return tree_fd;
	run_fd = vm_run_open(b, e);
	if (run_fd < 0)
		return run_fd;
	of = vm_state_of(b, tree_fd);
	of.process_fd = process_fd;
	of.run_fd = run_fd;
	return state_load(&of, e);
}

/* --- whatever was done to it --- */

/* Takes its turn, so that nobody is at it who has it stand still; what fails is
 * tried again as long as it runs. */
struct wake {
	struct turn turn;
	struct job job;
	struct launch_spec spec;
	struct state_of of;
	struct timer again;
	struct deferred gone;
};

enum { AGAIN_MS = 1000 };

static void wake_free(struct deferred *d)
{
	struct wake *k = container_of(d, struct wake, gone);

	auto_close(&k->of.run_fd);
	free(k);
}

static int wake_work(struct job *j, struct err *e)
{
	const struct wake *k = container_of(j, struct wake, job);

	return state_go_on(&k->of, e);
}

static void wake_done(struct job *j, const struct err *e)
{
	turn_end(&container_of(j, struct wake, job)->turn, e);
}

static int wake_start(struct turn *t, struct err *e)
{
	struct wake *k = container_of(t, struct wake, turn);

	if (t->box->paused) { /* again, by then */
		turn_end(t, e);
		return 0;
	}
	return job_start(&k->job, e);
}

static void wake_again(struct timer *t)
{
	struct wake *k = container_of(t, struct wake, again);
	struct box *b = box_find(k->job.w, k->spec.id);

	if (b && b->state == BOX_RUNNING)
		vm_go_on(b);
	loop_defer(&k->job.w->loop, &k->gone, wake_free);
}

static void wake_over(struct turn *t, const struct err *e)
{
	struct wake *k = container_of(t, struct wake, turn);
	bool ended = !t->box;

	if (e->code && !ended) {
		log_warn("sandbox=%s does not go on: %s, trying again",
			 k->spec.id, e->msg);
		timer_set(&k->job.w->loop, &k->again, AGAIN_MS, wake_again);
		return;
	}
	loop_defer(&k->job.w->loop, &k->gone, wake_free);
}

void vm_go_on(struct box *b)
{
	struct wake *k = xcalloc(1, sizeof(*k));
	struct err e = { 0 };

	k->spec = b->spec;
	k->of = vm_state_of(b, -1);
	k->of.id = k->spec.id;
	k->of.hostname = k->spec.hostname;
	k->of.run_fd = vm_run_open(b, &e);
	k->job = (struct job){ .w = b->w,
			       .work = wake_work,
			       .done = wake_done,
			       .urgent = true,
			       .said.fd = -1,
			       .pid_fd = -1 };
	k->turn.start = wake_start;
	k->turn.over = wake_over;
	turn_take(b, &k->turn, NULL);
}
