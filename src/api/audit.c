/*
 * Entries: what they look like, and the one that every request makes.
 *
 * A request is written when its answer begins, whoever gives it: by one hook
 * of the HTTP server. Requests that change nothing are left out unless the
 * configuration says otherwise, those that were refused for want of a key or
 * a right are not - but a crowd at the door does not fill the disk: beyond a
 * few per second they are only counted.
 */
#include "api/audit.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "api/call.h"
#include "api/reply.h"
#include "api/routes.h"
#include "audit/entry.h"
#include "audit/segment.h"
#include "audit/spool.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/product.h"

enum {
	PATH_MAX_LOGGED = 256,
	RESERVE_BYTES = 512 * 1024, /* for answers to what is under way */
	DENIED_BURST = 20,
	DENIED_STEP_MS = 500, /* one more each */
	POKE_MS = 2,          /* with somebody who waits for events */
	POKE_LAZY_MS = 50,    /* without: a create does not share the processor
				 with its own log */
};
_Static_assert((int)ENTRY_BODY_MAX <= (int)SPOOL_BODY_MAX, "bodies fit");

/* What is known of a request until its answer. */
struct call_note {
	const struct route *route; /* NULL: nobody knows this path */
	uint64_t asked_us;
	struct identity who;
	char box[ID_CAP]; /* "": none */
	size_t path_n;    /* of the path that is written */
};
_Static_assert(sizeof(struct call_note) <= HTTP_NOTE, "fits");

/* Visible ASCII without quotes, so nothing is to be escaped; or null. */
static void put_word(struct buf *b, const char *name, const char *s)
{
	size_t i, n = s ? strnlen(s, ENTRY_WORD_MAX) : 0;
	char *p;

	buf_printf(b, ",\"%s\":", name);
	if (n == 0) {
		buf_puts(b, "null");
		return;
	}
	p = buf_room(b, n + 2);
	p[0] = p[n + 1] = '"';
	for (i = 0; i < n; i++)
		p[i + 1] =
			s[i] > ' ' && s[i] < 0x7f && s[i] != '"' && s[i] != '\\'
				? s[i]
				: '?';
	buf_fill(b, n + 2);
}

/* What does not fit, or is no JSON, is left out: the entry is not. */
static void put_data(struct buf *b, const json_t *data)
{
	size_t room = ENTRY_BODY_MAX - buf_len(b) - 1;
	size_t n =
		data ? json_dumpb(data, buf_room(b, room), room, JSON_COMPACT)
		     : 0;

	if (data && n > 0 && n <= room)
		buf_fill(b, n);
	else
		buf_puts(b, data ? "{\"left_out\":true}" : "{}");
}

/* The number of the record, or -errno. In the form of audit/entry.h. */
static int64_t put(struct audit_log *l, const struct audit *entry,
		   const char *box_id, const char *project)
{
	static struct buf b;
	char stamp[CLOCK_STAMP];

	clock_stamp(clock_wall_ms(), stamp);
	buf_clear(&b);
	buf_printf(&b, "{\"time\":\"%s\",\"type\":\"%s\"", stamp, entry->type);
	put_word(&b, "sandbox", box_id);
	put_word(&b, "project", project);
	put_word(&b, "who", entry->who ? entry->who->name : NULL);
	put_word(&b, "request", entry->request_id);
	buf_puts(&b, ",\"data\":");
	put_data(&b, entry->data);
	buf_puts(&b, "}");
	json_decref(entry->data);
	return writer_add(&l->w, buf_data(&b), buf_len(&b));
}

/* Once there is room again: how many are missing. */
static int64_t put_missed(struct audit_log *l)
{
	const struct audit entry = {
		.type = "api.missed",
		.data = json_pack("{s:I}", "entries", (json_int_t)l->missed),
	};
	int64_t r = put(l, &entry, NULL, NULL);

	if (r > 0)
		l->missed = 0;
	return r;
}

