/*
 * Entries are text that is put together here: the writer's process has no
 * JSON library, and what comes from strangers (hosts, paths, reasons) passes
 * through record_string() alone.
 *
 * A second is the measure of what a sandbox can cause without anything leaving
 * (denials, events): it has some in it, the rest are counted and told when it
 * is over.
 */
#include "gate/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/entry.h"
#include "audit/writer.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "gate/budget.h"

enum {
	POKE_MS = 20,
	DENIED_MS = 1000,
	DENIED_EACH = 10,   /* of a sandbox in that time */
	EVENTS_EACH = 50,   /* the same, of other events */
	DENIED_BOXES = 256, /* that are told apart; the others share */
	TEXT_MAX = 1024,    /* of a path, a reason */
};

/* Of a sandbox, in this second. */
struct denials {
	char box[ID_CAP], project[NAME_CAP]; /* "": several */
	unsigned written, events;
	uint64_t left_out, events_left_out;
};

struct recorder {
	struct gate *gate;
	struct log_writer w;
	char name[SCRIBE_NAME + 16];
	bool known;      /* the scribe has told where our numbers go on */
	uint64_t missed; /* entries that could not be kept */
	struct denials denials[DENIED_BOXES + 1];
	unsigned n_denials;
	struct timer second;
};

/* --- text --- */

/* The length of the character at `s`, or 0: it is not UTF-8. */
static size_t character(const char *s, size_t n)
{
	size_t i;

	for (i = 1; i <= 4 && i <= n; i++)
		if (str_is_utf8(s, i))
			return i;
	return 0;
}

/* Bytes that stand for themselves, from `s` on. */
static size_t plain_run(const char *s, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if ((signed char)s[i] < ' ' || s[i] == 0x7f || s[i] == '"' ||
		    s[i] == '\\')
			break;
	return i;
}

static void put_string(struct buf *out, const char *s, size_t n)
{
	size_t at, len;

	buf_puts(out, "\"");
	for (at = 0; at < n; at += len) {
		unsigned char ch = (unsigned char)s[at];

		len = plain_run(s + at, n - at);
		if (len > 0) {
			buf_add(out, s + at, len);
			continue;
		}
		len = character(s + at, n - at);
		if (len == 0) {
			buf_puts(out, "\\ufffd");
			len = 1;
		} else if (ch < 0x20 || ch == 0x7f) {
			buf_printf(out, "\\u%04x", ch);
		} else {
			if (ch == '"' || ch == '\\')
				buf_puts(out, "\\");
			buf_add(out, s + at, len);
		}
	}
	buf_puts(out, "\"");
}

void record_string(struct buf *out, const char *s)
{
	put_string(out, s, strlen(s));
}

/* The same for texts that may be of any length. */
static void put_text(struct buf *out, const char *name, const char *s)
{
	buf_printf(out, ",\"%s\":", name);
	put_string(out, s, strnlen(s, TEXT_MAX));
}

/* Ids and names of ours need no escapes. */
static void put_word(struct buf *out, const char *name, const char *s)
{
	if (s && *s)
		buf_printf(out, ",\"%s\":\"%s\"", name, s);
	else
		buf_printf(out, ",\"%s\":null", name);
}

static void begin(struct buf *out, const char *type, const char *box,
		  const char *project)
{
	char stamp[CLOCK_STAMP];

	clock_stamp(clock_wall_ms(), stamp);
	buf_clear(out);
	buf_printf(out, "{\"time\":\"%s\",\"type\":\"%s\"", stamp, type);
	put_word(out, "sandbox", box);
	put_word(out, "project", project);
	buf_puts(out, ",\"who\":null,\"request\":null,\"data\":{");
}

static const char *project_of(const struct box *b)
{
	return b && b->project ? b->project->name : NULL;
}

/* --- into the spool --- */

