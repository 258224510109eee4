/*
 * From a client's request to a running child: its parts are joined, the user
 * is looked up, a terminal or pipes are made.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/environ.h"
#include "base/auto.h"
#include "base/clock.h"

/*
 * The terminal's slave side belongs to whoever opens the master: so that is
 * done with the user's file-system id. Ours is outside of the sandbox's map
 * and cannot be named to get it back; setreuid(-1, -1) does that.
 */
static int open_master(uid_t uid, struct err *e)
{
	struct open_how how = {
		.flags = O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK,
		.resolve = RESOLVE_NO_SYMLINKS,
	};
	AUTO_CLOSE int fd = -1;
	struct stat st;

	setfsuid(uid);
	fd = (int)syscall(SYS_openat2, AT_FDCWD, "/dev/pts/ptmx", &how,
			  sizeof(how));
	/* The sandbox's /dev/pts has a maximum. */
	if (fd < 0 && errno == ENOSPC)
		err_set(e, EMFILE,
			"all terminals of this sandbox are in use: close one, "
			"or start the command without a terminal");
	else if (fd < 0)
		err_sys(e, "open a terminal (/dev/pts/ptmx)");
	/* A change of ids may have made us dumpable again. */
	if ((setreuid((uid_t)-1, (uid_t)-1) < 0 ||
	     prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) &&
	    e->code == 0)
		err_sys(e, "take the agent's id back");
	if (e->code)
		return -e->code;
	if (fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode) ||
	    st.st_rdev != makedev(5, 2))
		return err_set(e, ENODEV, "/dev/pts/ptmx is no terminal");
	return take_fd(&fd);
}

