/*
 * A door is one process: those that wait are one list. What they ask for is
 * kept, to be told again when the api comes back.
 */
#include "gate/ask.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "gate/ask_hook.h"
#include "gate/record.h"

enum { ASKS_BURST = 64, ASK_STEP_MS = 500 };
enum {
	PATH_SHOWN = 1024,
	RULE_SHOWN = 1024,
	METHOD_SHOWN = 32,
	CUT_ROOM = 48, /* for what says that it was cut */
};

struct ask_words {
	enum scheme scheme;
	char method[METHOD_SHOWN], host[POLICY_HOST_CAP], path[PATH_SHOWN];
	char target[PATH_SHOWN]; /* the path with its query */
	char part[GATE_PART_CAP], rule[RULE_SHOWN];
	uint16_t port;
	unsigned line;
};

static struct list asks = { &asks, &asks };
static unsigned n_asks;

static const char *scheme_word(enum scheme s)
{
	return s == SCHEME_HTTPS ? "https" : s == SCHEME_HTTP ? "http" : "tcp";
}

static void tell(const struct ask *a)
{
	const struct ask_words *w = a->words;
	const struct gate_msg m = { .kind = GATE_ASK,
				    .number = a->number,
				    .shown = a->shown,
				    .id = a->box->id,
				    .method = w->method,
				    .scheme = scheme_word(w->scheme),
				    .host = w->host,
				    .path = w->target,
				    .part = w->part,
				    .rule = w->rule,
				    .port = w->port,
				    .line = w->line };

	gate_tell(a->box->gate, &m);
}

/* Marks a URL that is cut, so that a person does not take it for complete. */
static void show_cut(char out[PATH_SHOWN], const char *s)
{
	size_t n = strlen(s);

	if (n < PATH_SHOWN)
		memcpy(out, s, n + 1);
	else
		snprintf(out, PATH_SHOWN, "%.*s...(cut, of %zu bytes)",
			 PATH_SHOWN - 1 - CUT_ROOM, s, n);
}

static void put_rule(struct ask_words *w, const struct ruling *why)
{
	struct buf rule = { 0 };

	snprintf(w->part, sizeof(w->part), "%s", why->part ? why->part : "");
	if (!why->rule)
		return;
	rule_print(why->rule, &rule);
	snprintf(w->rule, sizeof(w->rule), "%s", buf_str(&rule));
	w->line = why->rule->line;
	buf_done(&rule);
}

static struct ask_words *words_of(const struct ask_about *about)
{
	const struct request *r = about->request;
	struct ask_words *w = xcalloc(1, sizeof(*w));
	const char *path = r->path ? r->path : "";

	w->scheme = r->scheme;
	w->port = r->port;
	snprintf(w->method, sizeof(w->method), "%s",
		 r->method ? r->method : "");
	snprintf(w->host, sizeof(w->host), "%s", r->host);
	show_cut(w->path, path);
	show_cut(w->target, about->target ? about->target : path);
	if (about->over) {
		snprintf(w->part, sizeof(w->part), GATE_PART_BUDGET);
		snprintf(w->rule, sizeof(w->rule), "%s", about->over);
	} else {
		put_rule(w, about->ruling);
	}
	return w;
}

/* For the log, and for who is called (ask_hook.h). */
static void put_json(const struct ask_words *w, struct buf *out)
{
	buf_puts(out, "\"method\":");
	record_string(out, w->method);
	buf_printf(out, ",\"scheme\":\"%s\",\"host\":", scheme_word(w->scheme));
	record_string(out, w->host);
	buf_printf(out, ",\"port\":%u,\"path\":", w->port);
	record_string(out, w->path);
	buf_puts(out, ",\"part\":");
	record_string(out, w->part);
	buf_printf(out, ",\"line\":%u,\"rule\":", w->line);
	record_string(out, w->rule);
}

/* Out of everything. Who asked is called by the caller, or not at all. */
static void end(struct ask *a)
{
	const struct gate_msg m = { .kind = GATE_ASK_GONE,
				    .number = a->number };

	list_del(&a->node);
	timer_del(&a->box->gate->loop, &a->timer);
	a->box->n_asks--;
	n_asks--;
	free(a->words);
	a->words = NULL;
	gate_tell(a->box->gate, &m);
}