static int64_t add(struct api *a, const struct audit *entry, const char *box_id)
{
	struct audit_log *l = &a->audit;
	const char *project = entry->box     ? entry->box->project
			      : entry->ended ? entry->ended->project
			      : entry->who   ? entry->who->project
					     : NULL;
	int64_t r = l->missed ? put_missed(l) : 0;

	if (r < 0) /* or it would have the number of that */
		json_decref(entry->data);
	else
		r = put(l, entry, box_id, project);
	if (r < 0 && l->missed++ == 0)
		log_err("write to the log's spool: %s, counting what is "
			"missed",
			strerror((int)-r));
	l->failing = r < 0;
	return r;
}

static void poke(struct api *a)
{
	a->audit.w.poke_ms = a->pools.readers.used > 0 ? POKE_MS : POKE_LAZY_MS;
	writer_poke(&a->audit.w, false);
}

static const char *box_id_of(const struct audit *entry)
{
	return entry->box     ? entry->box->id
	       : entry->ended ? entry->ended->id
			      : NULL;
}

void audit_add(struct api *a, const struct audit *entry)
{
	if (add(a, entry, box_id_of(entry)) > 0)
		poke(a);
}

void audit_add_durable(struct api *a, const struct audit *entry,
		       struct audit_wait *w,
		       void (*fn)(struct audit_wait *w, const struct err *e))
{
	int64_t r = add(a, entry, box_id_of(entry));

	w->number = r > 0 ? (uint64_t)r : 0;
	w->fn = fn;
	writer_wait(&a->audit.w, w);
}

struct reply {
	struct audit_wait wait;
	struct api *api;
	struct http_conn *conn;
	int status;
	json_t *answer;
};

static void reply_done(struct reply *r)
{
	audit_cancel(&r->wait);
	json_decref(r->answer);
	free(r);
}

static void reply_gone(struct http_conn *c, void *owner)
{
	(void)c;
	reply_done(owner);
}

/* What is done without a log is well done without one. */
static bool is_anyway(struct http_conn *c)
{
	const struct call_note *n = http_note(c);

	return n->route && n->route->flags & ROUTE_ANYWAY;
}

static void on_disk(struct audit_wait *w, const struct err *e)
{
	struct reply *r = container_of(w, struct reply, wait);

	if (e->code && !is_anyway(r->conn))
		reply_err(r->api, r->conn, e);
	else if (r->answer)
		reply_json(r->api, r->conn, r->status, json_incref(r->answer));
	else
		reply_empty(r->api, r->conn, r->status);
	reply_done(r);
}

void audit_reply(struct api *a, struct http_conn *c, const struct audit *entry,
		 int status, json_t *answer)
{
	struct reply *r = xcalloc(1, sizeof(*r));

	r->api = a;
	r->conn = c;
	r->status = status;
	r->answer = answer;
	http_own(c, r, reply_gone);
	audit_add_durable(a, entry, &r->wait, on_disk);
}

uint64_t audit_next(const struct api *a)
{
	const struct audit_log *l = &a->audit;

	return l->w.seq + (l->w.spool.next - l->w.written);
}

uint64_t audit_record(const struct api *a)
{
	/* What was missed is told first. */
	return a->audit.w.spool.next + (a->audit.missed > 0);
}

int audit_writable(const struct api *a, struct err *e)
{
	int r = spool_file_probe(&a->audit.w.spool);

	if (r == -EROFS)
		return err_set(e, LOG_AWAY,
			       "the disk of %.90s is read-only, so nothing can "
			       "be logged: look for its errors with dmesg, "
			       "check it, and mount it read-write again",
			       a->conf.state_dir);
	return r < 0 ? err_set(e, LOG_AWAY,
			       "the log's spool in %.90s cannot be written: "
			       "%s; check that disk",
			       a->conf.state_dir, strerror(-r))
		     : 0;
}

