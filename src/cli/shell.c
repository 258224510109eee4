/* carrel shell: a login shell, in a sandbox that lives or in a new one. */
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/process.h"
#include "cli/spec_opts.h"

/* The agent sets SHELL from /etc/passwd; not every image has that one. */
static const char login[] = "for s in \"$SHELL\" /bin/bash /bin/sh; do "
			    "[ -x \"$s\" ] && SHELL=$s exec \"$s\" -l; done; "
			    "echo no shell in this image >&2; exit 127";

int verb_shell(struct cli *cli, int argc, char **argv)
{
	static struct process_opts p;
	static struct spec_opts s;
	const struct opt more[] = {
		{ "user", 'u', OPT_TEXT, &p.user, "USER",
		  "user inside, a name or a number" },
		{ "workdir", 'w', OPT_TEXT, &p.workdir, "DIR",
		  "directory to start in" },
		{ "env", 'e', OPT_LIST, &p.env, "K[=V]",
		  "set a variable; without =V to your own value" },
		OPT_HELP(cli),
		{ 0 },
	};
	struct opt table[SPEC_OPTS_MAX + ARRAY_LEN(more)];
	char *words[] = { (char *)"/bin/sh", (char *)"-c", (char *)login,
			  NULL };
	struct buf body = { 0 };
	int n, code;

	memcpy(table + spec_opts_rows(&s, table, ROWS_RUN), more, sizeof(more));
	cli->fail_code = EXIT_OURS;
	n = cli_operands(cli, table, argc, argv);
	if (n > 1)
		cli_usage_error(cli, "one sandbox, or none for a new one");
	spec_opts_body(cli, &s, NULL, &body);
	if (n == 1 && strcmp(buf_str(&body), "{}") != 0)
		cli_usage_error(cli, "what a sandbox is like is said when it "
				     "is made, and this one is there");
	/* Without a terminal it reads its commands, as any shell. */
	p.tty = isatty(STDIN_FILENO);
	code = process_run(cli, &p, n == 1 ? argv[1] : NULL,
			   n == 1 ? NULL : &body, words);
	buf_done(&body);
	return code;
}
