/*
 * The command line: options in front of the verb, the table of verbs, help.
 *
 * It must start in about a millisecond, because `run` is the way people and
 * scripts meet a sandbox: no locale, no configuration beyond what is needed to
 * find the socket, no work before the verb is known.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/product.h"
#include "cli/cli.h"

static verb_fn verb_help;

static const struct verb verbs[] = {
	{ "run", verb_run, "[OPTIONS] [--] COMMAND [ARG...]",
	  "run a command in a new sandbox, which is gone afterwards",
	  "The exit code is the command's; 128 + N when signal N ended it, "
	  "127\n"
	  "when it was not found, 126 when it could not be started, 125 when "
	  "no\n"
	  "sandbox could be made for it." },
	{ "create", verb_create, "[OPTIONS]", "make a sandbox and print its id",
	  NULL },
	{ "exec", verb_exec, "[OPTIONS] SANDBOX [--] COMMAND [ARG...]",
	  "run a command in a sandbox",
	  "SANDBOX is an id, a name, or the first letters of an id. Exit codes "
	  "are those\nof `run`." },
	{ "ls", verb_ls, "[OPTIONS]", "list the sandboxes", NULL },
	{ "rm", verb_rm, "[OPTIONS] SANDBOX... | --all --force",
	  "end sandboxes and remove all that was theirs", NULL },
	{ "inspect", verb_inspect, "[OPTIONS] SANDBOX...",
	  "show all that is known about sandboxes", NULL },
	{ "image", verb_image, "build|import|ls|rm ...",
	  "make, list and remove images", NULL },
	{ "doctor", verb_doctor, "[OPTIONS]",
	  "what this host offers, what is missing, what to do about it", NULL },
	{ "version", verb_version, "[OPTIONS]",
	  "show the versions of this program and of the daemon", NULL },
	{ "help", verb_help, "[VERB]", "show this text, or a verb's", NULL },
	{ 0 },
};

const struct verb *cli_find(const struct verb *table, const char *name)
{
	for (; table->name; table++)
		if (strcmp(table->name, name) == 0)
			return table;
	return NULL;
}

void cli_list_verbs(const struct verb *table)
{
	for (; table->name; table++)
		printf("  %-13s %s\n", table->name, table->help);
}

static void show_help(const struct verb *v, const struct opt *table)
{
	printf("Usage: " PRODUCT " %s %s\n\n%c%s.\n\nOptions:\n", v->name,
	       v->args, v->help[0] - 'a' + 'A', v->help + 1);
	opt_help(table);
	if (v->notes)
		printf("\n%s\n", v->notes);
}

int cli_options(struct cli *cli, const struct opt *table, int argc, char **argv)
{
	struct err e = { 0 };
	int i = opt_parse(table, argc, argv, &e);

	if (cli->help) {
		show_help(cli->verb, table);
		exit(0);
	}
	if (i < 0)
		cli_usage_error(cli, e.msg);
	return i;
}

int cli_operands(struct cli *cli, const struct opt *table, int argc,
		 char **argv)
{
	int at = 0, n = 0;

	for (;;) {
		at += cli_options(cli, table, argc - at, argv + at);
		if (strcmp(argv[at - 1], "--") == 0 || at >= argc)
			break;
		/* opt_parse() starts behind its first word: this one. */
		argv[++n] = argv[at];
	}
	while (at < argc)
		argv[++n] = argv[at++];
	return n;
}

void cli_usage_error(struct cli *cli, const char *what)
{
	complain("%s: %s", cli->verb->name, what);
	exit(cli->fail_code == EXIT_FAILED ? EXIT_USAGE : cli->fail_code);
}

void cli_conf(struct cli *cli, struct conf *c)
{
	struct err e = { 0 };

	if (conf_load(c, cli->conf_path, &e) < 0)
		fail(cli, "%s", e.msg);
}

static const char *env_or_null(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

static void global_options(struct cli *cli, struct opt table[4])
{
	const struct opt rows[] = {
		{ "config", 0, OPT_TEXT, &cli->conf_path, "FILE",
		  "configuration (also CARREL_CONFIG)" },
		{ "socket", 0, OPT_TEXT, &cli->socket, "PATH",
		  "the daemon's socket (also CARREL_SOCKET)" },
		OPT_HELP(cli),
		{ 0 },
	};

	memcpy(table, rows, sizeof(rows));
}

static void show_all_help(struct cli *cli)
{
	struct opt table[4];

	global_options(cli, table);
	puts("Usage: " PRODUCT " [OPTIONS] VERB ...\n\n"
	     "Every agent its own isolated Linux machine.\n\nVerbs:");
	cli_list_verbs(verbs);
	puts("\nOptions:");
	opt_help(table);
	puts("\n`" PRODUCT " VERB --help` shows the options of a verb.");
}

static int run_verb(struct cli *cli, int argc, char **argv)
{
	cli->verb = cli_find(verbs, argv[0]);
	if (!cli->verb) {
		complain("'%s' is not a verb (see " PRODUCT " help)", argv[0]);
		return EXIT_USAGE;
	}
	return cli->verb->fn(cli, argc, argv);
}

static int verb_help(struct cli *cli, int argc, char **argv)
{
	char flag[] = "--help";
	char *args[] = { argc > 1 ? argv[1] : NULL, flag, NULL };

	if (argc > 1 && argv[1][0] != '-' && strcmp(argv[1], "help") != 0)
		return run_verb(cli, 2, args);
	show_all_help(cli);
	return 0;
}

int main(int argc, char **argv)
{
	struct cli cli = { .conf_path = env_or_null("CARREL_CONFIG"),
			   .socket = env_or_null("CARREL_SOCKET"),
			   .fail_code = EXIT_FAILED };
	struct err e = { 0 };
	struct opt table[4];
	int i, code;

	global_options(&cli, table);
	i = opt_parse(table, argc, argv, &e);
	if (i < 0) {
		complain("%s", e.msg);
		return EXIT_USAGE;
	}
	if (cli.help || i >= argc) {
		show_all_help(&cli);
		return cli.help ? 0 : EXIT_USAGE;
	}
	code = run_verb(&cli, argc - i, argv + i);
	/* A full disk or a closed pipe must not look like success. */
	if ((fflush(stdout) == EOF || ferror(stdout)) && code == 0) {
		complain("write to standard output: %s", strerror(errno));
		return EXIT_FAILED;
	}
	return code;
}
