/*
 * One request at a time: those of other programs inside wait at the door. A
 * request takes a token, of which there are RATE a second; without one it
 * waits, and what comes behind it is not read.
 */
#include "api/drive_door.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "api/drive.h"
#include "api/process.h"
#include "base/auto.h"
#include "base/clock.h"
#include "spec/grant.h"
#include "wire/drive.h"

enum {
	RATE = 20,           /* requests a second */
	BURST = 40,          /* after a time without any */
	LIST_MAX = 250,      /* files in one answer */
	OPEN_MS = 1000,      /* before it is opened again, and twice that... */
	OPEN_MAX_MS = 60000, /* ...up to this */
	LASTED_MS = 60000,   /* one that lived that long was a good one */
};

enum door_state {
	DOOR_IDLE,    /* waits for a request */
	DOOR_WAITS,   /* has one, and no token for it */
	DOOR_TAKES,   /* bytes of a put */
	DOOR_COMMITS, /* has all, and waits for the disk */
	DOOR_SENDS,   /* bytes of a get */
};

struct drive_door {
	struct sandbox *box;
	struct process proc;
	enum door_state state;
	struct buf in, out;
	struct drive_put *put;
	int fd; /* of a get */
	uint64_t at, size;
	double tokens;
	uint64_t tokens_ms, opened_ms;
	unsigned pause_ms;
	struct timer again; /* opens it, or has a token */
	struct deferred gone;
};

/* --- may it? --- */

static bool may(const struct drive_door *d, const char *path, bool write)
{
	const json_t *list = d->box->spec.drive, *v;
	struct drive_grant g;
	size_t i;

	json_array_foreach (list, i, v) {
		if (drive_grant_parse(json_string_value(v), &g) == 0 &&
		    drive_grant_covers(&g, path) && (g.write || !write))
			return true;
	}
	return false;
}

static int check(const struct drive_door *d, const char *path, bool write,
		 struct err *e)
{
	if (drive_path_check(path, false, e) < 0)
		return -e->code;
	if (may(d, path, write))
		return 0;
	return err_set(e, EACCES, "this sandbox may not %s %.150s on the drive",
		       write ? "write" : "read", path);
}

/* --- answers --- */

static void flush(struct drive_door *d)
{
	size_t n = process_input(&d->proc, buf_data(&d->out), buf_len(&d->out));

	buf_eat(&d->out, n);
}

static void say_file(struct drive_door *d, const struct drive_row *row)
{
	drive_record_put(&d->out,
			 &(struct drive_record){ .kind = DRIVE_FILE,
						 .version = row->version,
						 .size = row->size,
						 .sha256 = row->sha256,
						 .path = row->path });
}

static void say_done(struct drive_door *d, bool more)
{
	drive_record_put(&d->out, &(struct drive_record){ .kind = DRIVE_DONE,
							  .more = more });
	d->state = DOOR_IDLE;
	flush(d);
}

static void say_error(struct drive_door *d, const struct err *e)
{
	drive_record_put(&d->out,
			 &(struct drive_record){ .kind = DRIVE_ERROR,
						 .code = (uint32_t)e->code,
						 .message = e->msg });
	d->state = DOOR_IDLE;
	flush(d);
}

static void drop_work(struct drive_door *d)
{
	drive_put_give_up(d->put);
	d->put = NULL;
	auto_close(&d->fd);
}

/* --- requests --- */

static void take_who(const struct drive_door *d, struct drive_who *by)
{
	const struct sandbox *s = d->box;

	by->who.scope = SCOPE_USE;
	memcpy(by->who.project, s->project, sizeof(by->who.project));
	snprintf(by->who.name, sizeof(by->who.name), "sandbox:%s", s->id);
	memcpy(by->sandbox, s->id, ID_CAP);
}

static int start_put(struct drive_door *d, const struct drive_record *r,
		     struct err *e)
{
	struct drive_put want = { .owner = d };

