/*
 * A create in E2B's words, as one in ours. What we have no word for, and they
 * want to see again, is kept in the member `client` of the spec:
 *
 *	{"e2b": {"template", "alias", "metadata", "autoResume", "network",
 *		 "allowInternetAccess", "volumeMounts", "timeoutAction"}}
 *
 * What is not understood is refused: an option that is silently dropped may
 * be the one that was to keep something in.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/e2b.h"
#include "api/e2b/network.h"
#include "api/e2b/sandbox.h"
#include "api/e2b/template.h"
#include "base/auto.h"
#include "spec/check.h"

enum { TIMEOUT_MAX_S = 366 * 86400, MASK_MAX = 200 };

/* One member of the body: `kept` is the client's object. */
struct make {
	struct api *api;
	const struct identity *who;
	json_t *spec, *kept; /* what is made */
	struct e2b_template *template;
	bool pause, disk_only;
};

typedef int take_fn(struct make *m, json_t *v, struct err *e);

static bool is_text(const json_t *v)
{
	return json_is_string(v) &&
	       strlen(json_string_value(v)) == json_string_length(v);
}

/* --- members --- */

static int take_nothing(struct make *m, json_t *v, struct err *e)
{
	(void)m;
	(void)v;
	(void)e;
	return 0;
}

static int take_unsupported(struct make *m, json_t *v, struct err *e)
{
	(void)m;
	(void)v;
	return err_set(e, EINVAL, "not supported here: leave it out");
}

static int take_template(struct make *m, json_t *v, struct err *e)
{
	struct e2b_template *t = m->template;

	if (!is_text(v))
		return err_set(e, EINVAL, "not a string");
	if (e2b_template_image(m->api, m->who, json_string_value(v), m->spec, t,
			       e) < 0)
		return -e->code;
	json_object_set_new(m->kept, "template", json_string(t->id));
	if (*t->alias)
		json_object_set_new(m->kept, "alias", json_string(t->alias));
	return 0;
}

/* Labels, too, if they can be: our own tools show them. */
static int take_metadata(struct make *m, json_t *v, struct err *e)
{
	struct err no_label = { 0 };
	const char *key;
	json_t *val;

	if (!json_is_object(v))
		return err_set(e, EINVAL, "not an object of strings");
	json_object_foreach (v, key, val)
		if (!is_text(val))
			return err_set(e, EINVAL, "'%.64s' is not a string",
				       key);
	json_object_set(m->kept, "metadata", v);
	if (check_labels(v, &no_label) == 0)
		json_object_set(m->spec, "labels", v);
	return 0;
}

static int take_env(struct make *m, json_t *v, struct err *e)
{
	json_t *env = json_object_get(m->spec, "env");

	if (!json_is_object(v))
		return err_set(e, EINVAL, "not an object of strings");
	if (env)
		json_object_update(env, v);
	else
		json_object_set(m->spec, "env", v);
	return 0;
}

static int take_internet(struct make *m, json_t *v, struct err *e)
{
	if (!json_is_boolean(v))
		return err_set(e, EINVAL, "not true or false");
	json_object_set(m->kept, "allowInternetAccess", v);
	return 0;
}

static int take_network(struct make *m, json_t *v, struct err *e)
{
	const json_t *mask = json_object_get(v, "maskRequestHost");
	const json_t *open = json_object_get(v, "allowPublicTraffic");

	if (!json_is_object(v))
		return err_set(e, EINVAL, "not an object");
	if (json_object_get(v, "egressProxy"))
		return err_set(e, EINVAL,
			       "egressProxy: not supported here: leave it out");
	if (open && !json_is_boolean(open))
		return err_set(e, EINVAL,
			       "allowPublicTraffic: not true or false");
	if (mask && !(is_text(mask) && json_string_length(mask) <= MASK_MAX &&
		      http_is_value(json_string_value(mask))))
		return err_set(e, EINVAL, "maskRequestHost: not a host");
	/* Without the values of headers, which are secrets. */
	json_object_set_new(m->kept, "network", e2b_network_shown(v));
	return 0;
}

static int take_pause(struct make *m, json_t *v, struct err *e)
{
	if (!json_is_boolean(v))
		return err_set(e, EINVAL, "not true or false");
	m->pause = json_is_true(v);
	return 0;
}

static int take_pause_memory(struct make *m, json_t *v, struct err *e)
{
	if (!json_is_boolean(v))
		return err_set(e, EINVAL, "not true or false");
	m->disk_only = json_is_false(v);
	return 0;
}

static int take_resume(struct make *m, json_t *v, struct err *e)
{
	const json_t *on = json_object_get(v, "enabled");

	if (!json_is_object(v) || (on && !json_is_boolean(on)))
		return err_set(e, EINVAL, "not {\"enabled\": true or false}");
	json_object_set_new(m->kept, "autoResume",
			    json_boolean(json_is_true(on)));
	return 0;
}

