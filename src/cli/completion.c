/*
 * Completion of words in shells.
 *
 * The scripts are a few lines and know nothing: on each <Tab> they ask the
 * hidden `carrel completion --words`, which reads the same tables as --help.
 * It answers with lines of "word<tab>description"; ":files" lets the shell
 * offer files. Sandboxes and images come from the daemon, if it answers at
 * once; nothing here ever says anything else.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/product.h"
#include "cli/server.h"
#include "cli/show.h"
#include "http/target.h"

enum { ASK_MS = 500, KIND_CAP = 32 };

static const char bash_script[] =
	"# bash completion of " PRODUCT "\n"
	"_" PRODUCT "()\n"
	"{\n"
	"	local cur=${COMP_WORDS[COMP_CWORD]} line\n"
	"	COMPREPLY=()\n"
	"	while IFS= read -r line; do\n"
	"		line=${line%%$'\\t'*}\n"
	"		if [[ $line == :files ]]; then\n"
	"			compopt -o filenames 2>/dev/null\n"
	"			mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(\n"
	"				compgen -f -- \"$cur\")\n"
	"		elif [[ $line == \"$cur\"* ]]; then\n"
	"			[[ $line == *: ]] && compopt -o nospace "
	"2>/dev/null\n"
	"			COMPREPLY+=(\"$line\")\n"
	"		fi\n"
	"	done < <(\"${COMP_WORDS[0]}\" completion --words -- \\\n"
	"		\"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
	"}\n"
	"complete -F _" PRODUCT " " PRODUCT "\n";

static const char zsh_script[] =
	"#compdef " PRODUCT "\n"
	"_" PRODUCT "()\n"
	"{\n"
	"	local line\n"
	"	local -a offer\n"
	"	for line in ${(f)\"$(\"$words[1]\" completion --words -- \\\n"
	"		\"${(@)words[2,CURRENT]}\" 2>/dev/null)\"}; do\n"
	"		if [[ $line == :files ]]; then\n"
	"			_files\n"
	"		else\n"
	"			line=${line//:/\\\\:}\n"
	"			offer+=(\"${line/$'\\t'/:}\")\n"
	"		fi\n"
	"	done\n"
	"	_describe -t words " PRODUCT " offer\n"
	"}\n"
	"if [[ $funcstack[1] == _" PRODUCT " ]]; then\n"
	"	_" PRODUCT " \"$@\"\n"
	"else\n"
	"	compdef _" PRODUCT " " PRODUCT "\n"
	"fi\n";

static void offer_verbs(const struct verb *table)
{
	for (; table->name; table++)
		printf("%s\t%s\n", table->name, table->help);
}

static void offer_options(const struct opt *table)
{
	for (; table->name; table++)
		if (table->help)
			printf("--%s\t%s\n", table->name, table->help);
}

/* An answer of the daemon, or NULL: never a message, never a wait. */
static json_t *ask(struct cli *cli, const char *target)
{
	struct http_call call = { .method = "GET", .target = target };
	struct http_client c;
	struct buf body = { 0 };
	struct err e = { 0 };
	char why[MESSAGE_CAP];
	json_t *j = NULL;

	if (!server_try(cli, &c, why))
		return NULL;
	if (http_client_timeout(&c, ASK_MS, &e) == 0 &&
	    http_do(&c, &call, ANSWER_MAX, &body, &e) == 200)
		j = json_loadb(buf_data(&body), buf_len(&body), 0, NULL);
	buf_done(&body);
	http_client_done(&c);
	return j;
}

/* What stands on a command line must need no quotes. */
static bool plain(const char *s)
{
	if (*s == '\0' || *s == '-')
		return false;
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && !strchr("-_.", *s))
			return false;
	return true;
}

static void offer_list(struct cli *cli, const char *target, const char *key,
		       const char *end)
{
	json_t *j = ask(cli, target), *one;
	size_t i;

	json_array_foreach (json_object_get(j, key), i, one) {
		const char *name = show_str(one, "name");

		if (*name == '\0')
			name = show_str(one, "id");
		if (plain(name))
			printf("%s%s\n", name, end);
	}
	json_decref(j);
}

