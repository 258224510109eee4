/* carrel attach: to a process that runs already. */
#include <unistd.h>

#include "cli/process.h"
#include "cli/stream.h"

int verb_attach(struct cli *cli, int argc, char **argv)
{
	bool no_input = false, replay = false;
	const struct opt table[] = {
		{ "no-stdin", 'n', OPT_FLAG, &no_input, NULL,
		  "only look: Ctrl-C leaves" },
		{ "replay", 'r', OPT_FLAG, &replay, NULL,
		  "show first what is kept of its output" },
		OPT_HELP(cli),
		{ 0 },
	};
	struct stream_opts o = { .cli = cli, .keys = isatty(STDIN_FILENO) };
	char target[EXEC_TARGET_CAP];
	int i, n;

	cli->fail_code = EXIT_OURS;
	n = cli_operands(cli, table, argc, argv);
	if (n != 2)
		cli_usage_error(cli, "a sandbox and a process are needed (its "
				     "number, or tag:TAG)");
	process_ref(cli, argv[2], &o.at);
	process_target(cli, argv[1], target);
	o.target = target;
	o.input = !no_input;
	o.aside = no_input;
	for (i = 0; i < 2; i++)
		o.at.out[i] = replay ? 0 : OFFSET_NOW;
	return stream_run(&o);
}
