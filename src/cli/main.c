/*
 * The command line: options in front of the verb, the table of verbs.
 *
 * It must start in about a millisecond, because `run` is the way people and
 * scripts meet a sandbox: no locale, no configuration beyond what is needed to
 * find the socket, no work before the verb is known.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/nearest.h"
#include "base/product.h"
#include "cli/cli.h"

const struct verb all_verbs[] = {
	{ .name = "run",
	  .fn = verb_run,
	  .args = "[OPTIONS] [--] COMMAND [ARG...]",
	  .help = "run a command in a new sandbox, which is gone afterwards",
	  .notes =
		  "The exit code is the command's; 128 + N when signal N ended "
		  "it, 127\n"
		  "when it was not found, 126 when it could not be started, "
		  "125 when no\n"
		  "sandbox could be made for it.",
	  .examples = PRODUCT " run -- python3 -c 'print(6*7)'\n"
			      "tar c . | " PRODUCT " run --memory 1G -- "
			      "sh -c 'tar x && make test'\n" },
	{ .name = "create",
	  .fn = verb_create,
	  .args = "[OPTIONS]",
	  .help = "make a sandbox and print its id",
	  .examples = PRODUCT " create --name work --cpus 1 --memory "
			      "512M --timeout 1h\n" },
	{ .name = "exec",
	  .fn = verb_exec,
	  .args = "[OPTIONS] SANDBOX [--] COMMAND [ARG...]",
	  .help = "run a command in a sandbox",
	  .notes = "SANDBOX is an id, a name, or the first letters of an id. "
		   "Exit codes are those\n"
		   "of `run`. A command goes on when this program ends, and "
		   "when the daemon is\n"
		   "restarted, this program finds it again.",
	  .examples =
		  PRODUCT " exec work -- sh -c 'echo hello > note'\n" PRODUCT
			  " exec -d --tag server work -- python3 -m "
			  "http.server\n" },
	{ .name = "shell",
	  .fn = verb_shell,
	  .args = "[OPTIONS] [SANDBOX]",
	  .help = "open a login shell in a sandbox",
	  .notes = "Without a sandbox it is a new one, which is gone "
		   "afterwards; the options of `create`\n"
		   "say what it is like. A shell in a sandbox that lives "
		   "survives a restart of the\n"
		   "daemon." },
	{ .name = "attach",
	  .fn = verb_attach,
	  .args = "[OPTIONS] SANDBOX PROCESS",
	  .help = "take part in a process that runs in a sandbox",
	  .notes = "PROCESS is a number that `ps` shows, or tag:TAG. Ctrl-P "
		   "Ctrl-Q leaves a terminal, and\n"
		   "the process goes on. Without a terminal, signals are "
		   "handed to the process; see\n"
		   "--no-stdin. The exit code is the process's." },
	{ .name = "ps",
	  .fn = verb_ps,
	  .args = "[OPTIONS] SANDBOX",
	  .help = "list what was started in a sandbox" },
	{ .name = "logs",
	  .fn = verb_logs,
	  .args = "[OPTIONS] SANDBOX [PROCESS]",
	  .help = "show what is kept of a process's output",
	  .notes = "Without PROCESS it is the one that was started last. "
		   "The last 256 KiB of each\nstream are kept. With --follow, "
		   "a reader that stops reading stops the process\ntoo, as a "
		   "pipe would." },
	{ .name = "ls",
	  .fn = verb_ls,
	  .args = "[OPTIONS]",
	  .help = "list the sandboxes" },
	{ .name = "rm",
	  .fn = verb_rm,
	  .args = "[OPTIONS] SANDBOX... | --all --force",
	  .help = "remove sandboxes with their disks and automatic snapshots",
	  .notes = "Automatic snapshots, those of MCP sessions and "
		   "before-merge-* go with the sandbox.\n"
		   "Other snapshots stay, unless --snapshots is given; `prune` "
		   "removes them by age.\n"
		   "The audit log, volumes and files of the drive stay." },
	{ .name = "inspect",
	  .fn = verb_inspect,
	  .args = "[OPTIONS] SANDBOX...",
	  .help = "show all that is known about sandboxes" },
	{ .name = "cp",
	  .fn = verb_cp,
	  .args = "[OPTIONS] SRC... DST",
	  .help = "copy files and directories into a sandbox or out of it",
	  .notes = "SRC or DST is SANDBOX:PATH, PATH absolute or from the "
		   "user's home. A directory as\n"
		   "DST takes each SRC into it; SRC/. is what the directory "
		   "has. Permissions are\n"
		   "kept, owners are not. - is standard input or output; a "
		   "directory goes there as a\ntar.",
	  .examples = PRODUCT " cp notes.txt todo.txt work:\n" PRODUCT
			      " cp -p src/. work:/home/user/project\n" PRODUCT
			      " cp work:out/report.pdf .\n" },
	{ .name = "port",
	  .fn = verb_port,
	  .args = "[OPTIONS] SANDBOX PORT [LOCALPORT]",
	  .help = "make a port of a sandbox one of this machine",
	  .notes = "Listens on 127.0.0.1 until it is interrupted, or with -d "
		   "in the background, and\n"
		   "prints where. LOCALPORT is by default the same number; 0 "
		   "is any that is free.",
	  .examples = PRODUCT " port work 8000\n" PRODUCT
			      " port -d work 8000 18000\n" PRODUCT
			      " port work 8000 --url\n" },
	{ .name = "update",
	  .fn = verb_update,
	  .args = "[OPTIONS] SANDBOX",
	  .help = "change the limits, times and labels of a sandbox",
	  .notes = "A label is set by --label K=V and taken away by --label "
		   "K-.",
	  .examples = PRODUCT " update work --memory 1G --timeout 2h\n" },
	{ .name = "diff",
	  .fn = verb_diff,
	  .args = "[OPTIONS] [FROM] STATE [PATH...]",
	  .help = "show how a sandbox, snapshot or image differs from another",
	  .notes = "A is added, M is changed, D is gone. STATE alone is "
		   "compared with what it started\n"
		   "from. PATH is absolute. A name that is several things is "
		   "written snapshot:NAME,\n"
		   "sandbox:NAME or image:NAME. The exit code is 0 when "
		   "nothing differs, 1 when something\ndoes, 2 when it could "
		   "not be found out.",
	  .examples = PRODUCT " diff work\n" PRODUCT
			      " diff --content before-refactor work "
			      "/home/user/src\n" },
	{ .name = "merge",
	  .fn = verb_merge,
	  .args = "[OPTIONS] FROM INTO",
	  .help = "take over what was changed in a fork since it was made",
	  .notes = "FROM is a sandbox or snapshot, INTO a sandbox; both come "
		   "from one state, and what\n"
		   "FROM changed since then is taken over. Where both changed "
		   "something, nothing is done,\n"
		   "unless --ours or --theirs says what to do. The processes "
		   "of INTO stand still meanwhile,\n"
		   "so nothing they write is lost.",
	  .examples = PRODUCT " merge try-2 work --path /home/user/src\n" },
	{ .name = "snapshot",
	  .sub = snapshot_verbs,
	  .usual = "create",
	  .help = "keep the disk of a sandbox as it is now",
	  .notes = "`" PRODUCT " snapshot SANDBOX [NAME]` is the same as "
		   "`snapshot create`." },
	{ .name = "rollback",
	  .fn = verb_rollback,
	  .args = "[OPTIONS] SANDBOX [SNAPSHOT]",
	  .help = "make a sandbox's disk what it was in a snapshot",
	  .notes = "Its processes end, and it starts from there with the same "
		   "id, name, ports, labels and\n"
		   "timeout; files and start commands of its spec are not "
		   "done again. What was written\n"
		   "since is gone, unless there is a later snapshot of it. A "
		   "sandbox that is suspended\n"
		   "stays so.",
	  .examples = PRODUCT " snapshot work before\n" PRODUCT
			      " rollback work before\n" PRODUCT
			      " rollback work --at 4711\n" },
	{ .name = "fork",
	  .fn = verb_fork,
	  .args = "[OPTIONS] SANDBOX",
	  .help = "make sandboxes that start where another one is",
	  .notes = "SANDBOX may be a snapshot. Forks have the disk of the "
		   "original and its spec, with what\n"
		   "is said here; their own id, name and machine-id, and none "
		   "of its processes. Start\n"
		   "commands of the spec are run in each. All of them are "
		   "made, or none.",
	  .examples = PRODUCT " fork work --count 3 --name try\n" PRODUCT
			      " merge try-2 work --path /home/user/src\n" },
	{ .name = "tree",
	  .fn = verb_tree,
	  .args = "[OPTIONS] SANDBOX",
	  .help = "show where a sandbox comes from, and what came from it" },
	{ .name = "pause",
	  .fn = verb_pause,
	  .args = "[OPTIONS] SANDBOX...",
	  .help = "stop everything in sandboxes until they are used again",
	  .notes = "Processes stay in memory, of which the kernel takes back "
		   "what it can. A sandbox goes on\n"
		   "when it is resumed, or by itself when somebody uses it: a "
		   "command, a file, a request to\n"
		   "one of its ports, which waits until it runs. Its timeout "
		   "goes on, too. `inspect`,\n"
		   "`ls`, `stats` and `rm` do not wake it.",
	  .examples = PRODUCT " pause work\n" PRODUCT
			      " create --name work --idle-timeout 5m "
			      "--idle-action pause\n" },
	{ .name = "resume",
	  .fn = verb_resume,
	  .args = "[OPTIONS] SANDBOX...",
	  .help = "let paused sandboxes go on" },
	{ .name = "move",
	  .fn = verb_move,
	  .args = "[OPTIONS] SANDBOX --tier TIER",
	  .help = "make a container a microVM, or the other way round",
	  .notes = "Its processes end; what it wrote to its disk comes along, "
		   "and its id, name, labels,\n"
		   "policy, limits and timeout stay. If it cannot be done, it "
		   "goes on in the tier it was in.\n"
		   "Snapshots stay what they are: to roll back to one of the "
		   "other tier, move back first.\n"
		   "Sockets and device files are left behind.",
	  .examples = PRODUCT " move work --tier microvm\n" PRODUCT
			      " move work --tier container\n" },
	{ .name = "top",
	  .fn = verb_top,
	  .args = "[OPTIONS]",
	  .help = "watch what the sandboxes use" },
	{ .name = "stats",
	  .fn = verb_stats,
	  .args = "[OPTIONS] [SANDBOX]",
	  .help = "show what sandboxes have used so far" },
	{ .name = "image",
	  .sub = image_verbs,
	  .help = "make, list and remove images" },
	{ .name = "policy",
	  .sub = policy_verbs,
	  .help = "what sandboxes may reach: keep, check, try and learn it" },
	{ .name = "approvals",
	  .fn = verb_approvals,
	  .args = "[OPTIONS]",
	  .help = "list the requests of sandboxes that wait for somebody",
	  .notes = "A rule `ask` of a policy holds a request until it is "
		   "approved or denied, or its time\nis over. See `approve` "
		   "and `deny`." },
	{ .name = "approve",
	  .fn = verb_approve,
	  .args = "[OPTIONS] NUMBER...",
	  .help = "let requests pass that wait",
	  .examples =
		  PRODUCT " approve 17\n" PRODUCT " approve 17 --for 1h\n" },
	{ .name = "deny",
	  .fn = verb_deny,
	  .args = "NUMBER...",
	  .help = "deny requests that wait" },
	{ .name = "grants",
	  .sub = grant_verbs,
	  .help = "list and withdraw grants (approvals of a host)" },
	{ .name = "secret",
	  .sub = secret_verbs,
	  .help = "credentials that requests get on their way out" },
	{ .name = "volume",
	  .sub = volume_verbs,
	  .help = "disks that outlive the sandboxes which have them" },
	{ .name = "drive",
	  .sub = drive_verbs,
	  .help = "files of a project that outlive its sandboxes" },
	{ .name = "usage",
	  .fn = verb_usage,
	  .args = "[OPTIONS]",
	  .help = "what was used over time, by project or by sandbox",
	  .examples = PRODUCT " usage --since 30d --sandboxes\n" },
	{ .name = "key",
	  .sub = key_verbs,
	  .help = "make, list and remove keys to the API" },
	{ .name = "e2b",
	  .sub = e2b_verbs,
	  .help = "programs that speak to E2B, and this daemon" },
	{ .name = "mcp",
	  .fn = verb_mcp,
	  .args = "[OPTIONS]",
	  .help = "speak the Model Context Protocol over stdin and stdout",
	  .notes = "For programs that start MCP servers: each session has a "
		   "sandbox of its own, which is\nmade when it is first used. "
		   "Over HTTP the same is at /mcp.",
	  .examples = "claude mcp add " PRODUCT " -- " PRODUCT " mcp\n" PRODUCT
		      " mcp --sandbox work\n" },
	{ .name = "events",
	  .fn = verb_events,
	  .args = "[OPTIONS]",
	  .help = "watch what happens, until it is interrupted",
	  .examples = PRODUCT " events --type sandbox.\n" PRODUCT
			      " events --json --after 0 | jq .type\n" },
	{ .name = "log",
	  .sub = log_verbs,
	  .usual = "show",
	  .help = "show what was done and by whom, and check it" },
	{ .name = "prune",
	  .fn = verb_prune,
	  .args = "[OPTIONS]",
	  .help = "remove what nothing uses any more",
	  .notes = "Without options: automatic snapshots (kinds auto and own) "
		   "of sandboxes that are gone.",
	  .examples =
		  PRODUCT " prune --dry-run\n" PRODUCT
			  " prune --snapshots --images --older-than 30d\n" },
	{ .name = "adopt",
	  .fn = verb_adopt,
	  .args = "[OPTIONS] [KIND:ID [NAME]]",
	  .help = "list strays, and make them usable again",
	  .notes = "A stray is in the pool, but not in the daemon's database: "
		   "after a restored backup, for\n"
		   "example. Strays are kept for stray_days (30). Without "
		   "arguments they are listed. A lost\n"
		   "database knew more than the pool does: labels, policies, "
		   "secrets, names of snapshots and\n"
		   "images, paths of the drive are not recovered.",
	  .examples = PRODUCT " adopt\n" PRODUCT " adopt --all\n" PRODUCT
			      " adopt image:iq3v5m7c2xk4hbnd6wye3rzfapg "
			      "debian\n" },
	{ .name = "doctor",
	  .fn = verb_doctor,
	  .args = "[OPTIONS]",
	  .help = "what this host offers, what is missing, what to do about "
		  "it" },
	{ .name = "backup",
	  .fn = verb_backup,
	  .args = "[OPTIONS] FILE",
	  .help = "save the database, log and configuration in one file "
		  "(root)",
	  .notes =
		  "Inside: projects, API keys (hashes), policies, usage, names "
		  "and specs of sandboxes, images,\n"
		  "snapshots and volumes, paths and versions of the drive, "
		  "secrets as sealed values, the\n"
		  "log with its public key, the configuration.\n"
		  "Not inside: images, snapshots, disks of sandboxes, volumes, "
		  "contents of the drive, the\n"
		  "gate's keys without which sealed secrets cannot be opened, "
		  "the key that signs the log.\n"
		  "To save those too, stop the daemon and copy the whole "
		  "state_dir. The daemon must run.",
	  .examples = PRODUCT " backup /var/backups/" PRODUCT
			      "-$(date +%F).tar\n" },
	{ .name = "restore",
	  .fn = verb_restore,
	  .args = "[OPTIONS] FILE",
	  .help = "restore the database, log and configuration from a backup "
		  "(root)",
	  .notes =
		  "The daemon must not run. The backup is checked before "
		  "anything is touched. With --force\n"
		  "an existing database and log are renamed, not removed. What "
		  "the pool has and the backup\n"
		  "does not know is kept as strays: see `adopt`. What the "
		  "backup knows and the pool does not\n"
		  "have is listed as missing." },
	{ .name = "debug",
	  .sub = debug_verbs,
	  .help = "help for those who help you" },
	{ .name = "completion",
	  .fn = verb_completion,
	  .args = "bash|zsh",
	  .help = "print a script that completes words of this program",
	  .examples = PRODUCT
	  " completion bash > "
	  "/etc/bash_completion.d/" PRODUCT "\n" PRODUCT " completion zsh > "
	  "/usr/local/share/zsh/site-functions/_" PRODUCT "\n" },
	{ .name = "version",
	  .fn = verb_version,
	  .args = "[OPTIONS]",
	  .help = "show the versions of this program and of the daemon" },
	{ .name = "help",
	  .fn = verb_help,
	  .args = "[VERB]",
	  .help = "show this text, or a verb's" },
	{ 0 },
};

const struct verb *cli_find(const struct verb *table, const char *name)
{
	for (; table->name; table++)
		if (strcmp(table->name, name) == 0)
			return table;
	return NULL;
}

void cli_verb_name(const struct cli *cli, const char *between,
		   char out[VERB_NAME_CAP])
{
	snprintf(out, VERB_NAME_CAP, "%s%s%s",
		 cli->group ? cli->group->name : "", cli->group ? between : "",
		 cli->verb->name);
}

int cli_options(struct cli *cli, const struct opt *table, int argc, char **argv)
{
	struct err e = { 0 };
	int i = 0;

	if (cli->show == SHOW_NOTHING) {
		i = opt_parse(table, argc, argv, &e);
		if (cli->help)
			cli->show = SHOW_HELP;
	}
	switch (cli->show) {
	case SHOW_NOTHING:
		break;
	case SHOW_HELP:
		show_verb_help(cli, table);
		exit(0);
	case SHOW_MAN:
		show_verb_man(cli, table);
		exit(0);
	case SHOW_WORDS:
		show_verb_words(cli, table);
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
	char name[VERB_NAME_CAP];

	cli_verb_name(cli, " ", name);
	complain("%s: %s", name, what);
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

void cli_global_options(struct cli *cli, struct opt table[GLOBAL_ROWS])
{
	const struct opt rows[GLOBAL_ROWS] = {
		{ "config", 0, OPT_TEXT, &cli->conf_path, "FILE",
		  "configuration (also CARREL_CONFIG)" },
		{ "socket", 0, OPT_TEXT, &cli->socket, "FILE",
		  "the daemon's socket (also CARREL_SOCKET)" },
		{ "version", 0, OPT_FLAG, &cli->version, NULL,
		  "the same as the verb version" },
		OPT_HELP(cli),
		{ 0 },
	};

	memcpy(table, rows, sizeof(rows));
}

/* "build, import, ls or rm" */
static void list_names(const struct verb *table, char *out, size_t cap)
{
	size_t at = 0;

	*out = '\0';
	for (; table->name && at < cap; table++) {
		const char *sep = at == 0 ? "" : table[1].name ? ", " : " or ";

		at += (size_t)snprintf(out + at, cap - at, "%s%s", sep,
				       table->name);
	}
}

