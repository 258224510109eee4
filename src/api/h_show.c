/* Sandboxes shown: lists, and one of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/box_json.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/clock.h"
#include "http/target.h"

/* What keeps it from the host, in one word. */
static const char *isolation(const struct sandbox *s)
{
	if (!spec_is_vm(&s->spec))
		return "container";
	return s->kvm ? "vm" : "emulated";
}

/* All but its spec. */
static json_t *box_head(const struct sandbox *s)
{
	const struct spec *spec = &s->spec;
	json_t *j = json_pack(
		"{s:s, s:s, s:s?, s:o, s:s, s:s, s:s, s:s, s:b, s:o, s:o}",
		"id", s->id, "project", s->project, "name",
		*spec->name ? spec->name : NULL, "labels",
		spec->labels ? json_incref(spec->labels) : json_object(),
		"image", spec->image, "image_id", s->image_id, "state",
		box_state_name(s->state), "isolation", isolation(s), "degraded",
		s->degraded || s->agent.mute, "created_at",
		json_time(s->created_ms), "expires_at",
		json_time(s->deadline_wall_ms));

	if (s->state == BOX_PAUSED)
		json_object_set_new(j, "paused", pause_json(s));
	if (*s->parent)
		json_object_set_new(j, "parent", json_string(s->parent));
	if (strcmp(s->account->id, s->id) != 0)
		json_object_set_new(j, "account", json_string(s->account->id));
	if (*s->base)
		json_object_set_new(j, "base", json_string(s->base));
	if (s->gate)
		json_object_set_new(j, "door", gate_box_json(s));
	return j;
}

json_t *box_json(const struct sandbox *s)
{
	json_t *j = box_head(s);

	json_object_set_new(j, "spec", spec_to_json(&s->spec));
	return j;
}

static void add_box(const struct sandbox *s, const char *spec, struct buf *out)
{
	json_t *j = box_head(s);
	AUTO_FREE char *head = json_dumps(j, JSON_COMPACT);
	size_t n = head ? strlen(head) : 0;

	json_decref(j);
	if (n > 0)
		buf_add(out, head, n - 1); /* without the last brace */
	buf_puts(out, n > 0 ? ",\"spec\":" : "{\"spec\":");
	buf_puts(out, spec);
	buf_puts(out, "}");
}

void box_text(const struct sandbox *s, const char *spec, struct buf *out)
{
	buf_clear(out);
	add_box(s, spec, out);
}

void reply_box(struct api *a, struct http_conn *c, struct sandbox *s)
{
	AUTO(buf_done) struct buf out = { 0 };

	box_text(s, box_spec_shown(s), &out);
	reply_text(a, c, 200, NULL, buf_str(&out));
}

json_t *ended_json(const struct ended *x)
{
	return json_pack("{s:s, s:s, s:s?, s:s, s:s, s:o, s:{s:s, s:o}}", "id",
			 x->id, "project", x->project, "name",
			 *x->name ? x->name : NULL, "image", x->image, "state",
			 "ended", "created_at", json_time(x->created_ms),
			 "ended", "reason", x->reason, "at",
			 json_time(x->ended_ms));
}

/* --- lists --- */

enum {
	LIST_MAX = 1000,
	LIST_USUAL = 100, /* when no limit is given */
	FIGURES_KEEP_MS = 100,
};

/* What a list is asked for; "": anything. */
struct filter {
	const struct identity *who;
	char label[NAME_CAP + SPEC_LABEL_CAP]; /* "key", or "key=value" */
	char state[16], name[NAME_CAP], project[NAME_CAP];
	char after[ID_CAP];
	uint64_t limit;
};

static int take_filter(const struct http_head *h, struct filter *f,
		       struct err *e)
{
	const struct {
		const char *name;
		char *to;
		size_t cap;
	} words[] = {
		{ "label", f->label, sizeof(f->label) },
		{ "state", f->state, sizeof(f->state) },
		{ "name", f->name, sizeof(f->name) },
		{ "project", f->project, sizeof(f->project) },
		{ "after", f->after, sizeof(f->after) },
	};
	char limit[16];
	size_t i;
	int r;

	for (i = 0; i < ARRAY_LEN(words); i++)
		if (http_query(h, words[i].name, words[i].to, words[i].cap) < 0)
			return err_set(e, EINVAL,
				       "%s: given twice, or longer "
				       "than any",
				       words[i].name);
	f->limit = LIST_USUAL;
	r = http_query(h, "limit", limit, sizeof(limit));
	if (r < 0 || (r == 1 && (parse_u64(limit, LIST_MAX, &f->limit) < 0 ||
				 f->limit == 0)))
		return err_set(e, EINVAL, "limit: not 1 to %d", LIST_MAX);
	return 0;
}

