#include "api/policies.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "policy/policy.h"
#include "registry/policies.h"

#define PRESET_END ".policy"

/* --- the table --- */

static struct saved_policy *add(struct list *to, const char *project,
				const char *name, const char *text,
				uint64_t updated_ms)
{
	struct saved_policy *p = xcalloc(1, sizeof(*p));

	snprintf(p->project, sizeof(p->project), "%s", project);
	snprintf(p->name, sizeof(p->name), "%s", name);
	p->text = xstrdup(text);
	p->updated_ms = updated_ms;
	list_add(to, &p->node);
	return p;
}

static struct saved_policy *find(struct list *in, const char *project,
				 const char *name)
{
	struct list *n, *next;

	list_each (n, next, in) {
		struct saved_policy *p =
			container_of(n, struct saved_policy, node);

		if (strcmp(p->name, name) == 0 &&
		    strcmp(p->project, project) == 0)
			return p;
	}
	return NULL;
}

struct saved_policy *policy_find(struct api *a, const char *project,
				 const char *name)
{
	return find(&a->policies.all, project, name);
}

struct saved_policy *preset_find(struct api *a, const char *name)
{
	return find(&a->policies.presets, "", name);
}

static int is_policy(const char *text, struct err *e)
{
	struct policy p = { 0 };
	int r = policy_parse(&p, text, strlen(text), e);

	policy_done(&p);
	return r;
}

static int load_row(void *arg, const struct policy_row *row)
{
	struct api *a = arg;
	struct err e = { 0 };

	if (!name_valid(row->project) || !name_valid(row->name) ||
	    is_policy(row->text, &e) < 0) {
		log_err("policy=%.64s bad row in the registry, ignoring",
			row->name);
		return 0;
	}
	add(&a->policies.all, row->project, row->name, row->text,
	    row->updated_ms);
	a->policies.n++;
	return 0;
}

/* NAME.policy: true, and the name. */
static bool preset_name(const char *file, char name[NAME_CAP])
{
	size_t n = strlen(file), end = strlen(PRESET_END);

	if (n <= end || n - end >= NAME_CAP ||
	    strcmp(file + n - end, PRESET_END) != 0)
		return false;
	snprintf(name, NAME_CAP, "%.*s", (int)(n - end), file);
	return name_valid(name);
}

static void load_preset(struct api *a, int dir_fd, const char *file)
{
	char name[NAME_CAP], text[PRESET_TEXT_MAX + 2];
	struct err e = { 0 };
	ssize_t n;

	if (!preset_name(file, name) || preset_find(a, name))
		return;
	n = read_file_at(dir_fd, file, text, sizeof(text));
	if (n > PRESET_TEXT_MAX)
		err_set(&e, E2BIG, "over %d bytes", PRESET_TEXT_MAX);
	else if (n < 0)
		err_set(&e, (int)-n, "%s", strerror((int)-n));
	else if (a->policies.n_presets == PRESETS_MAX)
		err_set(&e, E2BIG, "more than %d", PRESETS_MAX);
	if (e.code || is_policy(text, &e) < 0) {
		log_err("preset=%s %s, ignoring", name, e.msg);
		return;
	}
	add(&a->policies.presets, "", name, text, 0);
	a->policies.n_presets++;
}

static int by_name(const struct dirent **x, const struct dirent **y)
{
	return strcmp((*x)->d_name, (*y)->d_name);
}

/* Without them only those who name one have less. */
static void load_presets(struct api *a)
{
	const char *dir = a->conf.presets_dir;
	AUTO_CLOSE int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent **files = NULL;
	int n = dir_fd < 0 ? -1 : scandir(dir, &files, NULL, by_name), i;

	if (n < 0)
		log_warn("presets: open %s: %s, going on without them", dir,
			 strerror(errno));
	for (i = 0; i < n; i++) {
		load_preset(a, dir_fd, files[i]->d_name);
		free(files[i]);
	}
	free((void *)files);
}

int policies_load(struct api *a, struct err *e)
{
	list_init(&a->policies.all);
	list_init(&a->policies.presets);
	load_presets(a);
	return registry_policy_each(&a->registry, load_row, a, e);
}

