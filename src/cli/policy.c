/* carrel policy: what a policy says, before anybody depends on it. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/product.h"
#include "cli/policy_text.h"
#include "policy/policy.h"

/* What `policy test` exits with. */
enum { EXIT_DENIED = 1, EXIT_ASKED = 3 };

void policy_text(struct cli *cli, const char *path, struct buf *text)
{
	AUTO_CLOSE int opened = -1;
	int fd = STDIN_FILENO;
	ssize_t n;

	if (strcmp(path, "-") != 0) {
		opened = open(path, O_RDONLY | O_CLOEXEC);
		if (opened < 0)
			fail(cli, "%s: %s", path, strerror(errno));
		fd = opened;
	}
	do {
		n = buf_read(text, fd, POLICY_TEXT_MAX);
		if (n < 0)
			fail(cli, "%s: %s", path, strerror((int)-n));
	} while (n > 0 && buf_len(text) <= POLICY_TEXT_MAX);
}

/* Both forms. */
static void load(struct cli *cli, const char *path, struct policy *p)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct err e = { 0 };

	policy_text(cli, path, &text);
	if (policy_read(p, buf_data(&text), buf_len(&text), &e) < 0)
		fail(cli, "%s: %s", path, e.msg);
}

static int policy_check(struct cli *cli, int argc, char **argv)
{
	AUTO(policy_done) struct policy p = { 0 };
	AUTO(buf_done) struct buf text = { 0 };
	bool json = false;
	const struct opt table[] = {
		{ "json", 0, OPT_FLAG, &json, NULL, "print it as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};

	if (cli_operands(cli, table, argc, argv) != 1)
		cli_usage_error(cli, "takes one file");
	load(cli, argv[1], &p);
	if (json) {
		json_t *j = policy_to_json(&p);

		json_dumpf(j, stdout, JSON_INDENT(2));
		json_decref(j);
		putchar('\n');
	} else {
		policy_print(&p, &text);
		fputs(buf_str(&text), stdout);
	}
	return 0;
}

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

/* What lines that are no rules say about the host. */
struct about {
	bool private;
	const struct host_budget *budgets[POLICY_BUDGETS_MAX];
	size_t n_budgets;
	const struct host_model *model;
};

static void find_about(const struct policy *p, const char *host,
		       struct about *out)
{
	size_t i;

	*out = (struct about){ 0 };
	for (i = 0; i < p->n_privates; i++)
		out->private =
			out->private || private_names(&p->privates[i], host);
	for (i = 0; i < p->n_budgets; i++)
		if (host_pattern_fits(&p->budgets[i].host, host))
			out->budgets[out->n_budgets++] = &p->budgets[i];
	for (i = 0; i < p->n_models; i++)
		if (host_pattern_fits(&p->models[i].host, host))
			out->model = &p->models[i];
}

static const char *over_of(const struct policy *p)
{
	return over_name(p->over ? p->over : OVER_DENY);
}

static void explain_json(const struct policy *p, const struct decision *d,
			 const char *rule, const struct about *x)
{
	json_t *budgets = json_object(), *j;
	size_t i;

	for (i = 0; i < x->n_budgets; i++) {
		AUTO(buf_done) struct buf host = { 0 }, limits = { 0 };

		host_pattern_print(&x->budgets[i]->host, &host);
		budget_print(&x->budgets[i]->budget, &limits);
		json_object_set_new(budgets, buf_str(&host),
				    json_string(buf_str(&limits)));
	}
	j = json_pack("{s:s, s:o, s:o, s:b, s:o, s:s, s:o}", "verdict",
		      verdicts[d->verdict].name, "line",
		      d->rule ? json_integer(d->rule->line) : json_null(),
		      "rule", d->rule ? json_string(rule) : json_null(),
		      "private", x->private, "budgets", budgets, "over",
		      over_of(p), "model",
		      x->model ? json_string(model_shape_name(x->model->shape))
			       : json_null());
	json_dumpf(j, stdout, JSON_COMPACT);
	json_decref(j);
	putchar('\n');
}

static void explain_more(const struct policy *p, const struct about *x)
{
	AUTO(buf_done) struct buf own = { 0 };
	size_t i;

	if (x->private)
		puts("private: it may have an address of a private network");
	budget_print(&p->budget, &own);
	if (buf_len(&own))
		printf("budget: %s\n", buf_str(&own));
	for (i = 0; i < x->n_budgets; i++) {
		AUTO(buf_done) struct buf host = { 0 }, limits = { 0 };

		host_pattern_print(&x->budgets[i]->host, &host);
		budget_print(&x->budgets[i]->budget, &limits);
		printf("budget of %s: %s\n", buf_str(&host), buf_str(&limits));
	}
	if (buf_len(&own) || x->n_budgets)
		printf("over it: %s\n", over_of(p));
	if (x->model)
		printf("model: tokens are counted, as %s tells them\n",
		       model_shape_name(x->model->shape));
}

static void explain(const struct policy *p, const struct decision *d,
		    const char *host, bool json)
{
	AUTO(buf_done) struct buf rule = { 0 };
	struct about x;

	find_about(p, host, &x);
	if (d->rule)
		rule_print(d->rule, &rule);
	if (json) {
		explain_json(p, d, buf_str(&rule), &x);
		return;
	}
	if (d->rule)
		printf("%s: line %u: %s\n", verdicts[d->verdict].name,
		       d->rule->line, buf_str(&rule));
	else
		printf("%s: no rule matches\n", verdicts[d->verdict].name);
	if (d->verdict != VERDICT_DENY)
		explain_more(p, &x);
}

static int policy_test(struct cli *cli, int argc, char **argv)
{
	AUTO(policy_done) struct policy p = { 0 };
	const char *method = "GET";
	bool json = false;
	const struct opt table[] = {
		{ "method", 'X', OPT_TEXT, &method, "METHOD",
		  "of the request (GET)" },
		{ "json", 0, OPT_FLAG, &json, NULL, "print it as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	struct err e = { 0 };
	struct decision d;
	struct request q;
	struct url url;

	if (cli_operands(cli, table, argc, argv) != 2)
		cli_usage_error(cli, "takes a file and a URL");
	load(cli, argv[1], &p);
	if (url_read(&url, argv[2], &e) < 0)
		fail(cli, "%s", e.msg);
	q = (struct request){ url.scheme, url.host, url.port, method,
			      url.path };
	d = policy_decide(&p, &q);
	explain(&p, &d, url.host, json);
	return verdicts[d.verdict].code;
}

const struct verb policy_verbs[] = {
	{ .name = "check",
	  .fn = policy_check,
	  .args = "[OPTIONS] FILE",
	  .help = "read a policy and print it as it was understood",
	  .notes = "FILE is text or JSON; - is standard input." },
	{ .name = "test",
	  .fn = policy_test,
	  .args = "[OPTIONS] FILE URL",
	  .help = "say which rule of a policy decides about a request",
	  .notes = "URL is http://, https://, ws://, wss:// or "
		   "tcp://HOST:PORT. Exits with 0 for allow,\n"
		   "1 for deny and 3 for ask. The first rule that matches "
		   "decides; none is a deny.",
	  .examples = PRODUCT " policy test research.policy "
			      "https://example.com/x\n" PRODUCT
			      " policy test -X POST research.policy "
			      "https://example.com/x\n" },
	{ .name = "set",
	  .fn = policy_set,
	  .args = "[OPTIONS] POLICY FILE",
	  .help = "keep a policy under a name; in force at once where it is "
		  "used",
	  .notes = "FILE is text or JSON; - is standard input. Sandboxes that "
		   "have a policy of that\n"
		   "name (`create --policy POLICY`) have the new one, their "
		   "open "
		   "connections too.",
	  .examples = PRODUCT " policy set research research.policy\n" PRODUCT
			      " run --policy research -- curl -s "
			      "https://example.com/\n" },
	{ .name = "ls",
	  .fn = policy_ls,
	  .args = "[OPTIONS]",
	  .help = "list the policies" },
	{ .name = "show",
	  .fn = policy_show,
	  .args = "[OPTIONS] POLICY",
	  .help = "print a policy as it was written" },
	{ .name = "rm",
	  .fn = policy_rm,
	  .args = "[OPTIONS] POLICY...",
	  .help = "remove policies that no sandbox has" },
	{ .name = "presets",
	  .fn = policy_presets,
	  .args = "[OPTIONS] [PRESET]",
	  .help = "list the policies that come along, or print one",
	  .notes = "A sandbox gets them with `create --allow PRESET,PRESET`." },
	{ .name = "learn",
	  .fn = policy_learn,
	  .args = "[OPTIONS] SANDBOX",
	  .help = "write a policy that allows what a sandbox did",
	  .notes = "With `create --observe` what no rule allows passes, and is "
		   "written down: run the\n"
		   "work once, then read and shorten what this prints. A "
		   "sandbox that has ended is\n"
		   "named by its whole id.",
	  .examples = PRODUCT " create --observe --name trial\n" PRODUCT
			      " exec trial ./build.sh\n" PRODUCT
			      " policy learn trial >build.policy\n" },
	{ 0 },
};
