#include "api/tiers.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/auto.h"
#include "base/buf.h"
#include "policy/policy.h"

/* What there is to know about a sandbox that is no microVM. */
struct about {
	struct api *api;
	const char *project, *image;
	bool open;         /* some policy of it is */
	bool required;     /* one says that it must not be a container */
	char by[NAME_CAP]; /* which one */
};

/* --- its policies --- */

static void look_at(struct about *q, const char *name, const char *text)
{
	struct policy p = { 0 };
	struct err e = { 0 };

	/* What is no policy is refused elsewhere. */
	if (policy_read(&p, text, strlen(text), &e) < 0)
		return;
	q->open = q->open || policy_is_open(&p);
	if (p.microvm && !q->required) {
		q->required = true;
		snprintf(q->by, sizeof(q->by), "%s", name);
	}
	policy_done(&p);
}

static void look_at_rules(struct about *q, const json_t *rules)
{
	AUTO(buf_done) struct buf text = { 0 };
	const json_t *v;
	size_t i;

	json_array_foreach (rules, i, v) {
		buf_printf(&text, "%s\n", json_string_value(v));
	}
	if (buf_len(&text) > 0)
		look_at(q, "of its own rules", buf_str(&text));
}

static void look(struct api *a, struct about *q, const struct spec *spec)
{
	const struct saved_policy *p;
	const json_t *v;
	size_t i;

	look_at_rules(q, spec->rules);
	json_array_foreach (spec->allow, i, v) {
		p = preset_find(a, json_string_value(v));
		if (p)
			look_at(q, p->name, p->text);
	}
	p = *spec->policy ? policy_find(a, q->project, spec->policy) : NULL;
	if (p)
		look_at(q, p->name, p->text);
}

/* --- the configuration --- */

static bool names_project(const struct about *q, const char *name)
{
	return strcmp(q->project, name) == 0;
}

static bool names_image(const struct about *q, const char *name)
{
	/* By whatever name it is asked for. */
	const struct image *asked = image_find(q->api, q->image);

	return asked && asked == image_find(q->api, name);
}

static bool is_open(const struct about *q, const char *name)
{
	(void)name;
	return q->open;
}

static const struct kind {
	const char *word;
	bool named; /* a name follows */
	bool (*fits)(const struct about *q, const char *name);
	const char *what;
} kinds[] = {
	{ "project", true, names_project, "sandboxes of its project" },
	{ "image", true, names_image, "sandboxes of its image" },
	{ "open", false, is_open, "sandboxes that may reach any host" },
};

static const struct kind *kind_of(const char *word, const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i].word, word) == 0 &&
		    kinds[i].named == (name != NULL))
			return &kinds[i];
	return NULL;
}

/* The first part that fits; NULL: none does. `q` NULL: are all of them right?
 */
static int each(const char *list, const struct about *q,
		const struct kind **found, struct err *e)
{
	char text[sizeof(((struct conf *)NULL)->require_microvm)];
	char *next = text, *part, *save, *word, *name;

	*found = NULL;
	snprintf(text, sizeof(text), "%s", list);
	while (!*found && (part = strsep(&next, ",")) != NULL) {
		const struct kind *k;

		word = strtok_r(part, " \t", &save);
		if (!word)
			continue;
		name = strtok_r(NULL, " \t", &save);
		k = kind_of(word, name);
		if (!k || strtok_r(NULL, " \t", &save))
			return err_set(e, EINVAL,
				       "require_microvm: '%.32s' is none of "
				       "'project NAME', 'image NAME', 'open'",
				       word);
		if (q && k->fits(q, name))
			*found = k;
	}
	return 0;
}

int tiers_check(struct api *a, struct err *e)
{
	const struct kind *found;

	return each(a->conf.require_microvm, NULL, &found, e);
}

int tiers_allow(struct api *a, const char *project, const struct spec *spec,
		struct err *e)
{
	struct about q = { .api = a, .project = project, .image = spec->image };
	const struct kind *found;

	if (spec_is_vm(spec))
		return 0;
	look(a, &q, spec);
	if (q.required)
		return err_set(e, EPERM,
			       "policy '%s' is for microvms: ask for tier "
			       "'microvm'",
			       q.by);
	if (each(a->conf.require_microvm, &q, &found, e) < 0)
		return -e->code;
	if (found)
		return err_set(e, EPERM,
			       "%s must be microvms, says require_microvm: ask "
			       "for tier 'microvm'",
			       found->what);
	return 0;
}
