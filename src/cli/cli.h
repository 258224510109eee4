/*
 * What the verbs of the command line share. A verb is one file and one row of
 * the table in main.c; its options are a table of its own. --help, the man
 * pages and completion in shells are made from these tables.
 *
 * The CLI is a short-lived process: it says what is wrong in one line on
 * stderr and exits at once, so nothing here hands errors upwards.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/opt.h"

struct cli;
typedef int verb_fn(struct cli *cli, int argc, char **argv);

/*
 * Rows are written with designators: what is not named is NULL. The words of
 * `args` are also what completion offers: SANDBOX, IMAGE, FILE...
 */
struct verb {
	const char *name;
	verb_fn *fn;          /* argv[0] is the verb; returns the exit code */
	const char *args;     /* for the line of usage */
	const char *help;     /* one line, starts with a small letter */
	const char *notes;    /* after the options in --help */
	const char *examples; /* "command\tcomment" lines */
	/* A group instead of fn: `carrel image ls`; ends at name NULL. */
	const struct verb *sub;
	const char *usual; /* of a group: the verb that may be left out */
};

/* Exit codes. `run` and `exec` leave 0 to 124 to the process inside. */
enum {
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_TIMEOUT = 124,    /* of `exec --timeout`, as of timeout(1) */
	EXIT_OURS = 125,       /* of `run` and `exec`: the failure is ours */
	EXIT_CANNOT_RUN = 126, /* the command was found but not started */
	EXIT_NOT_FOUND = 127,
	EXIT_SIGNAL = 128, /* plus its number */
};

/* What is done with the options of a verb instead of its work. */
enum show { SHOW_NOTHING, SHOW_HELP, SHOW_MAN, SHOW_WORDS };

struct cli {
	const char *conf_path; /* --config; NULL: the default file */
	const char *socket;    /* --socket; NULL: run_dir/api.sock */
	const struct verb *verb;
	const struct verb *group; /* that the verb is of, or NULL */
	bool help, version;       /* --help, --version was given */
	enum show show;
	/* SHOW_WORDS: behind the verb, the last one is to be completed. */
	char **words;
	int n_words;
	const char *operand; /* the one in front of that, or NULL */
	int fail_code;       /* what fail() exits with */
};

/* One row of every table of options. */
#define OPT_HELP(cli) \
	{ "help", 'h', OPT_FLAG, &(cli)->help, NULL, "show this text" }

/*
 * Options of a verb: the index of its first operand. Exits by itself after
 * --help and after an unknown option.
 */
int cli_options(struct cli *cli, const struct opt *table, int argc,
		char **argv);
/*
 * The same for verbs whose options may also follow their operands: moves the
 * operands to argv[1] ... and returns their number.
 */
int cli_operands(struct cli *cli, const struct opt *table, int argc,
		 char **argv);
/* Exits with EXIT_USAGE (or EXIT_OURS) when the operands are not `verb.args` */
void cli_usage_error(struct cli *cli, const char *what)
	__attribute__((noreturn));
/* The verb of `table` (which ends at name NULL) called `name`, or NULL. */
const struct verb *cli_find(const struct verb *table, const char *name);

/* "image build" */
enum { VERB_NAME_CAP = 48 };
void cli_verb_name(const struct cli *cli, const char *between,
		   char out[VERB_NAME_CAP]);

extern const struct verb all_verbs[];
enum { GLOBAL_ROWS = 5 };
/* Options in front of the verb. */
void cli_global_options(struct cli *cli, struct opt table[GLOBAL_ROWS]);
/* Finds the verb (and that of its group) and runs it. */
int cli_run_verb(struct cli *cli, int argc, char **argv);

/* help.c: the tables as text. */
void show_all_help(struct cli *cli);
void show_group_help(const struct verb *group);
/* Of the verb that runs, and of the option table it has. */
void show_verb_help(const struct cli *cli, const struct opt *table);
void show_verb_man(const struct cli *cli, const struct opt *table);
/* completion.c: what may stand where the last of cli->words is. */
void show_verb_words(struct cli *cli, const struct opt *table);

/* The configuration; exits when it is bad. */
void cli_conf(struct cli *cli, struct conf *c);

/* say.c: text for people. */

/* "carrel: ..." on stderr, then exit(cli->fail_code). */
void fail(const struct cli *cli, const char *fmt, ...) PRINTF_LIKE(2, 3)
	__attribute__((noreturn));
/* The same line without the exit. */
void complain(const char *fmt, ...) PRINTF_LIKE(1, 2);
/*
 * Copies text that others wrote, so that it is harmless on a terminal: control
 * bytes, C1 controls and what is not UTF-8 become '?'.
 */
void clean_text(char *out, size_t cap, const char *s);
/* A JSON value on stdout, indented; pure ASCII on a terminal. */
void print_json(const json_t *j);

/* Columns as wide as their widest cell; cells are cleaned when they are set. */
enum { TABLE_COLUMNS = 10 };
struct table {
	size_t columns, rows;
	char **cells;
};
void table_init(struct table *t, const char *const *titles, size_t columns);
void table_row(struct table *t, const char *const *cells);
void table_print(const struct table *t);
void table_done(struct table *t);

/* Whether colours may be written to `fd`: a terminal, and no NO_COLOR. */
bool colours_on(int fd);

/*
 * A file that is only half there: it goes when we end, also by a signal. NULL:
 * it is whole. `path` is kept.
 */
void cli_unfinished(const char *path);

/* `n` bytes as a JSON string, with everything escaped that must be. */
void json_put_str(struct buf *b, const char *s, size_t n);

/* processes */
verb_fn verb_run, verb_exec, verb_shell, verb_attach, verb_ps, verb_logs;
/* sandboxes */
verb_fn verb_move, verb_create, verb_ls, verb_rm, verb_inspect, verb_update,
	verb_pause, verb_resume;
/* what they were */
verb_fn verb_fork, verb_rollback, verb_tree;
extern const struct verb snapshot_verbs[];
/* what is in them */
verb_fn verb_cp, verb_port, verb_diff, verb_merge;
/* what they use and do */
verb_fn verb_top, verb_stats, verb_usage, verb_events, verb_mcp;
/* what they ask for */
verb_fn verb_approvals, verb_approve, verb_deny;
/* the installation */
verb_fn verb_adopt, verb_prune;
verb_fn verb_backup, verb_restore, verb_doctor, verb_completion, verb_version,
	verb_help;
extern const struct verb e2b_verbs[];
extern const struct verb image_verbs[], key_verbs[], grant_verbs[], log_verbs[],
	debug_verbs[], policy_verbs[];
extern const struct verb drive_verbs[], volume_verbs[], secret_verbs[];
