#include "api/move.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "api/api.h"
#include "api/audit.h"
#include "api/json_text.h"
#include "api/process.h"
#include "api/tiers.h"
#include "api/view_job.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"

enum {
	STILL_MS = 180 * 1000,    /* nothing moved for so long: it never will */
	LAY_MS = 4 * 3600 * 1000, /* and so for one that drips */
	MOVES_MAX = 4,            /* at once, and of one project */
	MOVES_PROJECT_MAX = 2,
	WORDS_MAX = FILE_NOTES_MAX * 1024,
	/* A machine that looks at a disk: names of directories are in its
	 * memory. */
	LOOK_PIDS = 64,
	LOOK_CPUS = 1000,
	LOOK_MEM = 384 << 20,
	TIER_CAP = sizeof(((struct spec *)NULL)->tier),
};

struct move {
	struct list node; /* in api.moves */
	struct api *api;
	struct move_client *client; /* or NULL */
	char id[ID_CAP];
	char from[TIER_CAP], to[TIER_CAP];
	struct identity who;
	char request_id[HTTP_REQUEST_ID];
	uint64_t began_ms;
	bool ran;                /* before */
	struct box_waiter step;  /* until it stands, then until it runs */
	struct warden_call call; /* about the host, then of the looker */
	/* While the disk is laid. */
	char looker[ID_CAP]; /* machine that looks at it, or "" */
	struct view_job view;
	struct process proc;
	bool fed;
	struct buf pending; /* input that was not taken */
	struct buf words, why;
	struct timer still, late;
	uint64_t entries, bytes;
	struct deferred gone;
};

/* --- its end --- */

static void move_free(struct deferred *d)
{
	struct move *m = container_of(d, struct move, gone);

	buf_done(&m->pending);
	buf_done(&m->words);
	buf_done(&m->why);
	free(m);
}

static void note_end(const struct move *m, const struct err *e)
{
	json_t *data = json_pack("{s:s, s:s, s:I, s:I, s:I}", "from", m->from,
				 "to", m->to, "entries", (json_int_t)m->entries,
				 "bytes", (json_int_t)m->bytes, "ms",
				 (json_int_t)(clock_boot_ms() - m->began_ms));

	if (e->code)
		json_object_set_new(data, "error",
				    json_lossy(e->msg, strlen(e->msg)));
	audit_add(m->api, &(struct audit){ .type = "sandbox.moved",
					   .box = box_by_id(m->api, m->id),
					   .who = &m->who,
					   .request_id = m->request_id,
					   .data = data });
}

static void end(struct move *m, const struct err *e)
{
	struct move_client *c = take_ptr(m->client);

	list_del(&m->node);
	note_end(m, e);
	if (c) {
		c->move = NULL;
		c->done(c, e);
	}
	loop_defer(&m->api->loop, &m->gone, move_free);
}

void move_leave(struct move_client *c)
{
	if (c->move)
		c->move->client = NULL;
	c->move = NULL;
}

static void tell(const struct move *m, const char *step)
{
	if (m->client)
		m->client->progress(m->client, step, m->entries, m->bytes);
}

/* --- the disk --- */

void move_stop(struct move *m)
{
	view_job_stop(&m->view);
	process_close(&m->proc, false);
	warden_cancel(&m->call);
	timer_del(&m->api->loop, &m->still);
	timer_del(&m->api->loop, &m->late);
	if (*m->looker)
		warden_chore(&m->api->warden, WARDEN_KILL, m->looker);
	*m->looker = '\0';
}

/* One word to restart.c, and no other: what it hangs up on is ended before. */
static void laid(struct move *m, const struct err *e)
{
	struct sandbox *s = box_by_id(m->api, m->id);
	struct err why = { 0 };

	move_stop(m);
	if (e && (e->code == ENOSPC || e->code == EDQUOT))
		err_set(&why, ENOSPC,
			"its disk does not fit into the other tier: %.160s",
			e->msg);
	else if (e)
		err_set(&why, EIO, "its disk cannot be moved: %.180s", e->msg);
	if (s)
		restart_laid(s, e ? &why : NULL);
}

static void too_still(struct timer *t)
{
	struct move *m = container_of(t, struct move, still);
	struct err e = { 0 };

	err_set(&e, ETIMEDOUT, "nothing moved for %d s", STILL_MS / 1000);
	laid(m, &e);
}

static void too_late(struct timer *t)
{
	struct move *m = container_of(t, struct move, late);
	struct err e = { 0 };

	err_set(&e, ETIMEDOUT, "not all moved in %d hours", LAY_MS / 3600000);
	laid(m, &e);
}

static void moves(struct move *m)
{
	timer_set(&m->api->loop, &m->still, STILL_MS, too_still);
}

