/* carrel rollback: a sandbox is again what it was. */
#include <string.h>

#include "base/auto.h"
#include "cli/server.h"

int verb_rollback(struct cli *cli, int argc, char **argv)
{
	uint64_t event = 0;
	bool json = false;
	const struct opt table[] = {
		{ "at", 0, OPT_NUMBER, &event, "EVENT",
		  "to the newest snapshot at or before this entry of the log" },
		{ "json", 0, OPT_FLAG, &json, NULL, "print the sandbox" },
		OPT_HELP(cli),
		{ 0 },
	};
	int n = cli_operands(cli, table, argc, argv);
	AUTO(buf_done) struct buf body = { 0 }, path = { 0 };
	char target[TARGET_CAP];
	json_t *j;

	if (n < 1 || n > 2 || (n == 2) == (event > 0))
		cli_usage_error(cli, "which sandbox, and to what? (a snapshot, "
				     "or --at EVENT)");
	if (event > 0) {
		buf_printf(&body, "{\"event\":%llu}",
			   (unsigned long long)event);
	} else {
		buf_puts(&body, "{\"snapshot\":");
		json_put_str(&body, argv[2], strlen(argv[2]));
		buf_puts(&body, "}");
	}
	server_target(cli, target, "/v1/sandboxes/", argv[1]);
	buf_printf(&path, "%s/rollback", target);
	j = server_get(cli, "POST", buf_str(&path), &body);
	if (json)
		print_json(j);
	json_decref(j);
	return 0;
}
