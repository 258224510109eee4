#include "api/secrets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/auto.h"
#include "base/clock.h"
#include "registry/secrets.h"
#include "vault/secret_json.h"
#include "wire/gate.h"

enum { LATE_MS = 1000 };

/* --- the table --- */

static void add(struct api *a, struct project_secret *p)
{
	list_add(&a->secrets.all, &p->node);
	a->secrets.n++;
}

static void forget(struct api *a, struct project_secret *p)
{
	list_del(&p->node);
	a->secrets.n--;
	secret_done(&p->secret);
	free(p);
}

static int take_row(struct project_secret *p, const struct secret_row *row,
		    struct err *e)
{
	json_t *about = json_loads(row->about, JSON_REJECT_DUPLICATES, NULL);
	int r;

	if (!name_valid(row->project) || !name_valid(row->name) ||
	    row->sealed_n == 0 || row->sealed_n > GATE_SEALED_MAX || !about) {
		json_decref(about);
		return err_set(e, EBADMSG, "bad row in the registry");
	}
	snprintf(p->project, sizeof(p->project), "%s", row->project);
	snprintf(p->secret.name, sizeof(p->secret.name), "%s", row->name);
	p->secret.sealed = xcalloc(1, row->sealed_n);
	p->secret.sealed_n = row->sealed_n;
	memcpy(p->secret.sealed, row->sealed, row->sealed_n);
	p->created_ms = row->created_ms;
	p->updated_ms = row->updated_ms;
	r = secret_from_json(&p->secret, about, e);
	json_decref(about);
	return r;
}

static int load_row(void *arg, const struct secret_row *row)
{
	struct project_secret *p = xcalloc(1, sizeof(*p));
	struct err e = { 0 };

	if (take_row(p, row, &e) < 0) {
		log_err("secret=%.64s %s, ignoring", row->name, e.msg);
		secret_done(&p->secret);
		free(p);
		return 0;
	}
	add(arg, p);
	return 0;
}

int secrets_load(struct api *a, struct err *e)
{
	list_init(&a->secrets.all);
	return registry_secret_each(&a->registry, load_row, a, e);
}

struct project_secret *project_secret_find(struct api *a, const char *project,
					   const char *name)
{
	struct list *n, *next;

	list_each (n, next, &a->secrets.all) {
		struct project_secret *p =
			container_of(n, struct project_secret, node);

		if (strcmp(p->secret.name, name) == 0 &&
		    strcmp(p->project, project) == 0)
			return p;
	}
	return NULL;
}

unsigned project_secrets(const struct api *a, const char *project)
{
	const struct list *n;
	unsigned count = 0;

	for (n = a->secrets.all.next; n != &a->secrets.all; n = n->next)
		count += strcmp(container_of(n, struct project_secret, node)
					->project,
				project) == 0;
	return count;
}

/* --- changes --- */

static struct secret_row row_of(const char *project, const struct secret *s)
{
	return (struct secret_row){ .project = project,
				    .name = s->name,
				    .sealed = s->sealed,
				    .sealed_n = s->sealed_n };
}

static int save(struct api *a, const struct project_secret *p,
		const struct secret *s, struct err *e)
{
	json_t *about = secret_to_json(s);
	AUTO_FREE char *text = json_dumps(about, JSON_COMPACT);
	struct secret_row row = row_of(p->project, s);

	json_decref(about);
	if (!text)
		return err_set(e, ENOMEM, "no memory for secret %s", s->name);
	row.about = text;
	row.created_ms = p->created_ms;
	row.updated_ms = p->updated_ms;
	return registry_secret_put(&a->registry, &row, e);
}

static struct project_secret *make_room(struct api *a, const char *project,
					struct err *e)
{
	struct project_secret *p;

	if (a->secrets.n >= SECRETS_MAX ||
	    project_secrets(a, project) >= SECRETS_OF_PROJECT) {
		err_set(e, EMFILE,
			"there are %d secrets of a project, or %d in all: "
			"remove some",
			SECRETS_OF_PROJECT, SECRETS_MAX);
		return NULL;
	}
	p = xcalloc(1, sizeof(*p));
	snprintf(p->project, sizeof(p->project), "%s", project);
	p->created_ms = clock_wall_ms();
	return p;
}

int project_secret_put(struct api *a, const char *project, struct secret *s,
		       struct err *e)
{
	struct project_secret *p = project_secret_find(a, project, s->name);
	bool known = p;
	int r;

	if (!known)
		p = make_room(a, project, e);
	if (!p)
		return -e->code;
	p->updated_ms = clock_wall_ms();
	r = save(a, p, s, e);
	if (r < 0) {
		if (!known)
			free(p);
		return r;
	}
	secret_done(&p->secret);
	p->secret = *s;
	memset(s, 0, sizeof(*s));
	if (!known)
		add(a, p);
	return 0;
}

