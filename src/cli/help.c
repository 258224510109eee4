/*
 * The tables of verbs and options as text: --help, and the man pages that
 * `make man` writes with the hidden options of `carrel help`.
 */
#include <ctype.h>
#include <string.h>

#include "base/auto.h"
#include "base/product.h"
#include "cli/cli.h"

static void list_verbs(const struct verb *table)
{
	for (; table->name; table++)
		printf("  %-13s %s\n", table->name, table->help);
}

void show_all_help(struct cli *cli)
{
	struct opt table[GLOBAL_ROWS];

	cli_global_options(cli, table);
	puts("Usage: " PRODUCT " [OPTIONS] VERB ...\n\n"
	     "Every agent its own isolated Linux machine.\n\nVerbs:");
	list_verbs(all_verbs);
	puts("\nOptions:");
	opt_help(table);
	puts("\n`" PRODUCT " VERB --help` shows the options of a verb.");
}

void show_group_help(const struct verb *group)
{
	printf("Usage: " PRODUCT " %s VERB ...\n\n%c%s.\n\nVerbs:\n",
	       group->name, toupper(group->help[0]), group->help + 1);
	list_verbs(group->sub);
	if (group->notes)
		printf("\n%s\n", group->notes);
}

static void indent_lines(const char *text)
{
	while (*text) {
		int n = (int)strcspn(text, "\n");

		printf("  %.*s\n", n, text);
		text += n + (text[n] == '\n');
	}
}

void show_verb_help(const struct cli *cli, const struct opt *table)
{
	const struct verb *v = cli->verb;
	char name[VERB_NAME_CAP];

	cli_verb_name(cli, " ", name);
	printf("Usage: " PRODUCT " %s %s\n\n%c%s.\n\nOptions:\n", name, v->args,
	       toupper(v->help[0]), v->help + 1);
	opt_help(table);
	if (v->notes)
		printf("\n%s\n", v->notes);
	if (v->examples) {
		puts("\nExamples:");
		indent_lines(v->examples);
	}
}

/*
 * Man pages. The text is ours, so only what roff itself would take for its
 * own is escaped: backslashes, hyphens, and control lines.
 */
static void roff(const char *s, int n)
{
	bool first = true;

	for (; n > 0 && *s; n--, s++) {
		if (first && (*s == '.' || *s == '\''))
			fputs("\\&", stdout);
		first = *s == '\n';
		if (*s == '\\')
			fputs("\\e", stdout);
		else if (*s == '-')
			fputs("\\-", stdout);
		else if (*s == '\'')
			fputs("\\(aq", stdout);
		else if (*s == '`')
			fputs("\\(ga", stdout);
		else
			putchar(*s);
	}
}

static void roff_line(const char *before, const char *s)
{
	fputs(before, stdout);
	roff(s, (int)strlen(s));
	putchar('\n');
}

/* Empty lines are between paragraphs; lines with a space in front stay. */
static void roff_text(const char *s)
{
	bool kept = false;

	while (*s) {
		int n = (int)strcspn(s, "\n");

		if ((*s == ' ') != kept && n > 0) {
			puts(kept ? ".EE" : ".EX");
			kept = !kept;
		}
		if (n == 0)
			fputs(".PP", stdout);
		else
			roff(s, n);
		putchar('\n');
		s += n + (s[n] == '\n');
	}
	if (kept)
		puts(".EE");
}

static void man_options(const struct opt *table)
{
	puts(".SH OPTIONS");
	for (; table->name; table++) {
		if (!table->help)
			continue;
		puts(".TP");
		if (table->letter)
			printf("\\fB\\-%c\\fR, ", table->letter);
		fputs("\\fB\\-\\-", stdout);
		roff(table->name, (int)strlen(table->name));
		fputs("\\fR", stdout);
		if (table->arg)
			printf(" \\fI%s\\fR", table->arg);
		putchar('\n');
		roff_line("", table->help);
	}
}

static void man_title(const char *page, const char *help)
{
	const char *p;

	fputs(".TH \"", stdout);
	for (p = page; *p; p++)
		putchar(toupper(*p));
	puts("\" 1 \"\" \"" PRODUCT " " PRODUCT_VERSION "\"\n.SH NAME");
	roff(page, (int)strlen(page));
	roff_line(" \\- ", help);
}