int audit_ready(struct api *a, struct err *e)
{
	struct audit_log *l = &a->audit;

	if (audit_writable(a, e) < 0)
		return -e->code;
	if (l->failing)
		return err_set(e, LOG_AWAY,
			       "the log cannot be written to: see the "
			       "daemon's log");
	if (!spool_file_roomy(&l->w.spool))
		return err_set(e, LOG_AWAY,
			       "no space for the log on the disk of %.100s: "
			       "free some",
			       a->conf.state_dir);
	if (spool_file_bytes(&l->w.spool) > l->w.spool.size_max)
		return err_set(
			e, LOG_AWAY,
			"the log is behind by %llu bytes: see the "
			"daemon's log, or try again",
			(unsigned long long)spool_file_bytes(&l->w.spool));
	return 0;
}

/* --- requests --- */

void audit_call(struct http_conn *c, const struct call *call)
{
	struct call_note *n = http_note(c);
	const struct http_head *h = http_request(c);

	n->route = call->route;
	n->asked_us = clock_boot_us();
	n->who = call->who;
	/* Behind a "*" is somebody else's path: it may have their secrets. */
	n->path_n =
		call->rest ? (size_t)(call->rest - h->path) : strlen(h->path);
}

void audit_call_box(struct http_conn *c, const struct sandbox *s)
{
	struct call_note *n = http_note(c);

	memcpy(n->box, s->id, ID_CAP);
}

const struct identity *audit_who(struct http_conn *c)
{
	return &((const struct call_note *)http_note(c))->who;
}

/* One more of those that may not come in? */
static bool denied_fits(struct audit_log *l)
{
	uint64_t now = clock_boot_ms();
	uint64_t back = (now - l->denied_ms) / DENIED_STEP_MS;

	if (back > 0) {
		l->denied = back < l->denied ? l->denied - (unsigned)back : 0;
		l->denied_ms = now;
	}
	if (l->denied >= DENIED_BURST) {
		l->denied_left_out++;
		return false;
	}
	l->denied++;
	return true;
}

static bool is_wanted(struct audit_log *l, const struct call_note *n,
		      int status)
{
	if (!n->route || (n->route->flags & ROUTE_OPEN))
		return false;
	if (status == 401 || status == 403)
		return denied_fits(l);
	/* A page is a hundred of them: "port.connect" stands for all. */
	if (n->route->flags & ROUTE_TOKEN)
		return false;
	/* What we answer alone (figures, the log itself) is nobody's doing. */
	return n->route->scope > SCOPE_READ ||
	       (l->reads && !(n->route->flags & ROUTE_ALONE));
}

void audit_answer(struct http_conn *c, int status, void *ctx)
{
	struct api *a = ctx;
	struct audit_log *l = &a->audit;
	const struct http_head *h = http_request(c);
	const struct call_note *n = http_note(c);
	struct audit entry = { .type = "api.call",
			       .who = &n->who,
			       .request_id = http_request_id(c) };
	size_t path_n = n->path_n;

	if (!is_wanted(l, n, status))
		return;
	/* The last of the disk is for what is done, not for what is refused. */
	if (status >= 400 && !spool_file_roomy(&l->w.spool)) {
		l->missed++;
		return;
	}
	/* Whole characters. */
	if (path_n > PATH_MAX_LOGGED)
		for (path_n = PATH_MAX_LOGGED;
		     (h->path[path_n] & 0xc0) == 0x80;)
			path_n--;
	entry.data = json_pack("{s:s, s:s%, s:i, s:I}", "method", h->method,
			       "path", h->path, path_n, "status", status, "us",
			       (json_int_t)(clock_boot_us() - n->asked_us));
	if (l->denied_left_out > 0) {
		json_object_set_new(
			entry.data, "left_out",
			json_integer((json_int_t)l->denied_left_out));
		l->denied_left_out = 0;
	}
	if (add(a, &entry, n->box) > 0)
		poke(a);
}

/* --- start and stop --- */

