/* carrel move: the same sandbox in the other tier. */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "cli/long.h"

static const struct long_phase phases[] = {
	{ "stop", "ending its processes" },
	{ "launch", "starting it in the other tier" },
	{ "read", "opening its disk" },
	{ "copy", "copying its disk" },
	{ 0 },
};

int verb_move(struct cli *cli, int argc, char **argv)
{
	const char *tier = NULL;
	bool json = false;
	const struct opt table[] = {
		{ "tier", 0, OPT_TEXT, &tier, "TIER",
		  "where to: microvm or container" },
		{ "json", 0, OPT_FLAG, &json, NULL, "print the sandbox" },
		OPT_HELP(cli),
		{ 0 },
	};
	int n = cli_operands(cli, table, argc, argv);
	AUTO(buf_done) struct buf body = { 0 }, path = { 0 };
	char target[TARGET_CAP];
	struct progress progress;
	json_t *j;

	if (n != 1 || !tier)
		cli_usage_error(cli, "which sandbox, and where to? (--tier "
				     "microvm or container)");
	buf_puts(&body, "{\"tier\":");
	json_put_str(&body, tier, strlen(tier));
	buf_puts(&body, "}");
	server_target(cli, target, "/v1/sandboxes/", argv[1]);
	buf_printf(&path, "%s/move", target);
	progress_init(&progress);
	j = long_ask(cli, buf_str(&path), &body, phases, &progress);
	if (json)
		print_json(j);
	json_decref(j);
	return 0;
}
