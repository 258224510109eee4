#include "gate/opened.h"

#include <stdlib.h>
#include <string.h>

#include "gate/oauth.h"

struct words *words_new(void)
{
	struct words *w = xcalloc(1, sizeof(*w));

	w->refs = 1;
	w->set = scan_set_new();
	return w;
}

struct words *words_ref(struct words *w)
{
	w->refs++;
	return w;
}

void words_unref(struct words *w)
{
	if (!w || --w->refs > 0)
		return;
	scan_set_free(w->set);
	free(w);
}

void words_add_lines(struct words *w, const char *text)
{
	while (*text) {
		size_t n = strcspn(text, "\n");

		scan_set_add_loose(w->set, text, n, 0);
		text += n + (text[n] == '\n');
	}
}

struct secret *secret_of(const struct project *p, const char *name)
{
	struct list *n, *next;

	list_each (n, next, &p->secrets) {
		struct secret *s = container_of(n, struct secret, node);

		if (strcmp(s->name, name) == 0)
			return s;
	}
	return NULL;
}

static void opened_free(void *arg)
{
	struct opened *o = arg;

	oauth_free(o->oauth);
	sealed_free(&o->value);
	words_unref(o->words);
	free(o);
}

struct opened *opened_get(struct project *p, struct secret *s, struct err *e)
{
	struct opened *o = s->open;

	if (o)
		return o;
	o = xcalloc(1, sizeof(*o));
	o->project = p;
	o->secret = s;
	if (secret_open(s, p->public_key, p->private_key, &o->value, e) < 0) {
		free(o);
		return NULL;
	}
	o->words = words_new();
	words_add_lines(o->words, o->value.p);
	if (s->kind == SECRET_OAUTH2)
		o->oauth = oauth_new(o);
	s->open = o;
	s->close = opened_free;
	return o;
}
