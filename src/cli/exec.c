/* carrel exec: a command in a sandbox that lives. */
#include <string.h>

#include "cli/process.h"
#include "cli/server.h"

int verb_exec(struct cli *cli, int argc, char **argv)
{
	static struct process_opts p;
	struct opt table[PROCESS_ROWS + 3];
	char base[TARGET_CAP], target[TARGET_CAP + 8];
	const char *ref;
	size_t n = process_rows(&p, table);
	int at;

	table[n++] = (struct opt){ "detach",
				   'd',
				   OPT_FLAG,
				   &p.detach,
				   NULL,
				   "leave the command running, drop its "
				   "output" };
	table[n++] = (struct opt)OPT_HELP(cli);
	table[n] = (struct opt){ 0 };
	cli->fail_code = EXIT_OURS;
	at = cli_options(cli, table, argc, argv);
	if (at >= argc)
		cli_usage_error(cli, "a sandbox and a command are needed");
	ref = argv[at];
	/* Options may also stand between the sandbox and the command. */
	at += cli_options(cli, table, argc - at, argv + at);
	if (at >= argc)
		cli_usage_error(cli, "a command is needed");
	if (p.detach && p.tty)
		cli_usage_error(cli, "--detach and --tty exclude each other");
	server_target(cli, base, "/v1/sandboxes/", ref);
	snprintf(target, sizeof(target), "%s/exec", base);
	return process_run(cli, &p, target, NULL, argv + at);
}
