/*
 * What the host asks of us, see wire/guest.h. The port signals whatever
 * happens to it (SIGIO), so it is looked at when a signal came: a port without
 * anybody at its other end is always ready to be read, for nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/work.h"
#include "guest/guest.h"
#include "sandbox/container/machine_id.h"
#include "store/store.h"

/* --- hold --- */

static int sync_disk(const struct guest *g, struct err *e)
{
	char path[96];
	AUTO_CLOSE int fd = -1;

	snprintf(path, sizeof(path), "/pool/" STORE_VOLUME_TREE, g->spec.id);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || syncfs(fd) < 0)
		return err_sys(e, "write out the disk");
	return 0;
}

static int write_out(struct guest *g, const struct guest_req *q, struct err *e)
{
	(void)q;
	return sync_disk(g, e);
}

static int hold(struct guest *g, const struct guest_req *q, struct err *e)
{
	struct err stays = { 0 };
	int r;

	(void)q;
	r = cgroup_freeze(g->group_fd, -1, e);
	if (r == 0)
		r = sync_disk(g, e);
	if (r < 0 && cgroup_thaw(g->group_fd, &stays) < 0)
		err_wrap(e, "it stands still for ever (%.40s)", stays.msg);
	return r;
}

/* --- wake --- */

static int take_seed(const struct guest_req *q, struct err *e)
{
	struct {
		int bits, bytes;
		uint8_t seed[GUEST_SEED];
	} more = { .bits = GUEST_SEED * 8, .bytes = GUEST_SEED };
	AUTO_CLOSE int fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);
	int r = 0;

	memcpy(more.seed, q->seed, sizeof(more.seed));
	/* The second has every processor's generator start anew. */
	if (fd < 0 || ioctl(fd, RNDADDENTROPY, &more) < 0 ||
	    ioctl(fd, RNDRESEEDCRNG) < 0)
		r = err_sys(e, "take randomness");
	explicit_bzero(&more, sizeof(more));
	return r;
}

static int set_clock(const struct guest_req *q, struct err *e)
{
	const struct timespec t = { (time_t)(q->time_ns / 1000000000),
				    (long)(q->time_ns % 1000000000) };

	return clock_settime(CLOCK_REALTIME, &t) < 0 ? err_sys(e, "set clock")
						     : 0;
}

/* Nobody looks at a name of our own, so there is no way back. */
static int set_name(const struct guest *g, const struct guest_req *q,
		    struct err *e)
{
	if (setns(g->box.pid_fd, CLONE_NEWUTS) < 0 ||
	    sethostname(q->hostname, strlen(q->hostname)) < 0)
		return err_sys(e, "set host name");
	return 0;
}

/* The file belongs to the sandbox's root, as a launch would have made it. */
static int set_machine_id(const struct guest *g, const struct guest_req *q,
			  struct err *e)
{
	char path[32];
	AUTO_CLOSE int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/root", (int)g->box.pid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open the sandbox's root");
	setfsgid(g->part.base);
	setfsuid(g->part.base);
	machine_id_set(fd, q->id);
	setfsuid(0);
	setfsgid(0);
	return 0;
}

static int wake(struct guest *g, const struct guest_req *q, struct err *e)
{
	if (q->zero != 0 || !id_valid(q->id) ||
	    !memchr(q->hostname, '\0', sizeof(q->hostname)) ||
	    !name_valid(q->hostname))
		return err_set(e, EINVAL, "no id or host name was told");
	if (take_seed(q, e) < 0 || set_clock(q, e) < 0 ||
	    set_name(g, q, e) < 0 || set_machine_id(g, q, e) < 0)
		return -e->code;
	return cgroup_thaw(g->group_fd, e);
}

/* --- the port --- */

static int ask(struct guest *g, const struct guest_req *q, struct err *e)
{
	(void)g;
	(void)q;
	(void)e;
	return 0;
}

static int do_work(struct guest *g, const struct guest_req *q, struct err *e)
{
	(void)g;
	(void)q;
	return work_do() == 0 ? err_set(e, EIO, "no work was done") : 0;
}

static int (*const table[GUEST_OPS])(struct guest *g, const struct guest_req *q,
				     struct err *e) = {
	[GUEST_ASK] = ask,        [GUEST_HOLD] = hold,    [GUEST_WAKE] = wake,
	[GUEST_SYNC] = write_out, [GUEST_WORK] = do_work,
};

/*
 * A request may be here before the word that somebody came, and then the port
 * takes nothing yet. That word is a signal, too. Who has gone meanwhile asks
 * again if need be, and knows an answer by its number.
 */
static void answer(struct guest *g)
{
	struct control *c = &g->control;

	if (c->unsaid)
		c->unsaid = write(g->port_fd[GUEST_PORT_CONTROL], &c->rep,
				  sizeof(c->rep)) < 0 &&
			    errno == EAGAIN;
}

static void serve(struct guest *g, const struct guest_req *q)
{
	struct err e = { 0 };

	if (q->magic != GUEST_MAGIC || q->version != GUEST_VERSION ||
	    q->op >= GUEST_OPS || !table[q->op])
		err_set(&e, EBADMSG, "not a request");
	else
		(void)table[q->op](g, q, &e);
	g->control.rep = (struct guest_rep){ .magic = GUEST_MAGIC,
					     .version = GUEST_VERSION,
					     .op = q->op,
					     .seq = q->seq,
					     .code = e.code };
	snprintf(g->control.rep.text, GUEST_TEXT, "%.*s", GUEST_TEXT - 1,
		 e.msg);
	g->control.unsaid = true;
	answer(g);
}

void control_look(struct guest *g)
{
	struct control *c = &g->control;
	int fd = g->port_fd[GUEST_PORT_CONTROL];
	char *at = (char *)&c->req;
	ssize_t n;

	answer(g);
	while ((n = read(fd, at + c->have, sizeof(c->req) - c->have)) > 0) {
		c->have += (size_t)n;
		if (c->have < sizeof(c->req))
			continue;
		c->have = 0;
		serve(g, &c->req);
		explicit_bzero(&c->req, sizeof(c->req));
	}
	if (n == 0) /* nobody is there: half a request is none */
		c->have = 0;
}

int control_start(struct guest *g, struct err *e)
{
	g->group_fd = cgroup_open(&g->cg, g->part.slot, e);
	return g->group_fd < 0 ? g->group_fd : 0;
}
