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
		.box_fd = b->w->box_fd,
		.tree_fd = tree_fd,
		.template_fd = -1,
		.process_fd = -1,
		.bytes = vm_ram_bytes(&b->spec),
		.id = b->spec.id,
		.hostname = b->spec.hostname,
	};
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

/* Another QEMU or kernel, or another size: only its disk is of use here. */
static bool is_ours(const struct box *b, const struct state_shape *shape)
{
	char key[ID_CAP];

	vm_key(&b->w->vm, &b->spec, key);
	return strcmp(key, shape->key) == 0;
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
	struct state_of of;

	if (tree_fd < 0)
		return tree_fd;
	of = vm_state_of(b, tree_fd);
	of.process_fd = process_fd;
	return state_load(&of, e);
}

/* --- whatever was done to it --- */

struct wake {
	struct job job;
	struct launch_spec spec;
	struct state_of of;
	struct deferred gone;
};

static void wake_free(struct deferred *d)
{
	free(container_of(d, struct wake, gone));
}

static int wake_work(struct job *j, struct err *e)
{
	const struct wake *k = container_of(j, struct wake, job);

	return state_go_on(&k->of, e);
}

static void wake_done(struct job *j, const struct err *e)
{
	struct wake *k = container_of(j, struct wake, job);

	if (e->code)
		log_warn("sandbox=%s does not go on: %s", k->spec.id, e->msg);
	loop_defer(&j->w->loop, &k->gone, wake_free);
}

void vm_go_on(struct box *b)
{
	struct wake *k = xcalloc(1, sizeof(*k));
	struct err e = { 0 };

	k->spec = b->spec;
	k->of = vm_state_of(b, -1);
	k->of.id = k->spec.id;
	k->of.hostname = k->spec.hostname;
	k->job = (struct job){ .w = b->w,
			       .work = wake_work,
			       .done = wake_done,
			       .urgent = true,
			       .pid_io.fd = -1,
			       .err_fd = -1 };
	if (job_start(&k->job, &e) < 0) {
		log_err("sandbox=%s does not go on: %s", b->spec.id, e.msg);
		free(k);
	}
}
