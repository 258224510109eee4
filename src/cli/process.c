#include "cli/process.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "cli/server.h"
#include "cli/spec_opts.h"
#include "cli/stream.h"
#include "cli/term.h"

size_t process_rows(struct process_opts *p, struct opt table[PROCESS_ROWS])
{
	const struct opt rows[] = {
		{ "stdin", 'i', OPT_FLAG, &p->input, NULL,
		  "forward standard input (the default)" },
		{ "no-stdin", 'n', OPT_FLAG, &p->no_input, NULL,
		  "do not: the command reads /dev/null" },
		{ "tty", 't', OPT_FLAG, &p->tty, NULL,
		  "give the command a terminal" },
		{ "user", 'u', OPT_TEXT, &p->user, "USER",
		  "user inside, a name or a number" },
		{ "workdir", 'w', OPT_TEXT, &p->workdir, "DIR",
		  "directory to start in" },
		{ "env", 'e', OPT_LIST, &p->env, "K[=V]",
		  "set a variable; without =V to your own value" },
		{ "env-file", 0, OPT_TEXT, &p->env_file, "FILE",
		  "set the variables of its lines (K=V, or K)" },
	};

	memcpy(table, rows, sizeof(rows));
	return ARRAY_LEN(rows);
}

/* A program that draws on a terminal must know which one. */
static void add_term(struct process_opts *p)
{
	static char term[72];
	const char *own = getenv("TERM");
	size_t i;

	for (i = 0; i < p->env.n; i++)
		if (strncmp(p->env.v[i], "TERM=", 5) == 0)
			return;
	if (!own || strlen(own) > 64 || p->env.n == OPT_LIST_MAX)
		return;
	snprintf(term, sizeof(term), "TERM=%s", own);
	p->env.v[p->env.n++] = term;
}

void process_target(struct cli *cli, const char *ref, char out[EXEC_TARGET_CAP])
{
	char base[TARGET_CAP];

	server_target(cli, base, "/v1/sandboxes/", ref);
	snprintf(out, EXEC_TARGET_CAP, "%s/exec", base);
}

void process_ref(struct cli *cli, const char *word, struct attach *at)
{
	uint64_t number;

	*at = (struct attach){ 0 };
	if (str_starts(word, "tag:") && word[4] && strlen(word) - 4 <= TAG_MAX)
		at->tag = word + 4;
	else if (parse_u64(word, UINT32_MAX, &number) == 0 && number > 0)
		at->number = (uint32_t)number;
	else
		fail(cli, "'%s' is no process (its number, or tag:TAG)", word);
}

/*
 * The lines of a file as docker reads them: no quotes, # starts a comment in
 * the first column. They come first, so --env has the last word.
 */
static void add_env_file(struct cli *cli, struct process_opts *p)
{
	static char *text; /* the list points into it */
	FILE *f = p->env_file ? fopen(p->env_file, "re") : NULL;
	struct opt_list own = p->env;
	size_t cap = 0;
	char *line, *next;

	if (!p->env_file)
		return;
	if (!f || (getdelim(&text, &cap, '\0', f) < 0 && ferror(f)))
		fail(cli, "read %s: %m", p->env_file);
	fclose(f);
	p->env.n = 0;
	for (next = text; text && (line = strsep(&next, "\n"));) {
		line[strcspn(line, "\r")] = '\0';
		if (*line == '\0' || *line == '#')
			continue;
		if (p->env.n + own.n == OPT_LIST_MAX)
			fail(cli, "%s: more than %d variables", p->env_file,
			     OPT_LIST_MAX);
		p->env.v[p->env.n++] = line;
	}
	memcpy(p->env.v + p->env.n, own.v, own.n * sizeof(*own.v));
	p->env.n += own.n;
}

/* A shell would have split the word, or taken it for a line of its own. */
static void explain_words(const char *ref, const struct spawn *sp)
{
	if (sp->argc == 1 && strpbrk(sp->argv[0], " \t\n"))
		complain("the command is one word with spaces in it; give its "
			 "words one by one, or a shell: %s%s -- sh -c '...'",
			 ref ? "exec " : "run", ref ? ref : "");
}

/* By what we find it again. */
static const char *make_tag(struct cli *cli, const struct process_opts *p)
{
	static char tag[ID_CAP];

	if (p->tag)
		return p->tag;
	if (id_make(tag) < 0)
		fail(cli, "no random numbers: %m");
	return tag;
}

int process_run(struct cli *cli, struct process_opts *p, const char *ref,
		const struct buf *body, char **argv)
{
	char target[EXEC_TARGET_CAP] = "/v1/run";
	struct spawn sp = { .user = p->user, .cwd = p->workdir };
	struct stream_opts o = { .cli = cli,
				 .target = target,
				 .body = body,
				 .spawn = &sp,
				 .named = p->tag != NULL,
				 .input = !p->no_input && !p->detach,
				 .tty = p->tty,
				 .timeout_ms = p->timeout_ms,
				 .detach = p->detach };
	int code;

	add_env_file(cli, p);
	env_complete(cli, &p->env);
	if (p->tty)
		add_term(p);
	sp.argv = (const char **)argv;
	while (argv[sp.argc])
		sp.argc++;
	sp.env = p->env.v;
	sp.envc = p->env.n;
	if (p->detach)
		sp.flags = SPAWN_DETACHED;
	else if (!p->no_input)
		sp.flags = SPAWN_STDIN;
	if (p->tty) {
		sp.flags |= SPAWN_PTY;
		term_size(&sp.rows, &sp.cols);
	}
	if (ref) {
		process_target(cli, ref, target);
		sp.tag = o.at.tag = make_tag(cli, p);
	}
	code = stream_run(&o);
	if (code == EXIT_NOT_FOUND)
		explain_words(ref, &sp);
	return code;
}