static void go_on(struct process *p)
{
	struct move *m = container_of(p, struct move, proc);
	size_t n =
		process_input(p, buf_data(&m->pending), buf_len(&m->pending));

	moves(m);
	buf_eat(&m->pending, n);
	if (buf_len(&m->pending) > 0)
		return;
	if (m->fed)
		process_input_eof(p);
	else
		view_job_resume(&m->view);
}

static void on_output(struct process *p, unsigned stream, const void *data,
		      size_t n)
{
	struct move *m = container_of(p, struct move, proc);
	struct buf *b = stream == 1 ? &m->words : &m->why;
	size_t max = stream == 1 ? WORDS_MAX : FILE_ERROR_MAX;

	/* It has all, and may take a while to write it out. */
	if (stream == 1)
		moves(m);
	buf_add(b, data, buf_len(b) + n <= max ? n : max - buf_len(b));
	process_consumed(p, stream, n);
}

/* What was done, as the builtin tells it: notes, and the end. */
static int read_words(struct move *m, struct err *e)
{
	struct file_record r;
	bool whole = false;
	int n;

	while (!whole && (n = file_record_get(&m->words, &r)) > 0) {
		if (r.kind == FILE_NOTE)
			log_info("sandbox=%s moves: %.200s", m->id, r.note);
		whole = r.kind == FILE_UNPACKED;
		buf_eat(&m->words, (size_t)n);
	}
	return whole && m->fed ? 0
			       : err_set(e, EPROTO,
					 "the sandbox's agent broke the "
					 "protocol");
}

static void on_ended(struct process *p, const struct exit_info *x,
		     const struct err *why)
{
	struct move *m = container_of(p, struct move, proc);
	struct err e = { 0 };

	if (why)
		e = *why;
	else if (x->signaled)
		err_set(&e, EIO, "its writer was ended by signal %u%s", x->code,
			x->code == SIGKILL ? " (out of memory?)" : "");
	else if (x->code != 0)
		file_error_get(buf_data(&m->why), buf_len(&m->why), &e);
	else if (read_words(m, &e) == 0) {
		laid(m, NULL);
		return;
	}
	laid(m, &e);
}

static const struct process_ops proc_ops = {
	.started = go_on,
	.output = on_output,
	.room = go_on,
	.ended = on_ended,
};

/* Who writes waits for no first byte: it is started with that. */
static int start_writer(struct move *m, struct err *e)
{
	const char *argv[] = { "host.lay", "/", NULL };
	const struct spawn sp = {
		.flags = SPAWN_BUILTIN | SPAWN_STDIN,
		.user = "",
		.cwd = "/",
		.tag = "",
		.argc = 2,
		.argv = argv,
		.env = (const char *[]){ NULL },
	};
	struct sandbox *s = box_by_id(m->api, m->id);

	m->proc.ops = &proc_ops;
	m->proc.between = true;
	if (!s)
		return err_set(e, ESRCH, "the sandbox has ended");
	return process_spawn(&m->proc, s, &sp, e);
}

static enum view_next on_tar(struct view_job *v, const struct view_record *r)
{
	struct move *m = container_of(v, struct move, view);
	struct err e = { 0 };
	bool first = !process_is_open(&m->proc);
	size_t n = 0;

	if (r->kind != VIEW_DATA)
		err_set(&e, EPROTO, "who reads it broke the protocol");
	else if (first && start_writer(m, &e) == 0)
		tell(m, "copy");
	if (e.code) {
		laid(m, &e);
		return VIEW_OVER;
	}
	if (r->data.n > 0)
		moves(m);
	m->bytes += r->data.n;
	if (!first)
		n = process_input(&m->proc, r->data.p, r->data.n);
	if (n == r->data.n)
		return VIEW_GO_ON;
	buf_add(&m->pending, (const char *)r->data.p + n, r->data.n - n);
	return VIEW_HOLD;
}

static void on_progress(struct view_job *v, const struct view_record *r)
{
	struct move *m = container_of(v, struct move, view);

	if (r->progress.entries > m->entries)
		moves(m);
	m->entries = r->progress.entries;
	tell(m, "copy");
}

static void on_told(struct view_job *v, const struct err *e)
{
	struct move *m = container_of(v, struct move, view);

	if (e->code) {
		laid(m, e);
		return;
	}
	m->fed = true;
	if (buf_len(&m->pending) == 0 && process_is_open(&m->proc))
		process_input_eof(&m->proc);
}

static const struct view_ops tar_ops = { on_tar, on_told, on_progress };

/* --- of a container --- */

