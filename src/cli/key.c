/* carrel key: who may use the daemon without an account on this host. */
#include <string.h>

#include "base/auto.h"
#include "base/product.h"
#include "cli/server.h"
#include "cli/show.h"

static void put_word(struct buf *b, const char *key, const char *value)
{
	if (!value)
		return;
	buf_puts(b, buf_len(b) > 1 ? "," : "");
	json_put_str(b, key, strlen(key));
	buf_puts(b, ":");
	json_put_str(b, value, strlen(value));
}

static int key_create(struct cli *cli, int argc, char **argv)
{
	const char *name = NULL, *scope = NULL, *project = NULL;
	bool json = false;
	const struct opt table[] = {
		{ "name", 0, OPT_TEXT, &name, "TEXT", "what it is for" },
		{ "scope", 0, OPT_TEXT, &scope, "SCOPE",
		  "read, use (default), approve, policy, admin; each has "
		  "those before" },
		{ "project", 0, OPT_TEXT, &project, "PROJECT",
		  "the only one whose sandboxes it sees (default: default; * "
		  "is all)" },
		{ "json", 0, OPT_FLAG, &json, NULL, "all about it, as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	struct buf body = { 0 };
	char key[SHOW_CAP];
	json_t *j;

	if (cli_operands(cli, table, argc, argv) > 0)
		cli_usage_error(cli, "takes no operands (a name: --name TEXT)");
	buf_puts(&body, "{");
	put_word(&body, "name", name);
	put_word(&body, "scope", scope);
	put_word(&body, "project", project);
	buf_puts(&body, "}");
	j = server_get(cli, "POST", "/v1/keys", &body);
	buf_done(&body);
	if (json) {
		print_json(j);
	} else {
		clean_text(key, sizeof(key), show_str(j, "key"));
		puts(key);
	}
	json_decref(j);
	return 0;
}

static int key_ls(struct cli *cli, int argc, char **argv)
{
	static const char *const titles[] = { "ID",    "NAME", "PROJECT",
					      "SCOPE", "AGE",  "LAST USED" };
	bool json = false, quiet = false;
	const struct opt table[] = {
		{ "quiet", 'q', OPT_FLAG, &quiet, NULL, "only ids" },
		{ "json", 0, OPT_FLAG, &json, NULL, "as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	struct table t;
	json_t *j, *k;
	size_t i;

	if (cli_operands(cli, table, argc, argv) > 0)
		cli_usage_error(cli, "takes no operands");
	j = server_get(cli, "GET", "/v1/keys", NULL);
	if (json)
		print_json(json_object_get(j, "keys"));
	table_init(&t, titles, ARRAY_LEN(titles));
	json_array_foreach (json_object_get(j, "keys"), i, k) {
		char id[SHOW_CAP], age[SHOW_CAP], used[SHOW_CAP];
		const char *name = show_str(k, "name");
		const char *cells[] = { id,
					*name ? name : "-",
					show_str(k, "project"),
					show_str(k, "scope"),
					age,
					used };

		clean_text(id, sizeof(id), show_str(k, "id"));
		show_age(k, "created_at", age);
		show_age(k, "last_used_at", used);
		table_row(&t, cells);
		if (quiet && !json)
			puts(id);
	}
	if (!json && !quiet)
		table_print(&t);
	table_done(&t);
	json_decref(j);
	return 0;
}

static int key_rm(struct cli *cli, int argc, char **argv)
{
	const struct opt table[] = { OPT_HELP(cli), { 0 } };
	int n = cli_operands(cli, table, argc, argv);

	if (n == 0)
		cli_usage_error(cli, "which key? (its id: see key ls)");
	return remove_each(cli, "/v1/keys/", n, argv + 1);
}

const struct verb key_verbs[] = {
	{ .name = "create",
	  .fn = key_create,
	  .args = "[OPTIONS]",
	  .help = "make a key and print it, this once",
	  .examples = "KEY=$(" PRODUCT " key create --name ci --scope use)\n" },
	{ .name = "ls",
	  .fn = key_ls,
	  .args = "[OPTIONS]",
	  .help = "list the keys, without the keys themselves" },
	{ .name = "rm",
	  .fn = key_rm,
	  .args = "ID...",
	  .help = "remove keys: they open nothing any more" },
	{ 0 },
};
