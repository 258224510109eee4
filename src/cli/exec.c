/* carrel exec: a command in a sandbox that lives. */
#include <string.h>

#include "base/auto.h"
#include "cli/process.h"
#include "wire/frame.h"

int verb_exec(struct cli *cli, int argc, char **argv)
{
	static struct process_opts p;
	const struct opt more[] = {
		{ "detach", 'd', OPT_FLAG, &p.detach, NULL,
		  "leave the command running, print its number" },
		{ "timeout", 0, OPT_TIME, &p.timeout_ms, "TIME",
		  "end the command after that time; the exit code is 124" },
		{ "tag", 0, OPT_TEXT, &p.tag, "TAG",
		  "a name to attach to it by: tag:TAG" },
		OPT_HELP(cli),
		{ 0 },
	};
	struct opt table[PROCESS_ROWS + ARRAY_LEN(more)];
	const char *ref;
	int at;

	memcpy(table + process_rows(&p, table), more, sizeof(more));
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
	if (p.detach && p.timeout_ms)
		cli_usage_error(cli, "--timeout needs a program that waits: "
				     "not with --detach");
	if (p.tag && (*p.tag == '\0' || strlen(p.tag) > TAG_MAX))
		cli_usage_error(cli, "a tag has 1 to 64 bytes");
	return process_run(cli, &p, ref, NULL, argv + at);
}
