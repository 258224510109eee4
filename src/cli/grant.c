/* carrel grants: list and withdraw approvals that hold beyond one request. */
#include <string.h>

#include "base/auto.h"
#include "base/product.h"
#include "cli/listing.h"
#include "cli/server.h"
#include "cli/show.h"

static void row(struct table *t, const json_t *g)
{
	char number[SHOW_CAP], id[SHOW_CAP], age[SHOW_CAP], left[SHOW_CAP];
	const char *name = show_str(g, "name");
	const char *cells[] = {
		number, *name ? name : id, show_str(g, "rule"), age,
		left,   show_str(g, "by")
	};

	show_number(g, "number", number);
	show_id(g, "sandbox", id);
	show_age(g, "created_at", age);
	show_until(g, "until", left);
	table_row(t, cells);
}

static int grants_ls(struct cli *cli, int argc, char **argv)
{
	static const char *const titles[] = { "NUMBER", "SANDBOX", "RULE",
					      "AGE",    "ENDS",    "BY" };
	static const struct listing list = {
		.target = "/v1/grants",
		.key = "grants",
		.titles = titles,
		.n_titles = ARRAY_LEN(titles),
		.row = row,
		.numbered = true,
	};

	return listing_verb(cli, argc, argv, &list);
}

static int grants_rm(struct cli *cli, int argc, char **argv)
{
	const struct opt table[] = { OPT_HELP(cli), { 0 } };
	int n = cli_operands(cli, table, argc, argv);

	if (n == 0)
		cli_usage_error(cli, "which grant? (its number: see grants "
				     "ls)");
	return remove_each(cli, "/v1/grants/", n, argv + 1);
}

const struct verb grant_verbs[] = {
	{ .name = "ls",
	  .fn = grants_ls,
	  .args = "[OPTIONS]",
	  .help = "list what `approve --for` and `--always` have opened" },
	{ .name = "rm",
	  .fn = grants_rm,
	  .args = "GRANT...",
	  .help = "withdraw grants and close the connections that they allowed",
	  .examples = PRODUCT " grants rm 3\n" },
	{ 0 },
};
