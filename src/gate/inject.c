#include "gate/inject.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/guards.h"
#include "gate/oauth.h"
#include "gate/opened.h"
#include "gate/record.h"
#include "http/target.h"
#include "vault/totp.h"

enum {
	BODY_MAX = 16 << 20, /* that is signed */
	TOLD_MAX = 10,       /* canaries of a sandbox in a second */
};

/* --- words that a sandbox must not send --- */

/* Labels are indices of box.uses. */
struct box_words {
	struct scan_set *placeholders, *canaries;
	struct box_use uses[GATE_USES_MAX]; /* that they were made of */
	uint64_t told_ms; /* canaries of this second that were written down */
	unsigned told;
	struct box_words *older;
};

static struct box_words *words_of(struct box *b)
{
	struct box_words *w = b->words;
	unsigned i;

	if (w && w->placeholders)
		return w;
	if (!w)
		w = b->words = xcalloc(1, sizeof(*w));
	memcpy(w->uses, b->uses, sizeof(w->uses));
	w->placeholders = scan_set_new();
	w->canaries = scan_set_new();
	for (i = 0; i < b->n_uses; i++) {
		const struct box_use *u = &b->uses[i];

		if (u->canary)
			scan_set_add_loose(w->canaries, u->placeholder,
					   strlen(u->placeholder), i);
		else
			scan_set_add(w->placeholders, u->placeholder,
				     strlen(u->placeholder), i);
	}
	return w;
}

void inject_uses(struct box *b)
{
	struct box_words *w = b->words;

	if (!w || !w->placeholders ||
	    memcmp(w->uses, b->uses, sizeof(w->uses)) == 0)
		return;
	b->words = xcalloc(1, sizeof(*w));
	b->words->older = w;
}

void inject_forget(struct box *b)
{
	struct box_words *w;

	while ((w = b->words)) {
		b->words = w->older;
		scan_set_free(w->placeholders);
		scan_set_free(w->canaries);
		free(w);
	}
}

const struct scan_set *inject_canaries(struct box *b)
{
	const struct scan_set *s = words_of(b)->canaries;

	return !GUARD(CANARY) || scan_set_empty(s) ? NULL : s;
}

static void put_place(struct buf *b, const char *name, const struct request *r)
{
	buf_puts(b, "\"name\":");
	record_string(b, name);
	buf_puts(b, ",\"host\":");
	record_string(b, r->host);
	buf_printf(b, ",\"port\":%u", r->port);
	if (r->method) {
		buf_puts(b, ",\"method\":");
		record_string(b, r->method);
	}
}

/* A sandbox must not fill the log with them. */
static bool may_tell(struct box *b)
{
	struct box_words *w = words_of(b);
	uint64_t now = clock_boot_ms();

	if (now >= w->told_ms + 1000) {
		w->told_ms = now;
		w->told = 0;
	}
	return w->told++ < TOLD_MAX;
}

void inject_canary(struct box *b, const struct request *r, unsigned label,
		   struct err *e)
{
	const char *name = label < b->n_uses ? b->uses[label].name : "?";
	AUTO(buf_done) struct buf json = { 0 };
	struct err ignored = { 0 };

	put_place(&json, name, r);
	/* It is refused whether or not that can be written down. */
	if (may_tell(b) && record_event(b->gate, b, "canary.found",
					buf_str(&json), &ignored) < 0)
		err_clear(&ignored);
	err_set(e, EACCES,
		"the request carries the canary %s, which nobody may use: an "
		"operator was told",
		name);
}

/* The label of a word in a text; -1: none. */
static int look(const struct scan_set *set, const char *text)
{
	struct scan s = { .set = set };
	int label = scan_look(&s, text, strlen(text)) ? (int)s.label : -1;

	scan_done(&s);
	return label;
}

/* The same in all that says where it goes: hosts as they came and as they
 * are sent, too. */
static int look_at_target(const struct scan_set *set, const struct inject *j,
			  const char *target)
{
	int label = look(set, target);

	if (label < 0)
		label = look(set, j->request->host);
	if (label < 0 && j->head->authority)
		label = look(set, j->head->authority);
	return label;
}

