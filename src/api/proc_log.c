#include "api/proc_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/audit.h"
#include "api/json_text.h"
#include "api/proc_json.h"
#include "api/ps_query.h"
#include "base/auto.h"

enum {
	ARGV_MAX = 4096, /* bytes that are written down */
	ARGV_WORDS_MAX = 256,
};

struct proc_note {
	struct identity who;
	bool by_somebody;
	char request_id[HTTP_REQUEST_ID];
	json_t *data;
};

/* The words as they are, the last one cut; what is not UTF-8 is marked. */
static json_t *argv_json(const struct spawn *sp, bool *cut)
{
	json_t *list = json_array();
	size_t left = ARGV_MAX, i;

	for (i = 0; i < sp->argc && i < ARGV_WORDS_MAX && left > 0; i++) {
		size_t n = strnlen(sp->argv[i], left + 1);

		*cut |= n > left;
		n = n > left ? utf8_whole(sp->argv[i], left) : n;
		json_array_append_new(list, json_lossy(sp->argv[i], n));
		left -= n < left ? n + 1 : left;
	}
	*cut |= i < sp->argc;
	return list;
}

static json_t *text(const char *s)
{
	return s && *s ? json_lossy(s, strlen(s)) : json_null();
}

struct proc_note *proc_note_new(const struct sandbox *s, const struct spawn *sp,
				const struct identity *who,
				const char *request_id)
{
	const char *user = sp->user && *sp->user ? sp->user : s->spec.user;
	struct proc_note *n;
	bool cut = false;

	if (sp->flags & SPAWN_BUILTIN)
		return NULL;
	n = xcalloc(1, sizeof(*n));
	n->by_somebody = who != NULL;
	if (who)
		n->who = *who;
	if (request_id)
		snprintf(n->request_id, sizeof(n->request_id), "%s",
			 request_id);
	n->data = json_object();
	json_object_set_new(n->data, "argv", argv_json(sp, &cut));
	if (cut)
		json_object_set_new(n->data, "argv_cut", json_true());
	json_object_set_new(n->data, "user", text(user));
	json_object_set_new(n->data, "tag", text(sp->tag));
	json_object_set_new(n->data, "tty",
			    json_boolean(sp->flags & SPAWN_PTY));
	return n;
}

void proc_note_free(struct proc_note *n)
{
	if (!n)
		return;
	json_decref(n->data);
	free(n);
}

void proc_log_start(const struct sandbox *s, struct proc_note *n,
		    const struct started *st)
{
	struct audit entry = {
		.type = "process.start",
		.box = s,
		.who = n->by_somebody ? &n->who : NULL,
		.request_id = *n->request_id ? n->request_id : NULL,
		.data = n->data,
	};

	n->data = NULL;
	json_object_set_new(entry.data, "number",
			    json_integer((json_int_t)st->number));
	json_object_set_new(entry.data, "pid",
			    json_integer((json_int_t)st->pid));
	audit_add(s->api, &entry);
	proc_note_free(n);
}

void proc_log_exit(const struct sandbox *s, uint32_t number,
		   const struct exit_info *x)
{
	json_t *data = exit_json(x);

	json_object_set_new(data, "number", json_integer((json_int_t)number));
	audit_add(s->api, &(struct audit){ .type = "process.exit",
					   .box = s,
					   .data = data });
}

struct resume {
	struct ps_query query;
	struct sandbox *box; /* its end is also that of the query */
	struct deferred gone;
};

static void resume_free(struct deferred *d)
{
	free(container_of(d, struct resume, gone));
}

static bool resume_found(struct ps_query *q, const struct ps *r)
{
	struct resume *w = container_of(q, struct resume, query);

	if (r->proc.state != PS_EXITED || !r->proc.told)
		chan_watch(&w->box->agent, r->proc.number);
	return true;
}

static void resume_done(struct ps_query *q, const struct err *e)
{
	struct resume *w = container_of(q, struct resume, query);

	if (e)
		log_warn("sandbox=%s %s, exits of its processes may be missing "
			 "in the log",
			 w->box->id, e->msg);
	loop_defer(&w->box->api->loop, &w->gone, resume_free);
}

void proc_log_resume(struct sandbox *s)
{
	struct resume *w = xcalloc(1, sizeof(*w));
	struct err e = { 0 };

	w->box = s;
	w->query.found = resume_found;
	w->query.done = resume_done;
	if (ps_query_start(&w->query, s, &e) < 0)
		resume_done(&w->query, &e);
}