static bool has_label(const struct spec *spec, const char *label)
{
	char key[NAME_CAP];
	size_t n = strcspn(label, "=");
	const char *value;

	if (n >= sizeof(key))
		return false;
	memcpy(key, label, n);
	key[n] = '\0';
	value = json_string_value(json_object_get(spec->labels, key));
	return value && (label[n] == '\0' || strcmp(label + n + 1, value) == 0);
}

static bool said(const char *want, const char *have)
{
	return *want == '\0' || strcmp(want, have) == 0;
}

static bool box_fits(const struct sandbox *s, const struct filter *f)
{
	return box_visible(s) && box_is_for(s, f->who) &&
	       said(f->project, s->project) && said(f->name, s->spec.name) &&
	       said(f->state, box_state_name(s->state)) &&
	       (*f->label == '\0' || has_label(&s->spec, f->label));
}

static bool ended_fits(const struct ended *x, const struct filter *f)
{
	return who_sees(f->who, x->project) && said(f->project, x->project) &&
	       said(f->name, x->name) && *f->label == '\0';
}

/* A page on its way: JSON text, because lists are long and asked for often. */
struct page {
	struct buf text;
	uint64_t n;
	char last[ID_CAP]; /* on it; "" none */
	bool more;         /* behind it */
};

/* False: the page is full, and this one comes next. */
static bool page_has_room(struct page *p, const struct filter *f,
			  const char *id)
{
	p->more = p->n == f->limit;
	if (p->more)
		return false;
	buf_puts(&p->text, p->n++ == 0 ? "" : ",");
	memcpy(p->last, id, ID_CAP);
	return true;
}

/*
 * The list is in the order of creation, so a page can follow one whose last
 * sandbox has ended meanwhile: behind all that are not younger.
 */
static struct list *page_start(struct api *a, const struct filter *f,
			       struct err *e)
{
	struct sandbox *s = box_by_id(a, f->after);
	const struct ended *x;
	struct list *n;

	if (*f->after == '\0')
		return a->boxes.all.next;
	if (s && box_is_for(s, f->who))
		return s->all.next;
	x = ended_find(a, f->who, f->after);
	if (!x) {
		err_set(e, EINVAL, "after: no sandbox '%s'", f->after);
		return NULL;
	}
	for (n = a->boxes.all.next; n != &a->boxes.all; n = n->next)
		if (container_of(n, struct sandbox, all)->created_ms >
		    x->created_ms)
			break;
	return n;
}

static int list_living(struct api *a, const struct filter *f, struct page *p,
		       struct err *e)
{
	struct list *n = page_start(a, f, e);

	if (!n)
		return -e->code;
	for (; n != &a->boxes.all && !p->more; n = n->next) {
		struct sandbox *s = container_of(n, struct sandbox, all);

		if (box_fits(s, f) && page_has_room(p, f, s->id))
			add_box(s, box_spec_shown(s), &p->text);
	}
	return 0;
}

static void add_ended(const struct ended *x, struct buf *out)
{
	json_t *j = ended_json(x);
	AUTO_FREE char *text = json_dumps(j, JSON_COMPACT);

	json_decref(j);
	buf_puts(out, text ? text : "null");
}

/* The newest first: who looks here wants to know what just happened. */
static void list_ended(struct api *a, const struct filter *f, struct page *p)
{
	bool on = *f->after == '\0';
	struct list *n;

	for (n = a->ends.all.prev; n != &a->ends.all && !p->more; n = n->prev) {
		const struct ended *x = container_of(n, struct ended, node);

		if (on && ended_fits(x, f) && page_has_room(p, f, x->id))
			add_ended(x, &p->text);
		on |= strcmp(x->id, f->after) == 0;
	}
}

static void h_sandbox_list(struct api *a, struct http_conn *c,
			   const struct call *call)
{
	struct filter f = { .who = &call->who };
	struct page p = { 0 };
	struct err e = { 0 };
	int r = take_filter(http_request(c), &f, &e);

	buf_puts(&p.text, "{\"sandboxes\":[");
	if (r == 0 && strcmp(f.state, "ended") == 0)
		list_ended(a, &f, &p);
	else if (r == 0)
		r = list_living(a, &f, &p, &e);
	if (r < 0) {
		reply_err(a, c, &e);
	} else {
		buf_puts(&p.text, "],\"next\":");
		if (p.more)
			buf_printf(&p.text, "\"%s\"}", p.last);
		else
			buf_puts(&p.text, "null}");
		reply_text(a, c, 200, NULL, buf_str(&p.text));
	}
	buf_done(&p.text);
}