/* --- which secrets --- */

bool inject_needs_look(const struct box *b, const char *host, uint16_t port)
{
	const struct request r = { SCHEME_HTTPS, host, port, NULL, NULL };
	const struct secret *s;
	unsigned i;

	for (i = 0; i < b->n_uses; i++) {
		if (b->uses[i].canary)
			return true;
		s = secret_of(b->project, b->uses[i].name);
		if (s && secret_binds(s, &r))
			return true;
	}
	return false;
}

bool inject_wants_body(const struct box *b, const struct request *r,
		       const struct http_head *head, size_t *max)
{
	const struct secret *s;
	unsigned i;

	*max = BODY_MAX;
	if (credential_unsigned(head))
		return false;
	for (i = 0; i < b->n_uses; i++) {
		s = b->uses[i].canary ? NULL
				      : secret_of(b->project, b->uses[i].name);
		if (s && s->kind == SECRET_SIGV4 && secret_binds(s, r))
			return true;
	}
	return false;
}

struct pick {
	struct secret *secret;
	char slot[NAME_CAP * 2 + 1];
	bool meant; /* the sandbox sent its placeholder */
};

/* What is sent in a slot, as far as it matters who is meant by it. */
static bool is_meant(struct inject *j, unsigned use)
{
	const struct scan_set *set = words_of(j->box)->placeholders;
	unsigned i;

	if (look(set, j->target) == (int)use)
		return true;
	for (i = 0; i < j->head->n_fields; i++)
		if (look(set, j->head->field[i].value) == (int)use)
			return true;
	return false;
}

/*
 * At most one secret for each place. Of several for the same one the sandbox
 * may choose by its placeholder; else it is the first that its spec names.
 */
static unsigned pick_secrets(struct inject *j, struct pick picks[MADE_SECRETS])
{
	const struct box *b = j->box;
	unsigned i, k, n = 0;

	for (i = 0; i < b->n_uses; i++) {
		struct pick p = { 0 };

		if (b->uses[i].canary)
			continue;
		p.secret = secret_of(b->project, b->uses[i].name);
		if (!p.secret || !secret_binds(p.secret, j->request))
			continue;
		credential_slot(p.secret, p.slot);
		p.meant = is_meant(j, i);
		for (k = 0; k < n; k++)
			if (strcasecmp(picks[k].slot, p.slot) == 0)
				break;
		if (k == MADE_SECRETS ||
		    (k < n && (picks[k].meant || !p.meant)))
			continue;
		picks[k] = p;
		n += k == n;
	}
	return n;
}

/* --- the head --- */

static int refuse_canaries(struct inject *j, struct err *e)
{
	const struct scan_set *set = inject_canaries(j->box);
	const struct http_head *h = j->head;
	int label;
	unsigned i;

	if (!set)
		return 0;
	label = look_at_target(set, j, j->target);
	for (i = 0; i < h->n_fields && label < 0; i++) {
		label = look(set, h->field[i].name);
		if (label < 0)
			label = look(set, h->field[i].value);
	}
	if (label < 0)
		return 0;
	inject_canary(j->box, j->request, (unsigned)label, e);
	return -EACCES;
}

static bool replaced(const struct inject *j, const char *name)
{
	const struct http_field *f;

	for (f = j->fields; f && f->name; f++)
		if (strcasecmp(f->name, name) == 0)
			return true;
	return false;
}

static int refuse(struct inject *j, int label, const char *where, struct err *e)
{
	const struct box_use *u = &j->box->uses[label];
	const struct secret *s = secret_of(j->box->project, u->name);

	if (!s)
		return err_set(e, EACCES,
			       "secret %s was removed: its placeholder is "
			       "worth nothing any more",
			       u->name);
	return err_set(e, EACCES,
		       "the placeholder of secret %s in %.64s is worth nothing "
		       "there: that secret is for %.100s",
		       u->name, where,
		       s->n_hosts ? s->hosts[0] : "codes at gate.carrel");
}