	if (check(d, r->path, true, e) < 0 || audit_ready(d->box->api, e) < 0)
		return -e->code;
	memcpy(want.project, d->box->project, sizeof(want.project));
	snprintf(want.path, sizeof(want.path), "%s", r->path);
	if (r->conditional) {
		want.condition = DRIVE_VERSION;
		want.version = r->version;
	}
	take_who(d, &want.by);
	d->put = drive_put_new(d->box->api, &want, 0, e);
	if (!d->put)
		return -e->code;
	d->state = DOOR_TAKES;
	return 0;
}

static void send_more(struct drive_door *d);

static int start_get(struct drive_door *d, const struct drive_record *r,
		     struct err *e)
{
	struct api *a = d->box->api;
	struct drive_row row;

	if (check(d, r->path, false, e) < 0 ||
	    drive_find(a, d->box->project, r->path, r->version, &row, e) < 0)
		return -e->code;
	d->fd = drive_open(a, &row, e);
	if (d->fd < 0)
		return d->fd;
	d->at = 0;
	d->size = row.size;
	d->state = DOOR_SENDS;
	say_file(d, &row);
	send_more(d);
	return 0;
}

static int do_rm(struct drive_door *d, const struct drive_record *r,
		 struct err *e)
{
	struct drive_who by = { 0 };
	struct drive_row row;

	take_who(d, &by);
	if (check(d, r->path, true, e) < 0 || audit_ready(d->box->api, e) < 0 ||
	    drive_remove(d->box->api, &by, d->box->project, r->path, &row, e) <
		    0)
		return -e->code;
	say_file(d, &row);
	say_done(d, false);
	return 0;
}

/* The first file of one grant, of those that start so and are not less. */
static int next_granted(struct drive_door *d, const struct drive_grant *g,
			struct drive_range range, struct drive_row *out,
			struct err *e)
{
	struct registry *reg = &d->box->api->registry;
	char top[DRIVE_PATH_CAP + 1];
	int r;

	snprintf(top, sizeof(top), "%.*s", (int)g->n, g->prefix);
	if (str_starts(top, range.prefix))
		range.prefix = top;
	else if (!drive_grant_covers(g, range.prefix))
		return 0;
	r = registry_drive_next(reg, &range, out, e);
	if (r <= 0 || drive_grant_covers(g, out->path))
		return r;
	/* "reports-2" starts like the grant "reports", and is not its. */
	snprintf(top, sizeof(top), "%.*s/", (int)g->n, g->prefix);
	range.prefix = top;
	return registry_drive_next(reg, &range, out, e);
}

static int next_listed(struct drive_door *d, const struct drive_range *range,
		       struct drive_row *out, struct err *e)
{
	const json_t *list = d->box->spec.drive, *v;
	bool found = false;
	size_t i;

	json_array_foreach (list, i, v) {
		struct drive_grant g;
		struct drive_row row;
		int r;

		if (drive_grant_parse(json_string_value(v), &g) < 0)
			continue;
		r = next_granted(d, &g, *range, &row, e);
		if (r < 0)
			return r;
		if (r == 0 || (found && strcmp(row.path, out->path) >= 0))
			continue;
		*out = row;
		found = true;
	}
	return found;
}

static int do_ls(struct drive_door *d, const struct drive_record *r,
		 struct err *e)
{
	char from[DRIVE_PATH_CAP + 1];
	const struct drive_range range = { d->box->project, r->path, from,
					   false };
	struct drive_row row;
	unsigned n = 0;
	int more;

	if (drive_path_check(r->path, true, e) < 0 ||
	    drive_path_check(r->after, true, e) < 0)
		return -e->code;
	/* No name has a control byte: the first one behind it. */
	snprintf(from, sizeof(from), "%s%s", r->after, *r->after ? "\x01" : "");
	while ((more = next_listed(d, &range, &row, e)) > 0 && n < LIST_MAX) {
		say_file(d, &row);
		snprintf(from, sizeof(from), "%s\x01", row.path);
		n++;
	}
	if (more < 0)
		return more;
	say_done(d, more);
	return 0;
}

