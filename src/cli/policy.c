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

void policy_load(struct cli *cli, const char *path, struct policy *p)
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
	policy_load(cli, argv[1], &p);
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

const struct verb policy_verbs[] = {
	{ .name = "check",
	  .fn = policy_check,
	  .args = "[OPTIONS] FILE",
	  .help = "read a policy and print it as it was understood",
	  .notes = "FILE is text or JSON; - is standard input." },
	{ .name = "test",
	  .fn = policy_test,
	  .args = "[OPTIONS] [FILE|NAME] URL",
	  .help = "say which rule of a policy decides about a request",
	  .notes = "Of a file, of a policy that is kept under a name, or with "
		   "--sandbox of all that a\n"
		   "sandbox has. URL is http://, https://, ws://, wss:// or "
		   "tcp://HOST:PORT. Exits\n"
		   "with 0 for allow, 1 for deny and 3 for ask. The first "
		   "rule that matches\n"
		   "decides; none is a deny.",
	  .examples = PRODUCT " policy test research.policy "
			      "https://example.com/x\n" PRODUCT
			      " policy test -X POST research.policy "
			      "https://example.com/x\n" PRODUCT
			      " policy test --sandbox work "
			      "tcp://db.internal:5432\n" },
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
