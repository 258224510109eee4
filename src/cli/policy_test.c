/*
 * carrel policy test: which rule decides, and what else is said about a host.
 * Of a file, of a policy that the daemon keeps, or of all the policies of a
 * sandbox in the order in which the gate tries them.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/policy_text.h"
#include "cli/server.h"
#include "cli/show.h"
#include "policy/policy.h"

/* What it exits with. */
enum { EXIT_DENIED = 1, EXIT_ASKED = 3, PARTS_MAX = 16 };

static const struct {
	const char *name;
	int code;
} verdicts[] = {
	[VERDICT_DENY] = { "deny", EXIT_DENIED },
	[VERDICT_ALLOW] = { "allow", 0 },
	[VERDICT_ASK] = { "ask", EXIT_ASKED },
	/* Never of a request that is known whole. */
	[VERDICT_LOOK] = { "look", EXIT_FAILED },
};

struct part {
	char name[SHOW_CAP + 16]; /* "": the file */
	struct policy policy;
};

struct parts {
	struct cli *cli;
	struct part v[PARTS_MAX];
	size_t n;
};

/* --- the policies of a sandbox --- */

static void add_part(struct parts *all, const char *kind, const char *name,
		     const char *text)
{
	struct part *p = &all->v[all->n];
	char clean[SHOW_CAP];
	struct err e = { 0 };

	if (all->n == PARTS_MAX)
		fail(all->cli, "the sandbox has more than %d policies",
		     PARTS_MAX);
	clean_text(clean, sizeof(clean), name);
	snprintf(p->name, sizeof(p->name), "%s%s%s", kind, *clean ? " " : "",
		 clean);
	if (policy_parse(&p->policy, text, strlen(text), &e) < 0)
		fail(all->cli, "%s: %s", p->name, e.msg);
	all->n++;
}

static void add_presets(struct parts *all, const json_t *names)
{
	json_t *j, *name, *preset;
	size_t i, k;

	if (json_array_size(names) == 0)
		return;
	j = server_get(all->cli, "GET", "/v1/presets", NULL);
	json_array_foreach (names, i, name) {
		json_array_foreach (json_object_get(j, "presets"), k, preset) {
			if (json_equal(name, json_object_get(preset, "name")))
				add_part(all, "preset",
					 show_str(preset, "name"),
					 show_str(preset, "text"));
		}
	}
	json_decref(j);
}

static void add_saved(struct parts *all, const char *name, const char *project)
{
	AUTO(buf_done) struct buf target = { 0 };
	json_t *j;

	if (*name == '\0')
		return;
	policy_target(all->cli, name, project, &target);
	j = server_get(all->cli, "GET", buf_str(&target), NULL);
	add_part(all, "policy", name, show_str(j, "text"));
	json_decref(j);
}

static void add_lines(struct parts *all, const char *name, const json_t *lines)
{
	AUTO(buf_done) struct buf text = { 0 };
	const json_t *v;
	size_t i;

	json_array_foreach (lines, i, v) {
		const char *line = json_string_value(v);

		buf_printf(&text, "%s\n", line ? line : "");
	}
	if (buf_len(&text))
		add_part(all, name, "", buf_str(&text));
}

static void load_sandbox(struct parts *all, const char *ref)
{
	char target[TARGET_CAP];
	json_t *j, *spec;

	server_target(all->cli, target, "/v1/sandboxes/", ref);
	j = server_get(all->cli, "GET", target, NULL);
	spec = json_object_get(j, "spec");
	add_lines(all, "the sandbox's rules", json_object_get(spec, "rules"));
	add_presets(all, json_object_get(spec, "allow"));
	add_saved(all, show_str(spec, "policy"), show_str(j, "project"));
	add_lines(all, "the sandbox's late rules",
		  json_object_get(spec, "late-rules"));
	json_decref(j);
}

/* --- what they say --- */

/* What lines that are no rules say about the host. */
struct about {
	bool private;
	json_t *budgets;   /* object: host ("": the sandbox) to limits */
	const char *model; /* its shape, or NULL */
	const char *over;
};

static void add_budget(struct about *x, const struct host_pattern *host,
		       const struct budget *b)
{
	AUTO(buf_done) struct buf name = { 0 }, limits = { 0 };
	const char *before;

	if (host)
		host_pattern_print(host, &name);
	budget_print(b, &limits);
	if (buf_len(&limits) == 0)
		return;
	/* Two policies may both have one: both hold. */
	before = show_str(x->budgets, buf_str(&name));
	if (*before)
		buf_printf(&limits, ", %s", before);
	json_object_set_new(x->budgets, buf_str(&name),
			    json_string(buf_str(&limits)));
}