static void start(struct drive_door *d, const struct drive_record *r)
{
	struct err e = { 0 };
	int rc = -EINVAL;

	box_touch(d->box);
	switch (r->op) {
	case DRIVE_PUT:
		rc = start_put(d, r, &e);
		break;
	case DRIVE_GET:
		rc = start_get(d, r, &e);
		break;
	case DRIVE_LS:
		rc = do_ls(d, r, &e);
		break;
	case DRIVE_RM:
		rc = do_rm(d, r, &e);
		break;
	case DRIVE_OPS:
		break;
	}
	if (rc < 0)
		say_error(d, &e);
}

/* --- bytes --- */

static void send_more(struct drive_door *d)
{
	static char piece[DRIVE_DATA_MAX];
	struct drive_record r = { .kind = DRIVE_DATA, .data = piece };
	struct err e = { 0 };
	ssize_t n;

	flush(d);
	while (buf_len(&d->out) == 0 && d->at < d->size) {
		n = pread(d->fd, piece, sizeof(piece), (off_t)d->at);
		if (n <= 0) {
			drop_work(d);
			err_set(&e, EIO, "it cannot be read from the drive");
			say_error(d, &e);
			return;
		}
		r.n = (size_t)n;
		d->at += r.n;
		drive_record_put(&d->out, &r);
		flush(d);
	}
	if (d->at < d->size)
		return;
	drop_work(d);
	say_done(d, false);
}

static void listen_on(struct drive_door *d);

static void on_stored(struct drive_put *p, const struct drive_row *row,
		      const struct err *e)
{
	struct drive_door *d = p->owner;

	d->put = NULL;
	if (row) {
		say_file(d, row);
		say_done(d, false);
	} else {
		say_error(d, e);
	}
	listen_on(d);
}

static void take_piece(struct drive_door *d, const struct drive_record *r)
{
	struct err e = { 0 };

	if (drive_put_add(d->put, r->data, r->n, &e) == 0)
		return;
	drop_work(d);
	say_error(d, &e);
}

/* --- what it says --- */

static void on_token(struct timer *t)
{
	struct drive_door *d = container_of(t, struct drive_door, again);

	d->state = DOOR_IDLE;
	listen_on(d);
}

static bool take_token(struct drive_door *d)
{
	uint64_t now = clock_boot_ms();

	d->tokens += (double)(now - d->tokens_ms) * RATE / 1000;
	d->tokens_ms = now;
	if (d->tokens > BURST)
		d->tokens = BURST;
	if (d->tokens < 1) {
		d->state = DOOR_WAITS;
		timer_set(&d->box->api->loop, &d->again, 1000 / RATE, on_token);
		return false;
	}
	d->tokens -= 1;
	return true;
}

/* False: it makes no sense, and whoever says so is ended. */
static bool take_record(struct drive_door *d, const struct drive_record *r)
{
	switch (r->kind) {
	case DRIVE_REQUEST:
		if (d->state != DOOR_IDLE)
			return false;
		start(d, r);
		return true;
	case DRIVE_DATA:
		if (d->state == DOOR_TAKES)
			take_piece(d, r);
		/* Else the last word was faster. */
		return d->state != DOOR_SENDS;
	case DRIVE_END:
		if (d->state == DOOR_TAKES) {
			d->state = DOOR_COMMITS;
			drive_put_end(d->put, on_stored);
		}
		return d->state != DOOR_SENDS;
	case DRIVE_GONE:
		if (d->state == DOOR_TAKES || d->state == DOOR_SENDS) {
			drop_work(d);
			say_done(d, false);
		}
		return true;
	case DRIVE_FILE:
	case DRIVE_ERROR:
	case DRIVE_DONE:
	case DRIVE_KINDS:
		break;
	}
	return false;
}

static bool is_listening(const struct drive_door *d)
{
	return d->state != DOOR_WAITS && d->state != DOOR_COMMITS;
}

/* As many records as there are and may be taken now. */
static void listen_on(struct drive_door *d)
{
	struct drive_record r;
	int n = 0;

	while (is_listening(d) && (n = drive_record_get(&d->in, &r)) > 0) {
		if (r.kind == DRIVE_REQUEST && d->state == DOOR_IDLE &&
		    !take_token(d))
			return;
		if (!take_record(d, &r)) {
			n = -EBADMSG;
			break;
		}
		buf_eat(&d->in, (size_t)n);
		process_consumed(&d->proc, 1, (size_t)n);
	}
	if (n >= 0)
		return;
	log_warn("sandbox=%s its drive door talks nonsense, ending it",
		 d->box->id);
	buf_clear(&d->in);
	process_signal(&d->proc, SIGKILL);
}

