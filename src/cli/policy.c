/* carrel policy: what a policy says, before anybody depends on it. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/product.h"
#include "cli/cli.h"
#include "policy/policy.h"

/* What `policy test` exits with. */
enum { EXIT_DENIED = 1, EXIT_ASKED = 3 };

static void read_text(struct cli *cli, const char *path, struct buf *text)
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

/* Both forms: what starts with a brace is JSON. */
static void load(struct cli *cli, const char *path, struct policy *p)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct err e = { 0 };
	json_error_t why;
	json_t *j;
	int r;

	read_text(cli, path, &text);
	if (buf_data(&text)[strspn(buf_str(&text), " \t\r\n")] != '{') {
		r = policy_parse(p, buf_data(&text), buf_len(&text), &e);
	} else {
		j = json_loadb(buf_data(&text), buf_len(&text),
			       JSON_REJECT_DUPLICATES, &why);
		r = j ? policy_from_json(p, j, &e)
		      : err_set(&e, EINVAL, "line %d: %s", why.line, why.text);
		json_decref(j);
	}
	if (r < 0)
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

static void explain(const struct decision *d, bool json)
{
	AUTO(buf_done) struct buf rule = { 0 };
	json_t *j;

	if (d->rule)
		rule_print(d->rule, &rule);
	if (json) {
		j = json_pack(
			"{s:s, s:o, s:o}", "verdict", verdicts[d->verdict].name,
			"line",
			d->rule ? json_integer(d->rule->line) : json_null(),
			"rule",
			d->rule ? json_string(buf_str(&rule)) : json_null());
		json_dumpf(j, stdout, JSON_COMPACT);
		json_decref(j);
		putchar('\n');
	} else if (d->rule) {
		printf("%s: line %u: %s\n", verdicts[d->verdict].name,
		       d->rule->line, buf_str(&rule));
	} else {
		printf("%s: no rule matches\n", verdicts[d->verdict].name);
	}
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
	explain(&d, json);
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
	{ 0 },
};