static void offer_sandboxes(struct cli *cli)
{
	offer_list(cli, "/v1/sandboxes?limit=1000", "sandboxes", "");
}

static void offer_images(struct cli *cli)
{
	offer_list(cli, "/v1/images", "images", "");
}

static void offer_snapshots(struct cli *cli)
{
	offer_list(cli, "/v1/snapshots", "snapshots", "");
}

static void offer_policies(struct cli *cli)
{
	offer_list(cli, "/v1/policies", "policies", "");
}

static void offer_presets(struct cli *cli)
{
	offer_list(cli, "/v1/presets", "presets", "");
}

static void offer_files(struct cli *cli)
{
	(void)cli;
	puts(":files");
}

/* A file here, or the beginning of one inside: "work:". */
static void offer_places(struct cli *cli)
{
	offer_files(cli);
	offer_list(cli, "/v1/sandboxes?limit=1000", "sandboxes", ":");
}

static void offer_states(struct cli *cli)
{
	offer_snapshots(cli);
	offer_sandboxes(cli);
	offer_images(cli);
}

/* Of the sandbox that stands in front. */
static void offer_processes(struct cli *cli)
{
	struct buf target = { 0 };
	json_t *j, *p;
	size_t i;

	if (!cli->operand)
		return;
	buf_puts(&target, "/v1/sandboxes/");
	http_encode(&target, cli->operand);
	buf_puts(&target, "/processes");
	j = ask(cli, buf_str(&target));
	json_array_foreach (json_object_get(j, "processes"), i, p) {
		json_t *argv = json_object_get(p, "argv");
		const char *word = json_string_value(json_array_get(argv, 0));
		char text[64];

		clean_text(text, sizeof(text), word ? word : "");
		printf("%lld\t%s\n",
		       (long long)json_integer_value(
			       json_object_get(p, "number")),
		       text);
	}
	json_decref(j);
	buf_done(&target);
}

static void offer_grants(struct cli *cli)
{
	json_t *j = ask(cli, "/v1/grants"), *g;
	size_t i;

	json_array_foreach (json_object_get(j, "grants"), i, g) {
		char rule[SHOW_CAP];

		clean_text(rule, sizeof(rule), show_str(g, "rule"));
		printf("%lld\t%s\n",
		       (long long)json_integer_value(
			       json_object_get(g, "number")),
		       rule);
	}
	json_decref(j);
}

static void offer_all_verbs(struct cli *cli)
{
	(void)cli;
	offer_verbs(all_verbs);
}

static const struct {
	const char *kind; /* as `args` of verbs and options call it */
	void (*fn)(struct cli *cli);
} kinds[] = {
	{ "SANDBOX", offer_sandboxes }, { "IMAGE", offer_images },
	{ "FILE", offer_files },        { "VERB", offer_all_verbs },
	{ "SRC", offer_places },        { "DST", offer_places },
	{ "PROCESS", offer_processes }, { "SNAPSHOT", offer_snapshots },
	{ "FROM", offer_states },       { "STATE", offer_states },
	{ "INTO", offer_sandboxes },    { "POLICY", offer_policies },
	{ "PRESET", offer_presets },    { "GRANT", offer_grants },
};

static void offer_kind(struct cli *cli, const char *kind)
{
	const char *bar = strchr(kind, '|');
	size_t i;

	for (i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i].kind, kind) == 0)
			kinds[i].fn(cli);
	/* "bash|zsh" are words themselves. */
	for (; bar; bar = strchr(kind, '|')) {
		printf("%.*s\n", (int)(bar - kind), kind);
		kind = bar + 1;
	}
	if (islower((unsigned char)*kind))
		puts(kind);
}

/*
 * Operand `n` of usage like "[OPTIONS] SANDBOX [--] COMMAND [ARG...]": its
 * kind without brackets, the last one when it repeats, "" when there is none.
 */
