/* carrel log: what was done, by whom, and that nobody changed it. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/product.h"
#include "cli/entries.h"
#include "cli/server.h"
#include "cli/show.h"

enum { LAST_MAX = 1000000, KEYS_MAX = 8 };

static void read_all(struct entries *e, const char *path,
		     const struct entries_query *q)
{
	struct buf target = { 0 };

	entries_target(&target, path, q);
	if (!entries_read(e, buf_str(&target)))
		fail(e->cli, "the daemon went away before its answer ended");
	entries_done(e);
	buf_done(&target);
}

static int log_show(struct cli *cli, int argc, char **argv)
{
	struct entries e = { .cli = cli };
	struct entries_query q = { .has_after = true };
	char target[TARGET_CAP + 8];
	const struct opt table[] = {
		{ "last", 'n', OPT_NUMBER, &e.last, "N", "only the last N" },
		{ "type", 't', OPT_TEXT, &q.type, "START",
		  "only types that start so: sandbox., key.create" },
		{ "after", 0, OPT_NUMBER, &q.after, "NUMBER",
		  "only behind this entry" },
		{ "json", 0, OPT_FLAG, &e.json, NULL, "entries as they are" },
		OPT_HELP(cli),
		{ 0 },
	};
	int n = cli_operands(cli, table, argc, argv);

	if (n > 1)
		cli_usage_error(cli, "takes at most one sandbox");
	if (e.last > LAST_MAX)
		cli_usage_error(cli, "--last is at most 1000000");
	if (n == 0) {
		read_all(&e, "/v1/events?follow=false", &q);
		return 0;
	}
	server_target(cli, target, "/v1/sandboxes/", argv[1]);
	memcpy(target + strlen(target), "/log", sizeof("/log"));
	read_all(&e, target, &q);
	return 0;
}

static int log_export(struct cli *cli, int argc, char **argv)
{
	struct entries e = { .cli = cli, .json = true };
	struct entries_query q = { .has_after = true };
	const struct opt table[] = {
		{ "after", 0, OPT_NUMBER, &q.after, "NUMBER",
		  "only behind this entry" },
		OPT_HELP(cli),
		{ 0 },
	};

	if (cli_operands(cli, table, argc, argv) > 0)
		cli_usage_error(cli, "takes no operands");
	read_all(&e, "/v1/log/export", &q);
	return 0;
}

static int log_head(struct cli *cli, int argc, char **argv)
{
	bool json = false;
	const struct opt table[] = {
		{ "json", 0, OPT_FLAG, &json, NULL, "with its key, as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	json_t *j;

	if (cli_operands(cli, table, argc, argv) > 0)
		cli_usage_error(cli, "takes no operands");
	j = server_get(cli, "GET", "/v1/log/head", NULL);
	if (json)
		print_json(j);
	else
		puts(show_str(j, "entry"));
	json_decref(j);
	return 0;
}

/*
 * A socket names an instance whose directory only its daemon knows. Without a
 * daemon the configuration that the caller named is as good.
 */
static void audit_dir(struct cli *cli, const struct conf *c, char *out,
		      size_t cap)
{
	char why[MESSAGE_CAP];
	struct http_client daemon;
	const char *path;
	bool runs;
	json_t *j;

	snprintf(out, cap, "%s/audit", c->state_dir);
	if (!cli->socket)
		return;
	runs = server_try(cli, &daemon, why);
	http_client_done(&daemon);
	if (!runs && cli->conf_path)
		return;
	j = server_get(cli, "GET", "/v1/log/head", NULL);
	path = json_string_value(json_object_get(j, "directory"));
	if (!path || snprintf(out, cap, "%s", path) >= (int)cap)
		fail(cli,
		     "the daemon at %s does not tell where its log is: give "
		     "the DIRECTORY",
		     cli->socket);
	json_decref(j);
}

/* The scribe's program does it, which alone knows how: no daemon is needed. */
static int log_verify(struct cli *cli, int argc, char **argv)
{
	struct opt_list keys = { 0 };
	const char *head = NULL;
	const struct opt table[] = {
		{ "key", 0, OPT_LIST, &keys, "FILE",
		  "the log's public key (default DIR/key.pub)" },
		{ "head", 0, OPT_TEXT, &head, "FILE",
		  "a signed entry that must be in it (default DIR/head)" },
		OPT_HELP(cli),
		{ 0 },
	};
	char program[CONF_PATH + 32], dir[CONF_PATH + 16];
	const char *args[2 * KEYS_MAX + 8];
	int n = cli_operands(cli, table, argc, argv), at = 0;
	struct conf c;
	size_t i;

	if (n > 1)
		cli_usage_error(cli, "takes at most one directory");
	if (keys.n > KEYS_MAX)
		cli_usage_error(cli, "takes at most 8 keys");
	cli_conf(cli, &c);
	snprintf(program, sizeof(program), "%s/" PRODUCT "-scribe",
		 c.libexec_dir);
	if (n == 0)
		audit_dir(cli, &c, dir, sizeof(dir));
	args[at++] = program;
	args[at++] = "--verify";
	args[at++] = n == 1 ? argv[1] : dir;
	for (i = 0; i < keys.n; i++) {
		args[at++] = "--key";
		args[at++] = keys.v[i];
	}
	if (head) {
		args[at++] = "--head";
		args[at++] = head;
	}
	args[at] = NULL;
	execv(program, (char **)args);
	fail(cli, "run %s: %s", program, strerror(errno));
}

const struct verb log_verbs[] = {
	{ .name = "show",
	  .fn = log_show,
	  .args = "[OPTIONS] [SANDBOX]",
	  .help = "print entries of the log, of one sandbox or of all",
	  .notes = "A sandbox that has ended is named by its whole id.",
	  .examples = PRODUCT " log work\n" PRODUCT
			      " log show -n 20 --type sandbox.\n" },
	{ .name = "verify",
	  .fn = log_verify,
	  .args = "[OPTIONS] [DIRECTORY]",
	  .help = "check that the log is what was written",
	  .notes = "Exits with 0 when it is, with 1 when it was changed (file, "
		   "line and number of each\n"
		   "place are printed), with 2 when it cannot be read: root "
		   "and members of the group\n"
		   "of the log's user may. Without DIRECTORY it is this "
		   "host's (with CARREL_SOCKET\nthat daemon's); a copy of the "
		   "directory works as well. Whoever can write to the\n"
		   "log can also replace key.pub: keep that key, and heads "
		   "(`log head`), somewhere else.",
	  .examples = PRODUCT " log verify\n" PRODUCT
			      " log verify backup/audit --key log.pub --head "
			      "head.txt\n" },
	{ .name = "head",
	  .fn = log_head,
	  .args = "[OPTIONS]",
	  .help = "print the last signed entry, to be kept elsewhere" },
	{ .name = "export",
	  .fn = log_export,
	  .args = "[OPTIONS]",
	  .help = "print the whole log as it is, line by line" },
	{ 0 },
};