/* --- changes --- */

/* One project must not take the others' places. */
static bool has_room(struct api *a, const char *project)
{
	struct list *n, *next;
	unsigned count = 0;

	list_each (n, next, &a->policies.all)
		count += strcmp(container_of(n, struct saved_policy, node)
					->project,
				project) == 0;
	return count < POLICIES_OF_PROJECT && a->policies.n < POLICIES_MAX;
}

struct saved_policy *policy_keep(struct api *a, const char *project,
				 const char *name, const char *text,
				 struct err *e)
{
	struct saved_policy *p = policy_find(a, project, name);
	const struct policy_row row = { .project = project,
					.name = name,
					.text = text,
					.updated_ms = clock_wall_ms() };

	if (!p && !has_room(a, project)) {
		err_set(e, EMFILE,
			"there are %d policies of a project, or %d in all: "
			"remove some",
			POLICIES_OF_PROJECT, POLICIES_MAX);
		return NULL;
	}
	if (registry_policy_put(&a->registry, &row, e) < 0)
		return NULL;
	if (!p) {
		a->policies.n++;
		return add(&a->policies.all, project, name, text,
			   row.updated_ms);
	}
	free(p->text);
	p->text = xstrdup(text);
	p->updated_ms = row.updated_ms;
	return p;
}

int policy_forget(struct api *a, struct saved_policy *p, struct err *e)
{
	int r = registry_policy_remove(&a->registry, p->project, p->name, e);

	if (r < 0)
		return r;
	list_del(&p->node);
	a->policies.n--;
	free(p->text);
	free(p);
	return 0;
}

const struct sandbox *policy_user(struct api *a, const struct saved_policy *p)
{
	struct list *n, *next;

	list_each (n, next, &a->boxes.all) {
		const struct sandbox *s = container_of(n, struct sandbox, all);

		if (strcmp(s->spec.policy, p->name) == 0 &&
		    strcmp(s->project, p->project) == 0)
			return s;
	}
	return NULL;
}

/* --- what a spec may name --- */

int policies_allow(struct api *a, const char *project, const struct spec *spec,
		   struct err *e)
{
	const json_t *v;
	size_t i;

	if (*spec->policy && !policy_find(a, project, spec->policy))
		return err_set(e, EINVAL,
			       "project %s has no policy '%s': make it with "
			       "`" PRODUCT " policy set`",
			       project, spec->policy);
	json_array_foreach (spec->allow, i, v) {
		if (!preset_find(a, json_string_value(v)))
			return err_set(e, EINVAL,
				       "no preset '%s': `" PRODUCT
				       " policy presets` lists them",
				       json_string_value(v));
	}
	return 0;
}

int policy_may_say(const struct identity *who, const struct policy *p,
		   struct err *e)
{
	bool names = p->n_privates > 0;
	size_t i;

	for (i = 0; i < p->n; i++)
		names = names || (p->rules[i].kind == HOST_ADDRESS &&
				  p->rules[i].effect != EFFECT_DENY);
	if (!names || *who->project == '\0')
		return 0;
	return err_set(e, EPERM,
		       "addresses and private places are the operator's to "
		       "allow: name hosts, or ask for a policy");
}

static int lines_may_say(const struct identity *who, const json_t *body,
			 const char *key, struct err *e)
{
	const json_t *rules = json_object_get(body, key), *v;
	AUTO(buf_done) struct buf text = { 0 };
	struct policy p = { 0 };
	size_t i;
	int r = 0;

	json_array_foreach (rules, i, v) {
		const char *s = json_string_value(v);

		buf_printf(&text, "%s\n", s ? s : "");
	}
	/* What is no policy has been refused by then. */
	if (policy_parse(&p, buf_data(&text), buf_len(&text), e) == 0)
		r = policy_may_say(who, &p, e);
	else
		r = err_wrap(e, "%s", key);
	policy_done(&p);
	return r;
}

int rules_may_say(const struct identity *who, const json_t *body, struct err *e)
{
	int r = lines_may_say(who, body, "rules", e);

	return r < 0 ? r : lines_may_say(who, body, "late-rules", e);
}
