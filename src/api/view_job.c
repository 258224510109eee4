#include "api/view_job.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "base/auto.h"
#include "base/fd.h"

enum { READ_MAX = 256 * 1024 };

void view_job_stop(struct view_job *v)
{
	struct loop *l;

	if (!v->busy)
		return;
	l = &v->api->loop;
	v->busy = false;
	warden_cancel(&v->call);
	timer_del(l, &v->again);
	io_close(l, &v->ask);
	io_close(l, &v->words);
	buf_done(&v->out);
	buf_done(&v->in);
	list_del(&v->node);
}

static void end(struct view_job *v, const struct err *e)
{
	view_job_stop(v);
	v->ops->ended(v, e);
}

static void end_broken(struct view_job *v, const char *why)
{
	struct err e = { 0 };

	log_warn("view=%u its worker %s, ending it", v->call.req.view.work,
		 why);
	err_set(&e, EIO, "the worker that looks at the disks %s", why);
	end(v, &e);
}

/* False: the job is over. */
static bool take(struct view_job *v, const struct view_record *r)
{
	const struct err none = { 0 };
	struct err e;

	switch (r->kind) {
	case VIEW_CHANGE:
	case VIEW_STEP:
	case VIEW_DATA:
	case VIEW_SPACED:
	case VIEW_SUM:
		break;
	case VIEW_PROGRESS:
		if (v->ops->progress)
			v->ops->progress(v, r);
		return true;
	case VIEW_DONE:
		end(v, &none);
		return false;
	case VIEW_ERROR:
		e = r->err; /* it is in the buffer that goes */
		end(v, &e);
		return false;
	case VIEW_KINDS:
	default:
		end_broken(v, "said something unknown");
		return false;
	}
	switch (v->ops->record(v, r)) {
	case VIEW_HOLD:
		v->held = true;
		break;
	case VIEW_OVER:
		return false;
	case VIEW_GO_ON:
	default:
		break;
	}
	return true;
}

/* Gives on what is there; false: it is over. */
static bool drain(struct view_job *v)
{
	struct view_record r;
	int n = 0;

	while (!v->held && (n = view_record_get(&v->in, &r)) > 0) {
		if (!take(v, &r))
			return false;
		buf_eat(&v->in, (size_t)n);
	}
	if (n < 0) {
		end_broken(v, "broke the protocol");
		return false;
	}
	return true;
}

static void on_words(struct io *io, uint32_t events);

/* What was held is given on, and then what comes. */
static void go_on(struct view_job *v)
{
	struct loop *l = &v->api->loop;

	if (!drain(v))
		return;
	if (v->held)
		io_del(l, &v->words);
	else if (!v->words.armed &&
		 io_add(l, &v->words, v->words.fd, EPOLLIN, on_words) < 0)
		end_broken(v, "cannot be watched");
}

static void on_again(struct timer *t)
{
	go_on(container_of(t, struct view_job, again));
}

void view_job_resume(struct view_job *v)
{
	if (!v->busy || !v->held)
		return;
	v->held = false;
	timer_set(&v->api->loop, &v->again, 0, on_again);
}

static void on_words(struct io *io, uint32_t events)
{
	struct view_job *v = container_of(io, struct view_job, words);
	ssize_t n = buf_read(&v->in, io->fd, READ_MAX);

	(void)events;
	if (n == -EAGAIN)
		return;
	if (n <= 0)
		end_broken(v, "ended too early");
	else
		go_on(v);
}

static void on_ask(struct io *io, uint32_t events)
{
	struct view_job *v = container_of(io, struct view_job, ask);
	ssize_t n = buf_write(&v->out, io->fd);

	(void)events;
	if (n == -EAGAIN)
		return;
	/* One that does not listen says why in its records, or ends. */
	if (n < 0 || buf_len(&v->out) == 0)
		io_close(&v->api->loop, io);
}

static void on_view(struct warden_call *c, const struct warden_rep *rep,
		    int fds[FD_PASS_MAX])
{
	struct view_job *v = container_of(c, struct view_job, call);
	struct err e = rep->err;
	int r;

	if (e.code == 0) {
		v->ask.events = EPOLLOUT;
		v->ask.fn = on_ask;
		v->words.fn = on_words;
		r = worker_pipes(&v->api->loop, fds, &v->ask, &v->words);
		if (r < 0)
			err_set(&e, -r, "watch the worker: %s", strerror(-r));
	}
	if (e.code)
		end(v, &e);
}

static int check_room(struct api *a, const char *project, struct err *e)
{
	unsigned n = 0, own = 0;
	struct list *pos, *tmp;

	list_each (pos, tmp, &a->views) {
		struct view_job *v = container_of(pos, struct view_job, node);

		if (v->inner)
			continue;
		n++;
		own += strcmp(v->project, project) == 0;
	}
	if (n >= VIEWS_MAX || own >= VIEWS_PROJECT_MAX)
		return err_set(e, EMFILE,
			       "%u comparisons, merges or exports are under "
			       "way: try again later",
			       n >= VIEWS_MAX ? n : own);
	return 0;
}

/* All but who is asked. */
static void begin(struct view_job *v, struct api *a, const char *project,
		  const struct view_ops *ops)
{
	memset(&v->call, 0, sizeof(v->call));
	v->api = a;
	v->ops = ops;
	v->ask.fd = v->words.fd = -1;
	v->held = false;
	memcpy(v->project, project, strnlen(project, NAME_CAP - 1) + 1);
	v->project[NAME_CAP - 1] = '\0';
	v->busy = true;
	list_add(&a->views, &v->node);
}

int view_job_hear(struct view_job *v, struct api *a, const char *project,
		  int fd, const struct view_ops *ops, struct err *e)
{
	int r;

	begin(v, a, project, ops);
	v->inner = true;
	r = io_add(&a->loop, &v->words, fd, EPOLLIN, on_words);
	if (r == 0)
		return 0;
	v->words.fd = -1;
	close(fd);
	view_job_stop(v);
	return err_set(e, -r, "watch who looks at a disk: %s", strerror(-r));
}

int view_job_start(struct view_job *v, struct api *a, const char *project,
		   const struct view_question *q, const struct view_ops *ops,
		   struct err *e)
{
	struct view_spec *s = &v->call.req.view;
	int i, r = q->inner ? 0 : check_room(a, project, e);

	if (r < 0)
		return r;
	begin(v, a, project, ops);
	v->inner = q->inner;
	v->call.req.op = WARDEN_VIEW;
	s->work = q->work;
	for (i = 0; i < VIEW_SIDES; i++)
		if (q->side[i])
			s->side[i] = *q->side[i];
	view_ask_put(&v->out, q->flags, q->paths, q->n_paths);
	warden_ask(&a->warden, &v->call, on_view);
	return 0;
}