static void on_late(struct timer *t)
{
	struct ask *a = container_of(t, struct ask, timer);
	struct buf data = { 0 };
	struct err e = { 0 };

	put_json(a->words, &data);
	/* It ends as a denial, which is written down as well. */
	(void)!record_event(a->box->gate, a->box, "approval.expired",
			    buf_str(&data), &e);
	buf_done(&data);
	end(a);
	a->fn(a, false, "nobody has approved it in time");
}

/* Each is an entry of the log and wakes somebody: ASKS_BURST, then one every
 * ASK_STEP_MS. */
static bool has_room(struct box *b)
{
	uint64_t now = clock_boot_ms(), more;

	if (b->ask_room_ms == 0) {
		b->ask_room = ASKS_BURST;
		b->ask_room_ms = now;
	}
	more = (now - b->ask_room_ms) / ASK_STEP_MS;
	b->ask_room_ms += more * ASK_STEP_MS;
	b->ask_room = b->ask_room + more < ASKS_BURST ? b->ask_room + more
						      : ASKS_BURST;
	if (b->ask_room == 0)
		return false;
	b->ask_room--;
	return true;
}

static int may_ask(struct box *b, struct err *e)
{
	if (b->n_asks >= ASKS_OF_BOX)
		return err_set(e, EMFILE,
			       "%u requests of this sandbox wait for an "
			       "approval already",
			       b->n_asks);
	if (n_asks >= ASKS_MAX)
		return err_set(e, EMFILE,
			       "too many requests wait for an approval");
	if (!has_room(b))
		return err_set(e, EMFILE,
			       "this sandbox asks for approvals too often: try "
			       "again in a few seconds");
	return 0;
}

int ask_start(struct ask *a, struct box *b, const struct ask_about *about,
	      ask_fn *fn, struct err *e)
{
	AUTO(buf_done) struct buf data = { 0 };
	struct ask_words *w;

	if (may_ask(b, e) < 0)
		return -e->code;
	w = words_of(about);
	put_json(w, &data);
	if (record_event(b->gate, b, "approval.ask", buf_str(&data), e) < 0) {
		free(w);
		return -e->code;
	}
	a->box = b;
	a->number = ++b->gate->asks;
	a->shown = 0;
	a->words = w;
	a->fn = fn;
	list_add(&asks, &a->node);
	b->n_asks++;
	n_asks++;
	timer_set(&b->gate->loop, &a->timer,
		  b->ask_ms ? b->ask_ms : b->gate->conf->ask_timeout_ms,
		  on_late);
	tell(a);
	return 0;
}

void ask_cancel(struct ask *a)
{
	if (a->words)
		end(a);
}

static struct ask *find(uint64_t number)
{
	struct list *n, *next;

	list_each (n, next, &asks) {
		struct ask *a = container_of(n, struct ask, node);

		if (a->number == number)
			return a;
	}
	return NULL;
}

void ask_answer(struct gate *g, uint64_t number, bool allow)
{
	struct ask *a = find(number);

	(void)g;
	if (!a)
		return;
	end(a);
	a->fn(a, allow, allow ? "approved" : "denied by a person");
}

static void call_hook(struct gate *g, const struct ask *a, uint64_t shown)
{
	AUTO(buf_done) struct buf json = { 0 };

	buf_printf(&json,
		   "{\"type\":\"approval.ask\",\"number\":%llu,"
		   "\"sandbox\":\"%s\",\"name\":",
		   (unsigned long long)shown, a->box->id);
	record_string(&json, a->box->name);
	buf_puts(&json, ",\"project\":");
	record_string(&json, a->box->project->name);
	buf_puts(&json, ",");
	put_json(a->words, &json);
	buf_puts(&json, ",\"target\":");
	record_string(&json, a->words->target);
	buf_puts(&json, "}");
	ask_hook(g, buf_str(&json));
}

void ask_shown(struct gate *g, uint64_t number, uint64_t shown)
{
	struct ask *a = find(number);

	if (!a)
		return;
	/* Only now people have a word for it. */
	if (a->shown == 0)
		call_hook(g, a, shown);
	a->shown = shown;
}

void asks_tell(struct gate *g)
{
	struct list *n, *next;

	(void)g;
	list_each (n, next, &asks)
		tell(container_of(n, struct ask, node));
}
