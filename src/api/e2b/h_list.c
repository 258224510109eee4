/*
 * E2B's lists of sandboxes: the newest first, in pages. A page goes on behind
 * a time and an id, not behind a sandbox: that may have ended meanwhile.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/build.h"
#include "api/e2b/filter.h"
#include "api/e2b/job.h"
#include "api/e2b/sandbox.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/clock.h"
#include "http/target.h"

enum { PAGE_MAX = 100, TOKEN_CAP = 24 + ID_CAP };

struct wish {
	const struct identity *who;
	json_t *metadata; /* or NULL */
	bool running, paused, oldest_first;
	char template_ref[CALL_ARG_CAP];
	uint64_t after_ms; /* startedAfter */
	uint64_t limit;
	/* Behind this one; 0: from the beginning. */
	uint64_t last_ms;
	char last_id[ID_CAP];
};

/* --- what is asked for --- */

/* "running,paused", or each on its own. */
static int take_states(const struct http_head *h, struct wish *w, struct err *e)
{
	const char *at = h->query;
	char text[64], *word, *rest;
	int r;

	while ((r = http_query_next(&at, "state", text, sizeof(text))) == 1)
		for (word = strtok_r(text, ",", &rest); word;
		     word = strtok_r(NULL, ",", &rest)) {
			if (strcmp(word, "running") == 0)
				w->running = true;
			else if (strcmp(word, "paused") == 0)
				w->paused = true;
			else
				r = -EINVAL;
			if (r < 0)
				goto bad;
		}
	if (r == 0) {
		if (!w->running && !w->paused)
			w->running = w->paused = true;
		return 0;
	}
bad:
	return err_set(e, EINVAL, "state: there are 'running' and 'paused'");
}

static int take_metadata(const struct http_head *h, struct wish *w,
			 struct err *e)
{
	AUTO_FREE char *text = xcalloc(HTTP_TARGET_MAX, 1);
	int r = http_query(h, "metadata", text, HTTP_TARGET_MAX);

	if (r < 0)
		return err_set(e, EINVAL, "metadata: not text");
	if (r == 0)
		return 0;
	w->metadata = e2b_filter_parse(text, e);
	return w->metadata ? 0 : -e->code;
}

/* "time.id" of the last one of the page before. */
static int take_token(const struct http_head *h, struct wish *w, struct err *e)
{
	char text[TOKEN_CAP], *dot;
	int r = http_query(h, "nextToken", text, sizeof(text));

	if (r == 0 || (r == 1 && *text == '\0'))
		return 0;
	dot = r == 1 ? strchr(text, '.') : NULL;
	if (dot)
		*dot++ = '\0';
	if (!dot || parse_u64(text, UINT64_MAX, &w->last_ms) < 0 ||
	    !id_valid(dot))
		return err_set(e, EINVAL, "nextToken: not one of ours");
	memcpy(w->last_id, dot, ID_CAP);
	return 0;
}

static int take_rest(const struct http_head *h, struct wish *w, struct err *e)
{
	char text[64];
	int r = http_query(h, "limit", text, sizeof(text));

	w->limit = PAGE_MAX;
	if (r < 0 || (r == 1 && (parse_u64(text, PAGE_MAX, &w->limit) < 0 ||
				 w->limit == 0)))
		return err_set(e, EINVAL, "limit: not 1 to %d", PAGE_MAX);
	r = http_query(h, "order", text, sizeof(text));
	w->oldest_first = r == 1 && strcmp(text, "asc") == 0;
	if (r < 0 || (r == 1 && !w->oldest_first && strcmp(text, "desc") != 0))
		return err_set(e, EINVAL, "order: there are 'asc' and 'desc'");
	r = http_query(h, "startedAfter", text, sizeof(text));
	if (r < 0 || (r == 1 && clock_parse(text, &w->after_ms) < 0))
		return err_set(e, EINVAL, "startedAfter: not a time");
	if (http_query(h, "template", w->template_ref,
		       sizeof(w->template_ref)) < 0)
		return err_set(e, EINVAL, "template: not a name");
	return 0;
}