void show_verb_man(const struct cli *cli, const struct opt *table)
{
	const struct verb *v = cli->verb;
	char page[VERB_NAME_CAP + 16], name[VERB_NAME_CAP];

	cli_verb_name(cli, "-", name);
	snprintf(page, sizeof(page), PRODUCT "-%s", name);
	man_title(page, v->help);
	cli_verb_name(cli, " ", name);
	printf(".SH SYNOPSIS\n.B " PRODUCT " %s\n", name);
	roff_line("", v->args);
	if (v->notes) {
		puts(".SH DESCRIPTION");
		roff_text(v->notes);
	}
	man_options(table);
	if (v->examples) {
		puts(".SH EXAMPLES\n.EX");
		roff(v->examples, (int)strlen(v->examples));
		puts(".EE");
	}
	puts(".SH SEE ALSO\n.BR " PRODUCT " (1)");
}

static void man_verbs(const struct verb *table, const char *group)
{
	for (; table->name; table++) {
		if (table->sub) {
			man_verbs(table->sub, table->name);
			continue;
		}
		printf(".TP\n\\fB" PRODUCT "\\-%s%s%s\\fR(1)\n", group,
		       *group ? "\\-" : "", table->name);
		roff_line("", table->help);
	}
}

static void show_all_man(struct cli *cli)
{
	struct opt table[GLOBAL_ROWS];

	cli_global_options(cli, table);
	man_title(PRODUCT, "isolated Linux machines for agents");
	puts(".SH SYNOPSIS\n.B " PRODUCT "\n[OPTIONS] VERB ...\n"
	     ".SH DESCRIPTION\n"
	     "Every agent gets its own Linux machine: isolated, there in "
	     "milliseconds, gone\nwithout a trace. This is the command line; "
	     "the work is done by the daemon,\n" PRODUCT "d, which listens on "
	     "a unix socket.\nWho is root or in the group of the daemon may "
	     "use it.\n.PP\n"
	     "From another machine, through ssh:\n.PP\n.EX\n"
	     "ssh \\-nNT \\-L /tmp/" PRODUCT ".sock:/run/" PRODUCT
	     "/api.sock SERVER &\n" PRODUCT " \\-\\-socket /tmp/" PRODUCT
	     ".sock ls\n.EE\n"
	     ".SH VERBS");
	man_verbs(all_verbs, "");
	man_options(table);
	puts(".SH EXIT STATUS\n"
	     "0 when done, 1 when it failed, 2 when the words on the command "
	     "line are wrong.\nThose of commands inside:\n"
	     ".BR " PRODUCT "\\-run (1).\n"
	     ".SH FILES\n.TP\n.I " DEFAULT_CONF "\n"
	     "configuration, the same for the daemon\n.TP\n"
	     ".I /run/" PRODUCT "/api.sock\nthe daemon's socket");
}

static void list_pages(const struct verb *table, const char *group)
{
	for (; table->name; table++) {
		if (table->sub)
			list_pages(table->sub, table->name);
		else
			printf("%s%s%s\n", group, *group ? " " : "",
			       table->name);
	}
}

int verb_help(struct cli *cli, int argc, char **argv)
{
	bool man = false, pages = false;
	char flag[] = "--help";
	char *args[] = { NULL, NULL, NULL, NULL };
	/* What has no help is not shown: these are for `make man`. */
	const struct opt table[] = {
		{ "man", 0, OPT_FLAG, &man, NULL, NULL },
		{ "pages", 0, OPT_FLAG, &pages, NULL, NULL },
		OPT_HELP(cli),
		{ 0 },
	};
	int n = cli_operands(cli, table, argc, argv), i;

	if (pages) {
		list_pages(all_verbs, "");
		return 0;
	}
	if (n == 0) {
		(man ? show_all_man : show_all_help)(cli);
		return 0;
	}
	for (i = 0; i < n && i < 2; i++)
		args[i] = argv[i + 1];
	if (man)
		cli->show = SHOW_MAN;
	else
		args[i++] = flag;
	return cli_run_verb(cli, i, args);
}