static void operand_kind(const char *args, int n, char out[KIND_CAP])
{
	bool repeats = false;

	*out = '\0';
	while (*args && n >= 0) {
		size_t len = strcspn(args, " ");
		const char *w = args + strspn(args, "[");
		size_t k = len - (size_t)(w - args);

		args += len + (args[len] == ' ');
		if (k == 1 && *w == '|')
			return;
		if (strncmp(w, "OPTIONS", 7) == 0 || strncmp(w, "--", 2) == 0)
			continue;
		while (k > 0 && strchr("].", w[k - 1])) {
			repeats |= w[k - 1] == '.';
			k--;
		}
		snprintf(out, KIND_CAP, "%.*s", (int)k, w);
		n--;
	}
	if (n >= 0 && !repeats)
		*out = '\0';
}

/* The option that `word` is and whose value comes next; or NULL. */
static const struct opt *waiting_option(const struct opt *table,
					const char *word)
{
	for (; table->name; table++) {
		if (table->kind == OPT_FLAG)
			continue;
		if (str_starts(word, "--") && !strcmp(word + 2, table->name))
			return table;
		if (*word == '-' && table->letter && word[1] == table->letter &&
		    word[2] == '\0')
			return table;
	}
	return NULL;
}

void show_verb_words(struct cli *cli, const struct opt *table)
{
	const char *last = cli->words[cli->n_words - 1];
	const struct opt *value = NULL;
	char kind[KIND_CAP];
	bool ended = false;
	int i, operands = 0;

	for (i = 0; i < cli->n_words - 1; i++) {
		const char *w = cli->words[i];

		if (value)
			value = NULL;
		else if (!ended && strcmp(w, "--") == 0)
			ended = true;
		else if (!ended && *w == '-' && w[1])
			value = waiting_option(table, w);
		else {
			cli->operand = w;
			operands++;
		}
	}
	if (value) {
		offer_kind(cli, value->arg);
		return;
	}
	if (*last == '-' && !ended) {
		offer_options(table);
		return;
	}
	operand_kind(cli->verb->args, operands, kind);
	offer_kind(cli, kind);
}

/* `words` is what stands behind the program's name; the last one is cut. */
static void offer_words(struct cli *cli, int n, char **words)
{
	struct cli typed = { .conf_path = cli->conf_path,
			     .socket = cli->socket,
			     .show = SHOW_WORDS,
			     .fail_code = EXIT_FAILED };
	struct opt table[GLOBAL_ROWS];
	struct err e = { 0 };
	const struct verb *v;
	int at;

	if (n == 0)
		return;
	cli_global_options(&typed, table);
	/* Our own name is not there: the word in front is skipped. */
	at = opt_parse(table, n, words - 1, &e) - 1;
	if (at < 0) /* an option whose value is being typed */
		return;
	if (at >= n - 1 && *words[n - 1] == '-') {
		offer_options(table);
		return;
	}
	v = at < n - 1 ? cli_find(all_verbs, words[at]) : NULL;
	if (at >= n - 1 || (v && v->sub && at == n - 2)) {
		offer_verbs(v ? v->sub : all_verbs);
		return;
	}
	if (!v)
		return;
	typed.words = words + at + (v->sub ? 2 : 1);
	typed.n_words = n - at - (v->sub ? 2 : 1);
	cli_run_verb(&typed, v->sub ? 2 : 1, words + at);
}

int verb_completion(struct cli *cli, int argc, char **argv)
{
	bool words = false;
	const struct opt table[] = {
		{ "words", 0, OPT_FLAG, &words, NULL, NULL },
		OPT_HELP(cli),
		{ 0 },
	};
	int at = cli_options(cli, table, argc, argv);

	if (words) {
		offer_words(cli, argc - at, argv + at);
		return 0;
	}
	if (argc - at == 1 && strcmp(argv[at], "bash") == 0)
		fputs(bash_script, stdout);
	else if (argc - at == 1 && strcmp(argv[at], "zsh") == 0)
		fputs(zsh_script, stdout);
	else
		cli_usage_error(cli, "for which shell? (bash or zsh)");
	return 0;
}
