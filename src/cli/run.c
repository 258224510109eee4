/* carrel run: a sandbox for one command. */
#include "base/product.h"
#include "cli/process.h"
#include "cli/spec_opts.h"

int verb_run(struct cli *cli, int argc, char **argv)
{
	static struct process_opts p;
	static struct spec_opts s;
	struct opt table[SPEC_OPTS_MAX + PROCESS_ROWS + 2];
	struct buf body = { 0 };
	size_t n = spec_opts_rows(&s, table, ROWS_RUN);
	int at, code;

	n += process_rows(&p, table + n);
	table[n++] = (struct opt)OPT_HELP(cli);
	table[n] = (struct opt){ 0 };
	cli->fail_code = EXIT_OURS;
	at = cli_options(cli, table, argc, argv);
	if (at >= argc)
		cli_usage_error(cli, "a command is needed (try: " PRODUCT
				     " run -- echo hello)");
	/* The variables go with the command: there will be no other one. */
	spec_opts_body(cli, &s, NULL, &body);
	code = process_run(cli, &p, NULL, &body, argv + at);
	buf_done(&body);
	return code;
}