int project_secret_drop(struct api *a, struct project_secret *p, struct err *e)
{
	int r = registry_secret_remove(&a->registry, p->project, p->secret.name,
				       e);

	if (r == 0)
		forget(a, p);
	return r;
}

void project_secret_renewed(struct api *a, const char *project,
			    const char *name, const void *sealed, size_t n)
{
	struct project_secret *p = project_secret_find(a, project, name);
	struct secret_row row;
	struct err e = { 0 };

	if (!p || n == 0 || n > GATE_SEALED_MAX)
		return;
	free(p->secret.sealed);
	p->secret.sealed = xcalloc(1, n);
	p->secret.sealed_n = n;
	memcpy(p->secret.sealed, sealed, n);
	row = row_of(project, &p->secret);
	if (registry_secret_sealed(&a->registry, &row, &e) < 0)
		log_err("secret=%s %s, the old value stays on disk", name,
			e.msg);
}

/* --- those that came with a sandbox --- */

bool own_secret_is(const char *name)
{
	size_t n = strlen(OWN_SECRET);

	return str_starts(name, OWN_SECRET) &&
	       strspn(name + n, "0123456789abcdef") == 2 * OWN_SECRET_BYTES &&
	       name[n + (size_t)(2 * OWN_SECRET_BYTES)] == '\0';
}

int own_secret_allowed(const struct api *a, const char *project, struct err *e)
{
	const struct list *n;
	unsigned count = 0;

	for (n = a->secrets.all.next; n != &a->secrets.all; n = n->next) {
		const struct project_secret *p =
			container_of(n, struct project_secret, node);

		count += strcmp(p->project, project) == 0 &&
			 own_secret_is(p->secret.name);
	}
	if (count < OWN_SECRETS_MAX)
		return 0;
	return err_set(e, EMFILE,
		       "sandboxes of project %s have %d headers of their own "
		       "already: end some",
		       project, OWN_SECRETS_MAX);
}

static bool is_used(const struct api *a, const char *project, const char *name)
{
	struct list *n, *next;
	const json_t *v;
	size_t i;

	list_each (n, next, &a->boxes.all) {
		const struct sandbox *s = container_of(n, struct sandbox, all);

		if (strcmp(s->project, project) != 0)
			continue;
		json_array_foreach (s->spec.secrets, i, v)
			if (strcmp(json_string_value(v), name) == 0)
				return true;
	}
	return false;
}

void own_secret_drop(struct api *a, const char *project, const char *name)
{
	struct project_secret *p = project_secret_find(a, project, name);
	struct err e = { 0 };

	if (!p)
		return;
	/* What must be on disk is no part of what need not be. */
	if (a->registry.depth > 0) {
		own_secret_drop_late(a, project, name);
		return;
	}
	if (project_secret_drop(a, p, &e) < 0) {
		log_err("secret=%s %s, ignoring", name, e.msg);
		return;
	}
	gate_secret_changed(a, project, name);
	audit_add(a,
		  &(struct audit){ .type = "secret.remove",
				   .data = json_pack("{s:s, s:s}", "name", name,
						     "project", project) });
}

struct late_drop {
	struct api *api;
	char project[NAME_CAP], name[NAME_CAP];
	struct timer timer;
};

static void on_late_drop(struct timer *t)
{
	AUTO_FREE struct late_drop *d =
		container_of(t, struct late_drop, timer);

	if (!is_used(d->api, d->project, d->name))
		own_secret_drop(d->api, d->project, d->name);
}

void own_secret_drop_late(struct api *a, const char *project, const char *name)
{
	struct late_drop *d = xcalloc(1, sizeof(*d));

	d->api = a;
	snprintf(d->project, sizeof(d->project), "%s", project);
	snprintf(d->name, sizeof(d->name), "%s", name);
	timer_set(&a->loop, &d->timer, LATE_MS, on_late_drop);
}

void own_secrets_unused(struct api *a, const char *project, const json_t *names)
{
	const json_t *v;
	size_t i;

	json_array_foreach (names, i, v) {
		const char *name = json_string_value(v);

		if (own_secret_is(name) && !is_used(a, project, name))
			own_secret_drop(a, project, name);
	}
}

void own_secrets_sweep(struct api *a)
{
	struct list *n, *next;

	list_each (n, next, &a->secrets.all) {
		const struct project_secret *p =
			container_of(n, struct project_secret, node);
		char project[NAME_CAP], name[NAME_CAP];

		memcpy(project, p->project, sizeof(project));
		memcpy(name, p->secret.name, sizeof(name));
		if (own_secret_is(name) && !is_used(a, project, name))
			own_secret_drop(a, project, name);
	}
}

int secrets_allow(struct api *a, const char *project, const struct spec *spec,
		  struct err *e)
{
	const json_t *v;
	size_t i;

	json_array_foreach (spec->secrets, i, v) {
		const char *name = json_string_value(v);

		if (!project_secret_find(a, project, name))
			return err_set(e, EINVAL,
				       "project %s has no secret '%s': set it "
				       "first",
				       project, name);
	}
	return 0;
}