/* The parameters that secrets fill are not the sandbox's any more. */
static void own_target(const struct inject *j, const struct pick *picks,
		       unsigned n, struct buf *out)
{
	struct buf now = { 0 };
	unsigned i;

	buf_puts(out, j->target);
	for (i = 0; i < n; i++) {
		const char *query;

		if (picks[i].slot[0] != '?')
			continue;
		query = strchr(buf_str(out), '?');
		if (!query)
			break;
		buf_add(&now, buf_data(out),
			(size_t)(query + 1 - buf_data(out)));
		http_query_without(&now, query + 1, picks[i].slot + 1);
		buf_done(out);
		*out = now;
		now = (struct buf){ 0 };
	}
}

static int refuse_placeholders(struct inject *j, const struct pick *picks,
			       unsigned n, struct err *e)
{
	const struct scan_set *set = words_of(j->box)->placeholders;
	AUTO(buf_done) struct buf target = { 0 };
	const struct http_head *h = j->head;
	unsigned i;
	int label;

	if (!GUARD(PLACEHOLDER) || scan_set_empty(set))
		return 0;
	own_target(j, picks, n, &target);
	label = look_at_target(set, j, buf_str(&target));
	if (label >= 0)
		return refuse(j, label, "the address", e);
	for (i = 0; i < h->n_fields; i++) {
		label = look(set, h->field[i].name);
		if (label < 0 && !replaced(j, h->field[i].name))
			label = look(set, h->field[i].value);
		if (label >= 0)
			return refuse(j, label, h->field[i].name, e);
	}
	return 0;
}

/* --- making them --- */

struct injecting {
	struct made made;
	struct inject *j;
	char names[MADE_SECRETS][NAME_CAP];
	struct oauth_wait wait;
	bool waiting;
};

/* One scan has one set of words. */
static void set_mask(struct inject *j, struct made *m)
{
	unsigned i;

	if (m->n_words == 1) {
		j->mask.set = m->words[0]->set;
		return;
	}
	m->all = scan_set_new();
	for (i = 0; i < m->n_words; i++)
		scan_set_copy(m->all, m->words[i]->set, i);
	j->mask.set = m->all;
}

static int make(struct inject *j, struct injecting *x, const struct pick *picks,
		unsigned n, struct err *e)
{
	struct opened *o;
	unsigned i;

	made_done(&x->made);
	j->n_names = 0;
	for (i = 0; i < n; i++) {
		o = opened_get(j->box->project, picks[i].secret, e);
		if (!o || credential_make(&x->made, j, o, e) < 0)
			return -e->code;
		snprintf(x->names[i], NAME_CAP, "%s", picks[i].secret->name);
		j->names[j->n_names++] = x->names[i];
	}
	if (n == 0)
		return 0;
	j->fields = x->made.fields;
	j->new_target =
		buf_len(&x->made.target) ? buf_str(&x->made.target) : NULL;
	j->identity = GUARD(IDENTITY);
	if (GUARD(MASK))
		set_mask(j, &x->made);
	return 0;
}

static void on_token(struct oauth_wait *w, const struct err *e);

/* Must a token be fetched first? Then it is under way. */
static bool wait_for_token(struct injecting *x, const struct pick *picks,
			   unsigned n, struct err *e)
{
	struct box *b = x->j->box;
	unsigned i;

	for (i = 0; i < n; i++) {
		struct opened *o;

		if (picks[i].secret->kind != SECRET_OAUTH2)
			continue;
		o = opened_get(b->project, picks[i].secret, e);
		if (!o)
			return false;
		if (oauth_token(o->oauth))
			continue;
		x->wait.fn = on_token;
		x->waiting = true;
		oauth_fetch(o->oauth, &x->wait);
		return true;
	}
	return false;
}