static int read_container(struct move *m, const struct sandbox *s,
			  struct err *e)
{
	struct view_side image = { 0 }, disk;
	const struct view_question q = {
		.work = VIEW_PACK,
		.side = { &image, &disk },
		.flags = VIEW_LAYER | VIEW_EXACT,
		.inner = true,
	};

	memcpy(image.image, s->image_id, sizeof(image.image));
	disk = image;
	memcpy(disk.snap, s->disk, sizeof(disk.snap));
	return view_job_start(&m->view, m->api, s->project, &q, &tar_ops, e);
}

/* --- of a machine --- */

static int hear_looker(struct move *m, struct err *e)
{
	struct sandbox *s = box_by_id(m->api, m->id);
	char path[CONF_PATH + ID_CAP + 16];
	int fd;

	snprintf(path, sizeof(path), "%s/box/%s/agent.sock",
		 m->api->conf.run_dir, m->looker);
	fd = unix_connect(path, SOCK_STREAM | SOCK_NONBLOCK);
	if (fd < 0)
		return err_set(e, -fd, "reach who reads it: %s", strerror(-fd));
	return view_job_hear(&m->view, m->api, s ? s->project : "", fd,
			     &tar_ops, e);
}

static void on_looker(struct warden_call *c, const struct warden_rep *rep,
		      int fds[FD_PASS_MAX])
{
	struct move *m = container_of(c, struct move, call);
	struct err e = rep->err;

	(void)fds;
	if (e.code || hear_looker(m, &e) < 0)
		laid(m, &e);
	else
		moves(m);
}

static int read_machine(struct move *m, const struct sandbox *s, struct err *e)
{
	struct launch_spec *l = &m->call.req.launch;
	int r = id_make(m->looker);

	if (r < 0) {
		*m->looker = '\0';
		return err_set(e, -r, "no random numbers");
	}
	memset(&m->call, 0, sizeof(m->call));
	m->call.req.op = WARDEN_LAUNCH;
	memcpy(l->id, m->looker, ID_LEN);
	memcpy(l->image, s->image_id, ID_LEN);
	memcpy(l->from, s->disk, ID_LEN);
	snprintf(l->hostname, sizeof(l->hostname), "%.12s", m->looker);
	l->flags = LAUNCH_MICROVM | LAUNCH_LOOK;
	l->pids = LOOK_PIDS;
	l->cpus_milli = LOOK_CPUS;
	l->mem_bytes =
		s->spec.mem_bytes > LOOK_MEM ? s->spec.mem_bytes : LOOK_MEM;
	l->disk_bytes = s->spec.disk_bytes;
	warden_ask(&m->api->warden, &m->call, on_looker);
	return 0;
}

void move_lay(struct move *m, struct sandbox *s)
{
	struct err e = { 0 };

	timer_set(&m->api->loop, &m->late, LAY_MS, too_late);
	moves(m);
	tell(m, "read");
	if ((spec_is_vm(&s->spec) ? read_machine(m, s, &e)
				  : read_container(m, s, &e)) < 0)
		laid(m, &e);
}

int move_settle(struct sandbox *s, struct err *e)
{
	const struct move *m = s->restart.move;

	if (s->ended)
		return err_set(e, EIO, "the sandbox ended while it moved");
	box_set_tier(s, m->to);
	/* Its policy may be another one by now. */
	return tiers_allow(s->api, s->project, &s->spec, e);
}

void move_unsettle(struct sandbox *s)
{
	box_set_tier(s, s->restart.move->from);
}

/* --- the steps --- */

/* Nobody waits for what was there to run again: who asked hears why not. */
static void go_back(struct move *m, struct sandbox *s, const struct err *e)
{
	struct err full = *e, again = { 0 };

	if (m->ran && box_resume(s, NULL, &again) < 0)
		log_warn("sandbox=%s %s, it stays suspended", s->id, again.msg);
	err_wrap(&full, "sandbox %s stays in tier %s", s->id, m->from);
	end(m, &full);
}

static void on_moved(struct box_waiter *w, const struct err *e)
{
	struct move *m = container_of(w, struct move, step);
	struct sandbox *s = box_by_id(m->api, m->id);

	if (e->code && s && s->state == BOX_SUSPENDED)
		go_back(m, s, e);
	else
		end(m, e);
}

static void convert(struct move *m, struct sandbox *s)
{
	struct err e = { 0 };

	tell(m, "launch");
	m->step.fn = on_moved;
	if (box_resume_moved(s, m, &m->step, &e) < 0)
		go_back(m, s, &e);
}

static void on_stopped(struct box_waiter *w, const struct err *e)
{
	struct move *m = container_of(w, struct move, step);
	struct sandbox *s = box_by_id(m->api, m->id);

	if (e->code && s && s->state == BOX_SUSPENDED)
		go_back(m, s, e);
	else if (e->code || !s)
		end(m, e);
	else
		convert(m, s);
}