/* --- the builtin --- */

static void on_started(struct process *p)
{
	(void)p;
}

static void on_output(struct process *p, unsigned stream, const void *data,
		      size_t n)
{
	struct drive_door *d = container_of(p, struct drive_door, proc);

	if (stream != 1) {
		process_consumed(p, stream, n);
		return;
	}
	buf_add(&d->in, data, n); /* at most a window, until it is consumed */
	listen_on(d);
}

static void on_room(struct process *p)
{
	struct drive_door *d = container_of(p, struct drive_door, proc);

	if (d->state == DOOR_SENDS)
		send_more(d);
	else
		flush(d);
	listen_on(d);
}

static void open_door(struct drive_door *d);

static void on_again(struct timer *t)
{
	open_door(container_of(t, struct drive_door, again));
}

static void closed(struct drive_door *d)
{
	struct api *a = d->box->api;
	uint64_t lasted = clock_boot_ms() - d->opened_ms;

	d->box->agent.n_own--;
	drop_work(d);
	buf_done(&d->in);
	buf_done(&d->out);
	d->state = DOOR_IDLE;
	d->pause_ms = lasted > LASTED_MS || d->pause_ms == 0 ? OPEN_MS
							     : d->pause_ms * 2;
	if (d->pause_ms > OPEN_MAX_MS)
		d->pause_ms = OPEN_MAX_MS;
	timer_set(&a->loop, &d->again, d->pause_ms, on_again);
}

static void on_ended(struct process *p, const struct exit_info *x,
		     const struct err *e)
{
	struct drive_door *d = container_of(p, struct drive_door, proc);

	(void)x;
	log_debug("sandbox=%s its drive door ended%s%s", d->box->id,
		  e ? ": " : "", e ? e->msg : "");
	closed(d);
}

static const struct process_ops door_ops = {
	.started = on_started,
	.output = on_output,
	.room = on_room,
	.ended = on_ended,
};

/* One that does not run is opened when it is heard of again. */
static void open_door(struct drive_door *d)
{
	const char *argv[] = { "drive.door", NULL }, *env[] = { NULL };
	const struct spawn sp = { .flags = SPAWN_BUILTIN | SPAWN_STDIN,
				  .user = "",
				  .cwd = "/",
				  .tag = "",
				  .argc = 1,
				  .argv = argv,
				  .env = env };
	struct err e = { 0 };

	if (d->box->state != BOX_RUNNING || process_is_open(&d->proc))
		return;
	d->proc = (struct process){ .ops = &door_ops };
	d->opened_ms = clock_boot_ms();
	d->box->agent.n_own++;
	if (process_spawn(&d->proc, d->box, &sp, &e) == 0)
		return;
	log_debug("sandbox=%s drive: %s, trying again", d->box->id, e.msg);
	closed(d);
}

void drive_door_open(struct sandbox *s)
{
	struct drive_door *d = s->door;

	if (json_array_size(s->spec.drive) == 0)
		return;
	if (!d) {
		d = xcalloc(1, sizeof(*d));
		d->box = s;
		d->fd = -1;
		d->tokens = BURST;
		d->tokens_ms = clock_boot_ms();
		s->door = d;
	}
	open_door(d);
}

static void free_door(struct deferred *g)
{
	free(container_of(g, struct drive_door, gone));
}

void drive_door_close(struct sandbox *s)
{
	struct drive_door *d = s->door;

	if (!d)
		return;
	s->door = NULL;
	if (process_is_open(&d->proc)) {
		s->agent.n_own--;
		process_close(&d->proc, false);
	}
	timer_del(&s->api->loop, &d->again);
	drop_work(d);
	buf_done(&d->in);
	buf_done(&d->out);
	loop_defer(&s->api->loop, &d->gone, free_door);
}
