#include "cli/listing.h"

#include <stdio.h>

#include "cli/server.h"
#include "cli/show.h"

static void print_names(const struct listing *l, const json_t *list)
{
	const json_t *one;
	char name[SHOW_CAP];
	size_t i;

	json_array_foreach ((json_t *)list, i, one) {
		if (l->numbered)
			show_number(one, "number", name);
		else
			clean_text(name, sizeof(name), show_str(one, "name"));
		puts(name);
	}
}

static void print_table(const struct listing *l, const json_t *list)
{
	const json_t *one;
	struct table t;
	size_t i;

	table_init(&t, l->titles, l->n_titles);
	json_array_foreach ((json_t *)list, i, one) {
		l->row(&t, one);
	}
	table_print(&t);
	table_done(&t);
}

int listing_verb(struct cli *cli, int argc, char **argv,
		 const struct listing *l)
{
	bool json = false, quiet = false;
	const struct opt table[] = {
		{ "quiet", 'q', OPT_FLAG, &quiet, NULL,
		  l->numbered ? "only numbers" : "only names" },
		{ "json", 0, OPT_FLAG, &json, NULL, "as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	json_t *j, *list;

	if (cli_operands(cli, table, argc, argv) > 0)
		cli_usage_error(cli, "takes no operands");
	j = server_get(cli, "GET", l->target, NULL);
	list = json_object_get(j, l->key);
	if (json)
		print_json(list);
	else if (quiet)
		print_names(l, list);
	else
		print_table(l, list);
	json_decref(j);
	return 0;
}