/* From the start, also after a token came: secrets may be others by then. */
static void go_on(struct inject *j)
{
	struct injecting *x = j->state;
	struct pick picks[MADE_SECRETS];
	struct err e = { 0 };
	unsigned n = pick_secrets(j, picks);

	if (wait_for_token(x, picks, n, &e))
		return;
	if (!e.code && make(j, x, picks, n, &e) == 0 &&
	    refuse_placeholders(j, picks, n, &e) == 0)
		err_clear(&e);
	j->done(j, &e);
}

static void on_token(struct oauth_wait *w, const struct err *e)
{
	struct injecting *x = container_of(w, struct injecting, wait);

	x->waiting = false;
	if (e->code)
		x->j->done(x->j, e);
	else
		go_on(x->j);
}

void inject_start(struct inject *j, inject_fn *done)
{
	struct injecting *x;
	struct err e = { 0 };

	if (j->box->n_uses == 0) {
		done(j, &e);
		return;
	}
	x = xcalloc(1, sizeof(*x));
	x->j = j;
	j->state = x;
	j->done = done;
	if (refuse_canaries(j, &e) < 0)
		done(j, &e);
	else
		go_on(j);
}

void inject_cancel(struct inject *j)
{
	struct injecting *x = j->state;

	if (x && x->waiting)
		oauth_cancel(&x->wait);
	if (x)
		x->waiting = false;
}

/* --- answers --- */

void inject_mask_text(struct inject *j, const char *text, struct buf *out)
{
	struct scan s = { .set = j->mask.set };

	scan_mask(&s, text, strlen(text), true, out);
	j->mask.found += s.found;
	if (s.found)
		j->mask.label = s.label;
	scan_done(&s);
}

void inject_mask_name(struct inject *j, const char *name, struct buf *out)
{
	struct scan s = { .set = j->mask.set };
	size_t n = strlen(name);

	if (scan_look(&s, name, n)) {
		j->mask.found++;
		j->mask.label = s.label;
		memset(buf_room(out, n), '*', n);
		buf_fill(out, n);
	} else {
		buf_add(out, name, n);
	}
	scan_done(&s);
}

static void tell_echo(struct inject *j)
{
	AUTO(buf_done) struct buf json = { 0 };
	unsigned label = j->mask.label < j->n_names ? j->mask.label : 0;
	struct err e = { 0 };

	put_place(&json, j->names[label], j->request);
	buf_printf(&json, ",\"times\":%u", j->mask.found);
	if (record_event(j->box->gate, j->box, "secret.echo", buf_str(&json),
			 &e) < 0)
		err_clear(&e); /* it was masked all the same */
}

void inject_done(struct inject *j)
{
	struct injecting *x = j->state;

	inject_cancel(j);
	if (j->mask.found > 0 && j->n_names > 0)
		tell_echo(j);
	scan_done(&j->mask);
	j->mask = (struct scan){ 0 };
	j->fields = NULL;
	j->new_target = NULL;
	j->n_names = 0;
	if (!x)
		return;
	made_done(&x->made);
	free(x);
	j->state = NULL;
}

/* --- codes --- */

int totp_code_of(struct project *p, const char *name, char out[TOTP_CAP],
		 struct err *e)
{
	_Static_assert((int)TOTP_CAP == (int)TOTP_CODE_CAP, "codes fit");
	struct secret *s = secret_of(p, name);
	struct opened *o;

	*out = '\0';
	if (!s || s->kind != SECRET_TOTP)
		return err_set(e, ENOENT, "no secret '%.64s' that makes codes",
			       name);
	o = opened_get(p, s, e);
	if (!o)
		return -e->code;
	if (totp_make(o->value.p, clock_wall_ms() / 1000, out, e) < 0)
		return err_wrap(e, "secret %s", s->name);
	return 0;
}

int totp_code(struct box *b, const char *name, char out[TOTP_CAP],
	      struct err *e)
{
	unsigned i;

	*out = '\0';
	for (i = 0; i < b->n_uses; i++)
		if (!b->uses[i].canary && strcmp(b->uses[i].name, name) == 0)
			return totp_code_of(b->project, name, out, e);
	return err_set(e, ENOENT, "the sandbox has no secret '%.64s'", name);
}