static int open_pty(struct proc *p, const struct spawn *s, uid_t uid,
		    int *slave, struct err *e)
{
	struct winsize size = { .ws_row = s->rows ? s->rows : 24,
				.ws_col = s->cols ? s->cols : 80 };
	int unlocked = 0, r;

	r = open_master(uid, e);
	if (r < 0)
		return r;
	p->pty = true;
	p->out[0].io.fd = r;
	if (ioctl(r, TIOCSPTLCK, &unlocked) < 0 ||
	    ioctl(r, TIOCSWINSZ, &size) < 0)
		return err_sys(e, "set up a terminal");
	*slave = ioctl(r, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (*slave < 0)
		return err_sys(e, "open the terminal's other side");
	/* A second descriptor, so that both directions can be watched. */
	p->in.io.fd = fcntl(r, F_DUPFD_CLOEXEC, 3);
	return p->in.io.fd < 0 ? err_sys(e, "duplicate a terminal") : 0;
}

/* Ours does not block, the child's does. */
static int open_pipe(int *ours, int *theirs, int ours_is, struct err *e)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	*ours = ends[ours_is];
	*theirs = ends[1 - ours_is];
	if (fcntl(*ours, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "set up a pipe");
	return 0;
}

static int open_pipes(struct proc *p, const struct spawn *s, int fds[3],
		      struct err *e)
{
	int r = 0, i;

	if (s->flags & SPAWN_STDIN)
		r = open_pipe(&p->in.io.fd, &fds[0], 1, e);
	for (i = 0; i < 2 && r == 0; i++)
		r = open_pipe(&p->out[i].io.fd, &fds[i + 1], 0, e);
	return r;
}

static pid_t start_new(struct proc *p, const struct spawn *s, struct plan *plan,
		       struct err *e)
{
	struct environment env;
	int r = environment_make(&env, s, &plan->user, p->pty, e);
	pid_t pid;

	if (r < 0)
		return r;
	plan->env = env.v;
	pid = child_start(plan, &p->status.fd, e);
	environment_done(&env);
	return pid;
}

static int proc_fork(struct proc *p, const struct spawn *s,
		     const struct buf *request, struct plan *plan,
		     struct err *e)
{
	int r;

	p->pid = spare_use(p->agent, plan, request, &p->status.fd);
	if (p->pid == 0)
		p->pid = start_new(p, s, plan, e);
	if (p->pid < 0)
		return p->pid;
	r = proc_watch(p, e);
	if (r < 0)
		kill(p->pid, SIGKILL);
	return r;
}

static int find_builtin(const struct spawn *s, struct plan *plan, struct err *e)
{
	if (!(s->flags & SPAWN_BUILTIN))
		return 0;
	plan->builtin = builtin_find(s->argv[0]);
	if (!plan->builtin)
		return err_set(e, ENOENT, "the agent has no builtin %.64s",
			       s->argv[0]);
	return 0;
}

/*
 * Who it runs as. What is only for the host needs no user, and no file of the
 * sandbox that says who root is; `own` is its confinement.
 */
static int find_user(const struct spawn *s, struct plan *plan,
		     struct confine *own, struct err *e)
{
	if (!plan->builtin || !plan->builtin->apart)
		return user_find(s->user, &plan->user, e);
	*own = *plan->confine;
	own->into_fd = own->join_fd = -1;
	own->sudo = true;
	plan->confine = own;
	plan->user = (struct user){ .name = "root", .home = "/" };
	return 0;
}

/* What `ps` says of it. */
static void describe(struct proc *p, const struct spawn *s,
		     const struct user *u)
{
	struct buf b = { 0 };
	size_t i, n;

	for (i = 0; i < s->argc && buf_len(&b) <= PS_ARGS_MAX; i++) {
		n = strlen(s->argv[i]) + 1;
		buf_add(&b, s->argv[i], n <= PS_ARGS_MAX ? n : PS_ARGS_MAX);
	}
	p->args_cut = i < s->argc || buf_len(&b) > PS_ARGS_MAX;
	p->args_len = p->args_cut ? PS_ARGS_MAX : buf_len(&b);
	p->args = xrealloc(buf_data(&b), p->args_len);
	memcpy(p->user, u->name, sizeof(p->user));
	memcpy(p->tag, s->tag, strlen(s->tag) + 1);
	p->started_ms = clock_wall_ms();
	p->builtin = s->flags & SPAWN_BUILTIN;
}

static int proc_start(struct proc *p, const struct spawn *s,
		      const struct buf *request, struct err *e)
{
	struct agent *a = p->agent;
	struct plan plan = {
		.confine = &a->confine,
		.argv = (char **)s->argv,
		.cwd = s->cwd,
		.cwd_fd = -1,
		.fds = { a->null_fd, a->null_fd, a->null_fd },
	};
	struct confine own;
	int i, r;

	r = find_builtin(s, &plan, e);
	if (r == 0)
		r = find_user(s, &plan, &own, e);
	if (r < 0)
		return r;
	describe(p, s, &plan.user);
	if (s->flags & SPAWN_PTY) {
		int slave = -1;

		r = open_pty(p, s, plan.user.uid, &slave, e);
		plan.tty = true;
		if (slave >= 0)
			for (i = 0; i < 3; i++)
				plan.fds[i] = slave;
	} else {
		r = open_pipes(p, s, plan.fds, e);
	}
	if (r == 0)
		r = proc_fork(p, s, request, &plan, e);
	for (i = 0; i < 3; i++)
		if (plan.fds[i] != a->null_fd && (i == 0 || !plan.tty))
			close(plan.fds[i]);
	return r;
}

static int check_tag(struct agent *a, const struct spawn *s, struct err *e)
{
	const struct proc *p = *s->tag ? proc_find(a, 0, s->tag) : NULL;

	if (p && !(s->flags & SPAWN_BUILTIN))
		return err_set(e, EEXIST, "process %u has the tag %s",
			       p->number, s->tag);
	return 0;
}

static int chan_start(struct chan *c, const struct spawn *s, struct err *e)
{
	struct agent *a = c->agent;
	struct proc *p;
	int r = check_tag(a, s, e);

	if (r < 0)
		return r;
	p = proc_new(a);
	r = proc_start(p, s, &c->request, e);
	if (r < 0) {
		proc_drop(p);
		return r;
	}
	c->mute = s->flags & SPAWN_DETACHED;
	chan_join(c, p);
	return 0;
}

static void spawn_asked(struct chan *c)
{
	struct agent *a = c->agent;
	struct err e = { 0 };
	struct spawn s = { 0 };
	int r;

	if (a->n_chans > CHANNELS_MAX || a->n_procs >= PROCS_MAX)
		r = err_set(&e, EAGAIN,
			    "%u processes are being run already; wait for one "
			    "of them to end",
			    a->n_procs);
	else if (spawn_get(buf_data(&c->request), buf_len(&c->request), &s) < 0)
		r = err_set(&e, EINVAL, "the request is malformed");
	else
		r = chan_start(c, &s, &e);
	spawn_done(&s);
	buf_done(&c->request);
	if (r < 0)
		chan_fail(c, &e);
}

/* Requests that have not come to their end yet. */
static size_t asked_bytes(const struct agent *a)
{
	struct list *pos, *tmp;
	size_t n = 0;

	list_each (pos, tmp, &a->chans)
		n += buf_len(&container_of(pos, struct chan, node)->request);
	return n;
}

int spawn_ask(struct agent *a, struct chan *c, const struct frame *f)
{
	if (!c) {
		if (a->n_chans >= CHANS_MAX)
			return -EBADMSG;
		c = chan_new(a, f->channel);
	}
	if (f->len > SPAWN_MAX - buf_len(&c->request))
		return -EBADMSG;
	if (f->flags & FRAME_MORE && asked_bytes(a) > ASKED_MAX)
		return -EBADMSG;
	buf_add(&c->request, f->payload, f->len);
	if (!(f->flags & FRAME_MORE))
		spawn_asked(c);
	return 0;
}
