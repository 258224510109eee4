/* carrel update: what may change while a sandbox lives. */
#include <string.h>

#include "base/auto.h"
#include "cli/server.h"
#include "cli/spec_opts.h"

int verb_update(struct cli *cli, int argc, char **argv)
{
	static struct spec_opts s;
	bool json = false;
	const struct opt more[] = {
		{ "json", 0, OPT_FLAG, &json, NULL, "print the sandbox" },
		OPT_HELP(cli),
		{ 0 },
	};
	struct opt table[SPEC_OPTS_MAX + ARRAY_LEN(more)];
	char target[TARGET_CAP];
	struct buf body = { 0 };
	json_t *j;

	memcpy(table + spec_opts_rows(&s, table, ROWS_PATCH), more,
	       sizeof(more));
	if (cli_operands(cli, table, argc, argv) != 1)
		cli_usage_error(cli, "which sandbox? (one id or name)");
	spec_opts_body(cli, &s, NULL, &body);
	if (strcmp(buf_str(&body), "{}") == 0)
		cli_usage_error(cli, "what is to change? (see --help)");
	server_target(cli, target, "/v1/sandboxes/", argv[1]);
	j = server_get(cli, "PATCH", target, &body);
	buf_done(&body);
	if (json)
		print_json(j);
	json_decref(j);
	return 0;
}
