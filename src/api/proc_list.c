/* The list of processes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/json_text.h"
#include "api/proc_json.h"
#include "api/ps_query.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/clock.h"

enum {
	WORDS_MAX = 64 * 1024, /* of all argument lists */
	RECORD_COST = 4096,    /* memory, about */
	WORD_COST = 128,
};

/* The last millisecond of the year 9999. */
static const uint64_t wall_max_ms = 253402300799999;

struct listing {
	struct ps_query query;
	struct api *api;
	struct http_conn *conn;
	json_t *found;
	char project[NAME_CAP];
	struct share *share; /* of `charged` bytes */
	size_t n_words, charged;
	bool refused; /* too much is being listed */
};

static void listing_free(struct listing *l)
{
	ps_query_stop(&l->query);
	json_decref(l->found);
	share_give(l->share, l->charged);
	free(l);
}

static void listing_gone(struct http_conn *c, void *owner)
{
	(void)c;
	listing_free(owner);
}

static json_t *text(const char *s)
{
	return json_lossy(s, strlen(s));
}

static json_t *argv_json(struct listing *l, const struct ps *r)
{
	json_t *list = json_array();
	const char *word;
	size_t at = 0;

	while (l->n_words++ < WORDS_MAX && (word = ps_arg(r, &at)))
		json_array_append_new(list, text(word));
	return list;
}

static json_t *record_json(struct listing *l, const struct ps *r)
{
	const struct ps_proc *p = &r->proc;
	bool exited = p->state == PS_EXITED;
	char started[CLOCK_STAMP];

	clock_stamp(p->started_ms < wall_max_ms ? p->started_ms : wall_max_ms,
		    started);
	return json_pack(
		"{s:I, s:I, s:o, s:o, s:b, s:o, s:b, s:s, s:s, s:o, "
		"s:I, s:I}",
		"number", (json_int_t)p->number, "pid", (json_int_t)p->pid,
		"tag", *p->tag ? text(p->tag) : json_null(), "argv",
		argv_json(l, r), "argv_cut", r->cut, "user", text(p->user),
		"tty", p->pty, "state", exited ? "exited" : "running",
		"started_at", started, "exit",
		exited ? exit_json(&p->exit) : json_null(), "stdout_end",
		(json_int_t)p->out[0], "stderr_end", (json_int_t)p->out[1]);
}

/* About what it takes as JSON, and as text of that. */
static bool charge(struct listing *l, const struct ps *r, size_t words)
{
	size_t n = RECORD_COST + words * WORD_COST + 2 * r->args_len;

	struct err e = { 0 };
	struct share *share =
		share_take(&l->api->pools.ps_bytes, l->project, n, &e);

	l->refused = !share;
	if (l->refused)
		return false;
	l->share = share;
	l->charged += n;
	return true;
}

static bool on_found(struct ps_query *q, const struct ps *r)
{
	struct listing *l = container_of(q, struct listing, query);
	size_t words = l->n_words;

	json_array_append_new(l->found, record_json(l, r));
	return charge(l, r, l->n_words - words) && l->n_words <= WORDS_MAX;
}

static void on_done(struct ps_query *q, const struct err *e)
{
	struct listing *l = container_of(q, struct listing, query);
	struct err many = { 0 };

	if (l->refused) {
		err_set(&many, EUSERS,
			"too many processes are being listed: "
			"wait for other lists to end");
		e = &many;
	}
	if (e)
		reply_err(l->api, l->conn, e);
	else
		reply_json(l->api, l->conn, 200,
			   json_pack("{s:O}", "processes", l->found));
	listing_free(l);
}

void h_process_list(struct api *a, struct http_conn *c, const struct call *call)
{
	struct err e = { 0 };
	struct sandbox *s = box_find(a, &call->who, call->arg[0], &e);
	struct listing *l;

	if (!s) {
		reply_err(a, c, &e);
		return;
	}
	l = xcalloc(1, sizeof(*l));
	l->query.found = on_found;
	l->query.done = on_done;
	l->api = a;
	l->conn = c;
	memcpy(l->project, call->who.project, sizeof(l->project));
	l->found = json_array();
	if (ps_query_start(&l->query, s, &e) < 0) {
		reply_err(a, c, &e);
		listing_free(l);
		return;
	}
	http_own(c, l, listing_gone);
}