/* Can it be of the other tier, by all that can be known before? */
static int may_move(const struct sandbox *s, const char *to, struct err *e)
{
	AUTO(spec_done) struct spec spec = { 0 };

	if (may_restart(s, e) < 0)
		return -e->code;
	if (s->spec.persist && strcmp(s->disk, s->id) == 0)
		return err_set(e, EBUSY,
			       "sandbox %s ended by itself and its disk is "
			       "what was kept of it: resume it first",
			       s->id);
	spec_copy(&spec, &s->spec);
	snprintf(spec.tier, sizeof(spec.tier), "%s", to);
	if (tiers_allow(s->api, s->project, &spec, e) < 0 ||
	    volumes_allow(s->api, s->project, &spec, s, e) < 0)
		return -e->code;
	return spec_check(&spec, e);
}

/* Before anything is stopped: is there room for the work itself? */
static int check_room(struct api *a, const struct sandbox *s, struct err *e)
{
	unsigned n = 0, own = 0;
	struct list *pos, *tmp;

	list_each (pos, tmp, &a->moves) {
		const struct move *m = container_of(pos, struct move, node);
		const struct sandbox *other = box_by_id(a, m->id);

		n++;
		own += other && strcmp(other->project, s->project) == 0;
	}
	if (n >= MOVES_MAX || own >= MOVES_PROJECT_MAX)
		return err_set(e, EMFILE,
			       "%u moves are under way: try again later",
			       n >= MOVES_MAX ? n : own);
	/* A microVM of its own reads the disk of a microVM. */
	return spec_is_vm(&s->spec) ? admit_memory(a, 1, e) : 0;
}

static int stop(struct move *m, struct sandbox *s, struct err *e)
{
	if (strcmp(s->spec.tier, m->from) != 0)
		return err_set(e, EBUSY, "sandbox %s was moved meanwhile",
			       s->id);
	if (may_move(s, m->to, e) < 0)
		return -e->code;
	m->ran = s->state != BOX_SUSPENDED;
	audit_add(m->api,
		  &(struct audit){ .type = "sandbox.move",
				   .box = s,
				   .who = &m->who,
				   .request_id = m->request_id,
				   .data = json_pack("{s:s, s:s}", "from",
						     m->from, "to", m->to) });
	m->step.fn = on_stopped;
	/* With the memory of a machine: it goes on if this comes to nothing. */
	if (!m->ran)
		return 1;
	if (box_suspend(s, false, &m->step, e) < 0)
		return -e->code;
	s->restart.said = "the sandbox moves to the other tier";
	return 0;
}

/* The host reads disks of machines in machines, so it needs them both ways. */
static void on_host(struct warden_call *c, const struct warden_rep *rep,
		    int fds[FD_PASS_MAX])
{
	struct move *m = container_of(c, struct move, call);
	struct sandbox *s = box_by_id(m->api, m->id);
	struct err e = rep->err;
	int r = -e.code;

	(void)fds;
	if (r == 0 && !(rep->host.flags & HOST_MICROVM))
		r = err_set(&e, ENOTSUP, "this host has no microvms: %.*s",
			    (int)sizeof(rep->host.microvm) - 1,
			    rep->host.microvm);
	if (r == 0 && !s)
		r = err_set(&e, ESRCH, "the sandbox has ended");
	if (r == 0) {
		tell(m, "stop");
		r = stop(m, s, &e);
	}
	if (r < 0)
		end(m, &e);
	else if (r == 1)
		convert(m, s);
}

int move_start(struct sandbox *s, const char *tier, const struct identity *who,
	       const char *request_id, struct move_client *c, struct err *e)
{
	struct move *m;

	if (strcmp(tier, s->spec.tier) == 0)
		return err_set(e, EALREADY, "it is in tier %s", tier);
	if (may_move(s, tier, e) < 0 || check_room(s->api, s, e) < 0)
		return -e->code;
	m = xcalloc(1, sizeof(*m));
	m->api = s->api;
	list_add(&m->api->moves, &m->node);
	m->client = c;
	c->move = m;
	m->began_ms = clock_boot_ms();
	memcpy(m->id, s->id, sizeof(m->id));
	memcpy(m->from, s->spec.tier, sizeof(m->from));
	snprintf(m->to, sizeof(m->to), "%s", tier);
	m->who = *who;
	snprintf(m->request_id, sizeof(m->request_id), "%s", request_id);
	list_init(&m->step.node);
	warden_req_id(&m->call, WARDEN_HOST, "");
	warden_ask(&m->api->warden, &m->call, on_host);
	return 0;
}