static int take_wish(const struct http_head *h, struct wish *w, struct err *e)
{
	if (take_states(h, w, e) < 0 || take_metadata(h, w, e) < 0 ||
	    take_token(h, w, e) < 0)
		return -e->code;
	return take_rest(h, w, e);
}

/* --- which of them --- */

static bool is_of(const struct sandbox *s, const char *template_ref)
{
	const char *alias =
		json_string_value(json_object_get(e2b_kept(s), "alias"));

	return *template_ref == '\0' ||
	       strcmp(e2b_template_of(s), template_ref) == 0 ||
	       (alias && strcmp(alias, template_ref) == 0);
}

/* Ours, for a while: nobody made it. */
static bool is_helper(const struct sandbox *s)
{
	return build_has_box(s->api, s->id) || volume_has_box(s->api, s->id);
}

static bool fits(const struct sandbox *s, const struct wish *w)
{
	return box_is_for(s, w->who) && box_visible(s) && !is_helper(s) &&
	       s->state != BOX_ENDING && s->created_ms > w->after_ms &&
	       is_of(s, w->template_ref) &&
	       e2b_filter_fits(w->metadata, e2b_metadata(s));
}

/* Behind the page before this one? */
static bool is_behind(const struct sandbox *s, const struct wish *w)
{
	if (w->last_ms == 0)
		return true;
	if (s->created_ms != w->last_ms)
		return (s->created_ms > w->last_ms) == w->oldest_first;
	return strcmp(s->id, w->last_id) != 0;
}

struct page {
	json_t *list;
	unsigned running;
	char next[TOKEN_CAP]; /* "": it is the last one */
};

static void fill(struct api *a, const struct wish *w, struct page *p)
{
	struct list *end = &a->boxes.all, *n;
	const struct sandbox *last = NULL;

	for (n = w->oldest_first ? end->next : end->prev; n != end;
	     n = w->oldest_first ? n->next : n->prev) {
		struct sandbox *s = container_of(n, struct sandbox, all);
		bool paused = e2b_is_paused(s);

		if (!fits(s, w))
			continue;
		p->running += !paused;
		if (!(paused ? w->paused : w->running) || !is_behind(s, w))
			continue;
		if (json_array_size(p->list) < w->limit) {
			json_array_append_new(p->list, e2b_listed_json(s));
			last = s;
		} else if (last && *p->next == '\0') {
			snprintf(p->next, sizeof(p->next), "%llu.%s",
				 (unsigned long long)last->created_ms,
				 last->id);
		}
	}
}

static void answer(struct api *a, struct http_conn *c, struct wish *w)
{
	struct page p = { .list = json_array() };
	AUTO_FREE char *text = NULL;
	char running[16];
	struct http_field fields[] = {
		{ "X-Total-Running", running },
		{ NULL, NULL },
		{ NULL, NULL },
	};

	fill(a, w, &p);
	snprintf(running, sizeof(running), "%u", p.running);
	if (*p.next)
		fields[1] = (struct http_field){ "X-Next-Token", p.next };
	text = json_dumps(p.list, JSON_COMPACT);
	json_decref(p.list);
	reply_text(a, c, 200, fields, text ? text : "[]");
}

static void h_list(struct api *a, struct http_conn *c, const struct call *call)
{
	struct wish w = { .who = &call->who };
	struct err e = { 0 };

	if (take_wish(http_request(c), &w, &e) < 0)
		e2b_fail_err(a, c, &e);
	else
		answer(a, c, &w);
	json_decref(w.metadata);
}

/* The old one knows of those that run alone. */
static void h_list_v1(struct api *a, struct http_conn *c,
		      const struct call *call)
{
	struct wish w = { .who = &call->who, .running = true };
	struct err e = { 0 };

	if (take_metadata(http_request(c), &w, &e) < 0) {
		e2b_fail_err(a, c, &e);
	} else {
		w.limit = UINT64_MAX;
		answer(a, c, &w);
	}
	json_decref(w.metadata);
}

const struct route e2b_list_routes[] = {
	E2B_ROW("GET", "/v2/sandboxes", h_list, "E2B: list"),
	E2B_ROW("GET", "/sandboxes", h_list_v1, "E2B: list, old"),
	{ 0 },
};