/* Closes what begin() began; the record's number, or -errno. */
static int64_t put(struct recorder *r, struct buf *b)
{
	int64_t n;

	if (!r->known)
		return -ENOLINK;
	if (r->missed)
		buf_printf(b, ",\"missed\":%llu",
			   (unsigned long long)r->missed);
	buf_puts(b, "}}");
	if (buf_len(b) > ENTRY_BODY_MAX)
		return -E2BIG;
	n = writer_add(&r->w, buf_data(b), buf_len(b));
	if (n > 0) {
		r->missed = 0;
		writer_poke(&r->w, false);
	}
	return n;
}

/* What happened anyway: if it cannot be told now, that is told later. */
static void put_or_count(struct recorder *r, struct buf *b)
{
	int64_t n = put(r, b);

	if (n < 0 && r->missed++ == 0)
		log_err("write to %s: %s, counting what is missed", r->name,
			strerror((int)-n));
}

int record_ready(struct gate *g, struct err *e)
{
	const struct recorder *r = g->record;

	if (r && r->known && writer_is_heard(&r->w))
		return 0;
	return err_set(e, LOG_AWAY,
		       "the log does not answer: nothing leaves; an operator "
		       "finds the reason in the daemon's log");
}

/* --- requests --- */

static void put_request(struct buf *b, const struct egress *x)
{
	const struct request *q = x->request;
	AUTO(buf_done) struct buf rule = { 0 };
	unsigned i;

	buf_printf(b, "\"kind\":\"%s\"", x->kind);
	if (q->method)
		put_text(b, "method", q->method);
	put_text(b, "host", q->host);
	buf_printf(b, ",\"port\":%u", q->port);
	if (q->path)
		put_text(b, "path", q->path);
	if (x->ruling) {
		ruling_text(x->box, x->ruling, &rule);
		put_text(b, "rule", buf_str(&rule));
	}
	for (i = 0; i < x->n_secrets && i < GATE_USES_MAX; i++) {
		buf_puts(b, i ? "," : ",\"secrets\":[");
		record_string(b, x->secrets[i]);
	}
	if (i > 0)
		buf_puts(b, "]");
}

int record_request(struct gate *g, struct egress *x, struct err *e)
{
	static struct buf b;
	int64_t n;

	if (record_ready(g, e) < 0)
		return -e->code;
	begin(&b,
	      x->ruling && x->ruling->observed ? "egress.observed"
					       : "egress.request",
	      x->box->id, project_of(x->box));
	put_request(&b, x);
	n = put(g->record, &b);
	if (n < 0)
		return err_set(e, LOG_AWAY, "the log cannot be written to: %s",
			       strerror((int)-n));
	x->number = (uint64_t)n;
	return 0;
}

void record_done(struct gate *g, const struct egress *x,
		 const struct egress_end *end)
{
	static struct buf b;

	if (!g->record)
		return;
	begin(&b, "egress.done", x->box->id, project_of(x->box));
	buf_printf(&b, "\"of\":%llu", (unsigned long long)x->number);
	if (x->request)
		put_text(&b, "host", x->request->host);
	if (end->status)
		buf_printf(&b, ",\"status\":%d", end->status);
	buf_printf(&b, ",\"up\":%llu,\"down\":%llu,\"ms\":%llu",
		   (unsigned long long)end->up_bytes,
		   (unsigned long long)end->down_bytes,
		   (unsigned long long)end->ms);
	if (end->failure)
		put_text(&b, "failure", end->failure);
	put_or_count(g->record, &b);
}

/* --- denials --- */

static void on_second(struct timer *t)
{
	static struct buf b;
	struct recorder *r = container_of(t, struct recorder, second);
	unsigned i;

	for (i = 0; i < r->n_denials; i++) {
		const struct denials *d = &r->denials[i];

		if (d->left_out > 0) {
			begin(&b, "egress.denied", d->box, d->project);
			buf_printf(&b, "\"left_out\":%llu",
				   (unsigned long long)d->left_out);
			put_or_count(r, &b);
		}
		if (d->events_left_out > 0) {
			begin(&b, "egress.limited", d->box, d->project);
			buf_printf(&b, "\"events\":%llu",
				   (unsigned long long)d->events_left_out);
			put_or_count(r, &b);
		}
	}
	r->n_denials = 0;
}

static struct denials *denials_of(struct recorder *r, const struct box *box)
{
	struct denials *d;
	unsigned i;