static int take_volumes(struct make *m, json_t *v, struct err *e)
{
	json_t *list = json_array(), *one;
	size_t i;

	json_object_set_new(m->spec, "volumes", list);
	if (!json_is_array(v))
		return err_set(e, EINVAL, "not a list");
	json_array_foreach (v, i, one) {
		const json_t *name = json_object_get(one, "name");
		const json_t *path = json_object_get(one, "path");

		if (!is_text(name) || !is_text(path) ||
		    strchr(json_string_value(path), ':'))
			return err_set(e, EINVAL,
				       "not a list of names and paths");
		json_array_append_new(list,
				      json_sprintf("%s:%s:shared",
						   json_string_value(name),
						   json_string_value(path)));
	}
	json_object_set(m->kept, "volumeMounts", v);
	return 0;
}

static int take_cpus(struct make *m, json_t *v, struct err *e)
{
	if (!json_is_integer(v))
		return err_set(e, EINVAL, "not a number");
	json_object_set(m->spec, "cpus", v);
	return 0;
}

static int take_memory(struct make *m, json_t *v, struct err *e)
{
	json_int_t mb = json_integer_value(v);

	if (!json_is_integer(v) || mb < 0 || mb > (1 << 24))
		return err_set(e, EINVAL, "not a number of MiB");
	json_object_set_new(m->spec, "memory", json_integer(mb << 20));
	return 0;
}

/* In this order: a template says what others may say differently. */
static const struct {
	const char *key;
	take_fn *take;
} members[] = {
	{ "templateID", take_template },
	{ "timeout", take_nothing }, /* e2b_seconds() */
	{ "metadata", take_metadata },
	{ "envVars", take_env },
	{ "allow_internet_access", take_internet },
	{ "network", take_network },
	{ "autoPause", take_pause },
	{ "autoPauseMemory", take_pause_memory },
	{ "autoResume", take_resume },
	{ "volumeMounts", take_volumes },
	{ "cpuCount", take_cpus },
	{ "memoryMB", take_memory },
	{ "secure", take_nothing }, /* always */
	{ "mcp", take_unsupported },
	{ "iam", take_unsupported },
};

static bool is_member(const char *key)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(members); i++)
		if (strcmp(members[i].key, key) == 0)
			return true;
	return false;
}

static int take_members(struct make *m, const json_t *body, struct err *e)
{
	const char *key;
	json_t *v;
	size_t i;

	json_object_foreach ((json_t *)body, key, v)
		if (!is_member(key))
			return err_set(e, EINVAL,
				       "%.64s: not supported here: leave it "
				       "out",
				       key);
	if (!json_object_get(body, "templateID"))
		return err_set(e, EINVAL, "templateID is missing");
	for (i = 0; i < ARRAY_LEN(members); i++) {
		v = json_object_get(body, members[i].key);
		if (!v || json_is_null(v))
			continue;
		if (members[i].take(m, v, e) < 0)
			return err_wrap(e, "%s", members[i].key);
	}
	return 0;
}

/* --- the whole --- */

int e2b_seconds(const json_t *body, const char *key, double fallback,
		double *out, struct err *e)
{
	const json_t *v = json_object_get(body, key);

	*out = fallback;
	if (!v || json_is_null(v))
		return 0;
	*out = (double)json_integer_value(v);
	if (!json_is_integer(v) || *out < 0 || *out > TIMEOUT_MAX_S)
		return err_set(e, EINVAL, "%s: not 0 to %d seconds", key,
			       TIMEOUT_MAX_S);
	/* With us, 0 is without end; with them, at once. */
	if (*out < 0.001)
		*out = 0.001;
	return 0;
}

static const char *action_of(const struct make *m)
{
	if (!m->pause)
		return "remove";
	return m->disk_only ? "suspend" : "pause";
}

static int fill(struct make *m, const json_t *body, unsigned timeout_s,
		struct err *e)
{
	double timeout;

	if (take_members(m, body, e) < 0 ||
	    e2b_seconds(body, "timeout", timeout_s, &timeout, e) < 0)
		return -e->code;
	json_object_set_new(m->spec, "timeout", json_real(timeout));
	json_object_set_new(m->spec, "timeout-action",
			    json_string(action_of(m)));
	json_object_set_new(m->kept, "timeoutAction",
			    json_string(action_of(m)));
	return 0;
}

json_t *e2b_spec(struct api *a, const struct identity *who, const json_t *body,
		 unsigned timeout_s, struct e2b_template *template,
		 struct err *e)
{
	struct make m = { .api = a,
			  .who = who,
			  .template = template,
			  .spec = json_object(),
			  .kept = json_object() };
	int r = fill(&m, body, timeout_s, e);

	json_object_set_new(m.spec, "client",
			    json_pack("{s:o}", "e2b", m.kept));
	if (r == 0)
		return m.spec;
	json_decref(m.spec);
	return NULL;
}