static void add_about(struct about *x, const struct policy *p, const char *host)
{
	size_t i;

	for (i = 0; i < p->n_privates; i++)
		x->private = x->private || private_names(&p->privates[i], host);
	add_budget(x, NULL, &p->budget);
	for (i = 0; i < p->n_budgets; i++)
		if (host_pattern_fits(&p->budgets[i].host, host))
			add_budget(x, &p->budgets[i].host,
				   &p->budgets[i].budget);
	for (i = 0; i < p->n_models && !x->model; i++)
		if (host_pattern_fits(&p->models[i].host, host))
			x->model = model_shape_name(p->models[i].shape);
	if (!x->over && p->over)
		x->over = over_name(p->over);
}

static void explain_json(const struct decision *d, const char *part,
			 const char *rule, const struct about *x)
{
	json_t *j =
		json_pack("{s:s, s:o, s:o, s:o, s:b, s:O, s:s, s:o}", "verdict",
			  verdicts[d->verdict].name, "part",
			  *part ? json_string(part) : json_null(), "line",
			  d->rule ? json_integer(d->rule->line) : json_null(),
			  "rule", d->rule ? json_string(rule) : json_null(),
			  "private", x->private, "budgets", x->budgets, "over",
			  x->over ? x->over : over_name(OVER_DENY), "model",
			  x->model ? json_string(x->model) : json_null());

	json_dumpf(j, stdout, JSON_COMPACT);
	json_decref(j);
	putchar('\n');
}

static void explain_more(const struct about *x)
{
	const char *host;
	json_t *limits;

	if (x->private)
		puts("private: it may have an address of a private network");
	json_object_foreach (x->budgets, host, limits) {
		printf("budget%s%s: %s\n", *host ? " of " : "", host,
		       json_string_value(limits));
	}
	if (json_object_size(x->budgets))
		printf("over it: %s\n", x->over ? x->over : "deny");
	if (x->model)
		printf("model: tokens are counted, as %s tells them\n",
		       x->model);
}

/* The verdict's exit code. */
static int decide(struct parts *all, const struct request *q, bool json)
{
	AUTO(buf_done) struct buf rule = { 0 };
	struct about x = { .budgets = json_object() };
	struct trial t = { 0 };
	const char *part = "";
	struct decision d;
	size_t i;

	for (i = 0; i < all->n; i++) {
		if (!t.rule && policy_try(&all->v[i].policy, q, &t))
			part = all->v[i].name;
		add_about(&x, &all->v[i].policy, q->host);
	}
	d = trial_end(&t);
	if (d.rule)
		rule_print(d.rule, &rule);
	if (json)
		explain_json(&d, part, buf_str(&rule), &x);
	else if (d.rule)
		printf("%s: %s%sline %u: %s\n", verdicts[d.verdict].name, part,
		       *part ? ", " : "", d.rule->line, buf_str(&rule));
	else
		printf("%s: no rule matches\n", verdicts[d.verdict].name);
	if (!json && d.verdict != VERDICT_DENY)
		explain_more(&x);
	json_decref(x.budgets);
	return verdicts[d.verdict].code;
}

int policy_test(struct cli *cli, int argc, char **argv)
{
	struct parts *all = xcalloc(1, sizeof(*all));
	const char *method = "GET", *box = NULL, *project = NULL;
	bool json = false;
	const struct opt table[] = {
		{ "sandbox", 0, OPT_TEXT, &box, "SANDBOX",
		  "all that this one has, instead of a file" },
		{ "project", 0, OPT_TEXT, &project, "PROJECT",
		  "project that keeps the policy (default: default)" },
		{ "method", 'X', OPT_TEXT, &method, "METHOD",
		  "of the request (GET)" },
		{ "json", 0, OPT_FLAG, &json, NULL, "print it as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	int n = cli_operands(cli, table, argc, argv), code;
	struct err e = { 0 };
	struct url url;

	if (n != (box ? 1 : 2))
		cli_usage_error(cli, box ? "takes a URL with --sandbox"
					 : "takes a file or the name of a "
					   "kept policy, and a URL");
	all->cli = cli;
	if (box)
		load_sandbox(all, box);
	else if (!strchr(argv[1], '/') && access(argv[1], F_OK) < 0 &&
		 strcmp(argv[1], "-") != 0)
		add_saved(all, argv[1], project);
	else
		policy_load(cli, argv[1], &all->v[all->n++].policy);
	if (url_read(&url, argv[n], &e) < 0)
		fail(cli, "%s", e.msg);
	code = decide(all,
		      &(struct request){ url.scheme, url.host, url.port, method,
					 url.path },
		      json);
	while (all->n > 0)
		policy_done(&all->v[--all->n].policy);
	free(all);
	return code;
}