/* --- one --- */

struct show {
	struct api *api;
	struct http_conn *conn;
	struct identity who;
	char id[ID_CAP];
	struct warden_call call;
};

static void show_gone(struct http_conn *c, void *owner)
{
	struct show *w = owner;

	(void)c;
	warden_cancel(&w->call);
	free(w);
}

static json_t *use_json(const struct sandbox_use *u)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "cpu_us",
			 (json_int_t)u->cpu_us, "memory_bytes",
			 (json_int_t)u->mem_bytes, "disk_bytes",
			 (json_int_t)u->disk_bytes, "pids", (json_int_t)u->pids,
			 "oom_kills", (json_int_t)u->oom_kills);
}

/* Of one that is not there: what became of it, or why not. */
static void show_end(struct api *a, struct http_conn *c,
		     const struct identity *who, const char *ref,
		     const struct err *e)
{
	const struct ended *x =
		e->code == ERR_ENDED ? ended_find(a, who, ref) : NULL;

	if (x)
		reply_json(a, c, 200, ended_json(x));
	else
		reply_err(a, c, e);
}

static void show(struct api *a, struct http_conn *c, struct sandbox *s,
		 json_t *usage)
{
	AUTO_FREE char *use = json_dumps(usage, JSON_COMPACT | JSON_ENCODE_ANY);
	AUTO(buf_done) struct buf out = { 0 };

	json_decref(usage);
	box_text(s, box_spec_shown(s), &out);
	out.len--; /* the last brace */
	buf_printf(&out, ",\"usage\":%s}", use ? use : "null");
	reply_text(a, c, 200, NULL, buf_str(&out));
}

static void on_stat(struct warden_call *c, const struct warden_rep *rep,
		    int fds[FD_PASS_MAX])
{
	AUTO_FREE struct show *w = container_of(c, struct show, call);
	struct err e = { 0 };
	struct sandbox *s = box_find(w->api, &w->who, w->id, &e);

	(void)fds;
	if (!s) {
		show_end(w->api, w->conn, &w->who, w->id, &e);
	} else if (rep->err.code) {
		/* Without figures rather than not at all. */
		show(w->api, w->conn, s, json_null());
	} else {
		meter_add(s, &rep->use);
		show(w->api, w->conn, s, use_json(&rep->use));
	}
}

/* Whoever asks again and again does not keep the warden busy. */
static bool figures_are_new(const struct sandbox *s)
{
	return s->meter.fresh &&
	       clock_boot_ms() - s->meter.at_ms < FIGURES_KEEP_MS;
}

static void h_sandbox_get(struct api *a, struct http_conn *c,
			  const struct call *call)
{
	struct err e = { 0 };
	struct sandbox *s = box_find(a, &call->who, call->arg[0], &e);
	struct show *w;

	if (!s) {
		show_end(a, c, &call->who, call->arg[0], &e);
		return;
	}
	if (figures_are_new(s)) {
		show(a, c, s, use_json(&s->meter.last));
		return;
	}
	w = xcalloc(1, sizeof(*w));
	w->api = a;
	w->conn = c;
	w->who = call->who;
	memcpy(w->id, s->id, ID_CAP);
	http_own(c, w, show_gone);
	warden_req_id(&w->call, WARDEN_STAT, s->id);
	warden_ask(&a->warden, &w->call, on_stat);
}

static const struct route_query list_query[] = {
	{ "label", "string", "only those with it: key, or key=value" },
	{ "state", "string", "running, paused, suspended, removing or ended" },
	{ "name", "string", NULL },
	{ "project", "string", NULL },
	{ "limit", "integer", "at most so many, 1 to 1000; 100 by default" },
	{ "after", "string", "the next page: `next` of the one before" },
	{ 0 },
};

const struct route show_routes[] = {
	{ "GET", "/v1/sandboxes", h_sandbox_list, SCOPE_READ, 0,
	  "List the sandboxes", list_query, NULL, "SandboxList", 200 },
	{ "GET", "/v1/sandboxes/{id}", h_sandbox_get, SCOPE_READ, 0,
	  "Show a sandbox", NULL, NULL, "Sandbox", 200 },
	{ 0 },
};