/* The number of our last record that the log has. */
static int last_in_log(const char *state_dir, uint64_t *number, struct err *e)
{
	char path[CONF_PATH + 16], line[ENTRY_LINE_MAX];
	AUTO_CLOSE int dir_fd = -1;
	struct entry last;
	int r;

	*number = 0;
	snprintf(path, sizeof(path), "%s/audit", state_dir);
	dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open %s", path);
	r = segments_last(dir_fd, line, &last, e);
	if (r > 0)
		*number = last.spool;
	return r < 0 ? err_wrap(e, "%s", path) : 0;
}

static int open_files(struct audit_log *l, struct err *e)
{
	struct spool_file *f = &l->w.spool;

	f->fd = open(l->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	f->read_fd = open(l->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (f->fd < 0 || f->read_fd < 0)
		return err_sys(e, "open %s", l->path);
	return 0;
}

/* Something that is no spool is kept, but not in its place. */
static int open_spool(struct audit_log *l, uint64_t in_log, struct err *e)
{
	char aside[sizeof(l->path) + 8];
	struct err bad = { 0 };

	if (open_files(l, e) < 0)
		return -e->code;
	if (writer_open(&l->w, in_log, &bad) == 0)
		return 0;
	if (bad.code != EBADMSG) {
		*e = bad;
		return -e->code;
	}
	spool_file_close(&l->w.spool);
	snprintf(aside, sizeof(aside), "%s.bad", l->path);
	log_err("%s, moving it to %s", bad.msg, aside);
	if (rename(l->path, aside) < 0)
		return err_sys(e, "rename %s", l->path);
	return open_files(l, e) < 0 ? -e->code : writer_open(&l->w, in_log, e);
}

static void on_ack(struct log_writer *w, bool grown)
{
	if (grown)
		events_wake(container_of(w, struct api, audit.w));
}

static void set_up_writer(struct api *a)
{
	struct audit_log *l = &a->audit;

	snprintf(l->path, sizeof(l->path), "%s/registry/audit.spool",
		 a->conf.state_dir);
	l->w.loop = &a->loop;
	l->w.on_ack = on_ack;
	snprintf(l->w.name, sizeof(l->w.name), "api");
	snprintf(l->w.socket, sizeof(l->w.socket), "%s/roles/scribe.sock",
		 a->conf.run_dir);
	l->w.spool.fd = l->w.spool.read_fd = l->w.io.fd = -1;
	l->w.spool.name = l->path;
	l->w.spool.size_max = a->conf.audit_spool_bytes;
	l->w.spool.reserve = RESERVE_BYTES;
}

int audit_start(struct api *a, struct err *e)
{
	struct audit_log *l = &a->audit;
	struct audit entry = { .type = "daemon.start" };
	uint64_t in_log;

	set_up_writer(a);
	l->reads = strcmp(a->conf.audit_reads, "yes") == 0;
	if (!l->reads && strcmp(a->conf.audit_reads, "no") != 0)
		return err_set(e, EINVAL, "audit_reads = %s is not yes or no",
			       a->conf.audit_reads);
	if (last_in_log(a->conf.state_dir, &in_log, e) < 0 ||
	    open_spool(l, in_log, e) < 0)
		return -e->code;
	l->first = l->w.spool.next;
	entry.data = json_pack("{s:s, s:s}", "version", PRODUCT_VERSION, "boot",
			       a->boot_id);
	audit_add(a, &entry);
	return 0;
}

void audit_connect(struct api *a)
{
	writer_connect(&a->audit.w);
}

void audit_stop(struct api *a)
{
	const struct audit entry = { .type = "daemon.stop" };

	audit_add(a, &entry);
	writer_stop(&a->audit.w);
}

json_t *audit_json(struct api *a)
{
	const struct log_writer *w = &a->audit.w;
	struct err e = { 0 };

	return json_pack("{s:b, s:s?, s:I, s:I, s:I}", "up", w->up, "error",
			 audit_ready(a, &e) < 0 ? e.msg : NULL, "entries",
			 (json_int_t)w->seq, "waiting",
			 (json_int_t)(w->spool.next - 1 - w->written),
			 "spool_bytes",
			 (json_int_t)spool_file_bytes(&w->spool));
}
