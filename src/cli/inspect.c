/* carrel inspect: all that is known about sandboxes. */
#include <string.h>

#include "cli/server.h"
#include "cli/show.h"

int verb_inspect(struct cli *cli, int argc, char **argv)
{
	bool json = false;
	const struct opt table[] = {
		{ "json", 0, OPT_FLAG, &json, NULL,
		  "as JSON: an object, an array of them for several" },
		OPT_HELP(cli),
		{ 0 },
	};
	int n = cli_operands(cli, table, argc, argv), i;
	json_t *all = json_array();

	if (n == 0)
		cli_usage_error(cli, "which sandbox? (an id or a name)");
	for (i = 1; i <= n; i++) {
		char target[TARGET_CAP];

		server_target(cli, target, "/v1/sandboxes/", argv[i]);
		json_array_append_new(all,
				      server_get(cli, "GET", target, NULL));
	}
	for (i = 0; i < n && !json; i++) {
		if (i > 0)
			putchar('\n');
		show_tree(json_array_get(all, (size_t)i), 0);
	}
	if (json)
		print_json(n == 1 ? json_array_get(all, 0) : all);
	json_decref(all);
	return 0;
}