static const char *nearest_verb(const struct verb *table, const char *word)
{
	struct nearest near = { .word = word, .n = strlen(word) };

	for (; table->name; table++)
		nearest_try(&near, table->name);
	return near.name;
}

static int run_group(struct cli *cli, int argc, char **argv)
{
	const char *near;
	char names[128];

	cli->group = cli->verb;
	list_names(cli->group->sub, names, sizeof(names));
	if (argc > 1 &&
	    (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		show_group_help(cli->group);
		return 0;
	}
	cli->verb = argc > 1 ? cli_find(cli->group->sub, argv[1]) : NULL;
	if (cli->verb)
		return cli->verb->fn(cli, argc - 1, argv + 1);
	if (argc > 1 && cli->group->usual) {
		cli->verb = cli_find(cli->group->sub, cli->group->usual);
		return cli->verb->fn(cli, argc, argv);
	}
	near = argc > 1 ? nearest_verb(cli->group->sub, argv[1]) : NULL;
	if (near)
		complain("'%s' is not a verb of %s, did you mean %s?", argv[1],
			 cli->group->name, near);
	else if (argc > 1)
		complain("'%s' is not a verb of %s (%s)", argv[1],
			 cli->group->name, names);
	else
		complain("%s: %s?", cli->group->name, names);
	return EXIT_USAGE;
}

int cli_run_verb(struct cli *cli, int argc, char **argv)
{
	cli->verb = cli_find(all_verbs, argv[0]);
	if (!cli->verb) {
		const char *near = nearest_verb(all_verbs, argv[0]);

		if (near)
			complain("'%s' is not a verb, did you mean %s?",
				 argv[0], near);
		else
			complain("'%s' is not a verb (see " PRODUCT " help)",
				 argv[0]);
		return EXIT_USAGE;
	}
	if (cli->verb->sub)
		return run_group(cli, argc, argv);
	return cli->verb->fn(cli, argc, argv);
}

int main(int argc, char **argv)
{
	struct cli cli = { .conf_path = env_or_null("CARREL_CONFIG"),
			   .socket = env_or_null("CARREL_SOCKET"),
			   .fail_code = EXIT_FAILED };
	struct err e = { 0 };
	struct opt table[GLOBAL_ROWS];
	char version_word[] = "version", *version = version_word;
	int i, code;

	cli_global_options(&cli, table);
	i = opt_parse(table, argc, argv, &e);
	if (i < 0) {
		complain("%s", e.msg);
		return EXIT_USAGE;
	}
	if (cli.help || (i >= argc && !cli.version)) {
		show_all_help(&cli);
		return cli.help ? 0 : EXIT_USAGE;
	}
	code = cli.version ? cli_run_verb(&cli, 1, &version)
			   : cli_run_verb(&cli, argc - i, argv + i);
	/* A full disk or a closed pipe must not look like success. */
	if ((fflush(stdout) == EOF || ferror(stdout)) && code == 0) {
		complain("write to standard output: %s", strerror(errno));
		return EXIT_FAILED;
	}
	return code;
}