	for (i = 0; i < r->n_denials; i++)
		if (strcmp(r->denials[i].box, box->id) == 0)
			return &r->denials[i];
	if (r->n_denials > DENIED_BOXES)
		return &r->denials[DENIED_BOXES];
	if (r->n_denials == 0)
		timer_set(&r->gate->loop, &r->second, DENIED_MS, on_second);
	d = &r->denials[r->n_denials++];
	*d = (struct denials){ 0 };
	if (r->n_denials <= DENIED_BOXES) {
		memcpy(d->box, box->id, sizeof(d->box));
		snprintf(d->project, sizeof(d->project), "%s",
			 box->project ? box->project->name : "");
	}
	return d;
}

void record_denied(struct gate *g, const struct egress *x, const char *why)
{
	static struct buf b;
	struct recorder *r = g->record;
	struct denials *d;

	budget_denied(x->box);
	if (!r)
		return;
	d = denials_of(r, x->box);
	if (d->written >= DENIED_EACH || !r->known) {
		d->left_out++;
		return;
	}
	d->written++;
	begin(&b, "egress.denied", x->box->id, project_of(x->box));
	put_request(&b, x);
	put_text(&b, "why", why);
	put_or_count(r, &b);
}

/* --- anything else --- */

static bool event_fits(struct recorder *r, const struct box *box)
{
	struct denials *d = denials_of(r, box);

	if (d->events >= EVENTS_EACH) {
		d->events_left_out++;
		return false;
	}
	d->events++;
	return true;
}

int record_event(struct gate *g, const struct box *box, const char *type,
		 const char *json, struct err *e)
{
	static struct buf b;
	int64_t n;

	if (record_ready(g, e) < 0)
		return -e->code;
	if (box && !event_fits(g->record, box))
		return err_set(e, EAGAIN,
			       "too much at once for the log: try again in a "
			       "second");
	begin(&b, type, box ? box->id : NULL, project_of(box));
	buf_puts(&b, json);
	n = put(g->record, &b);
	return n < 0 ? err_set(e, LOG_AWAY, "the log cannot be written to: %s",
			       strerror((int)-n))
		     : 0;
}

/* --- start and stop --- */

static void on_ack(struct log_writer *w, bool grown)
{
	(void)grown;
	container_of(w, struct recorder, w)->known = true;
}

/* A spool that is none has nothing for the log. */
static int open_spool(struct recorder *r, struct err *e)
{
	struct err bad = { 0 };

	if (writer_open(&r->w, 0, &bad) == 0)
		return 0;
	if (bad.code != EBADMSG) {
		*e = bad;
		return -e->code;
	}
	log_err("%s, making a new one", bad.msg);
	if (ftruncate(r->w.spool.fd, 0) < 0)
		return err_sys(e, "empty %s", r->name);
	return writer_open(&r->w, 0, e);
}

int recorder_new(struct recorder **out, struct gate *g, int spool_fd,
		 struct err *e)
{
	struct recorder *r = xcalloc(1, sizeof(*r));

	r->gate = g;
	r->w.loop = &g->loop;
	r->w.poke_ms = POKE_MS;
	r->w.adopt = true;
	r->w.on_ack = on_ack;
	snprintf(r->w.name, sizeof(r->w.name), "gate%s%s", *g->door ? "." : "",
		 g->door);
	snprintf(r->w.socket, sizeof(r->w.socket), GATE_LOG_DIR "/scribe.sock");
	snprintf(r->name, sizeof(r->name), "the spool of %s", r->w.name);
	r->w.spool.fd = spool_fd;
	r->w.spool.read_fd = -1;
	r->w.spool.name = r->name;
	r->w.spool.size_max = g->conf->audit_spool_bytes;
	if (open_spool(r, e) < 0) {
		spool_file_close(&r->w.spool);
		free(r);
		return -e->code;
	}
	*out = r;
	writer_connect(&r->w);
	return 0;
}

void recorder_free(struct recorder *r)
{
	if (!r)
		return;
	timer_del(&r->gate->loop, &r->second);
	writer_stop(&r->w);
	free(r);
}
