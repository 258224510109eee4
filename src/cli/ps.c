/* carrel ps and carrel logs: the processes of a sandbox. */
#include <assert.h>
#include <string.h>

#include "base/auto.h"
#include "cli/process.h"
#include "cli/server.h"
#include "cli/show.h"
#include "cli/stream.h"

enum { COMMAND_CAP = 240 };

static json_t *list_processes(struct cli *cli, const char *ref)
{
	char base[TARGET_CAP], target[TARGET_CAP + 16];

	server_target(cli, base, "/v1/sandboxes/", ref);
	snprintf(target, sizeof(target), "%s/processes", base);
	return server_get(cli, "GET", target, NULL);
}

static bool is_running(const json_t *p)
{
	return strcmp(show_str(p, "state"), "running") == 0;
}

static void state_text(const json_t *p, char out[SHOW_CAP])
{
	const json_t *x = json_object_get(p, "exit");
	const json_t *code = json_object_get(x, "code");
	const json_t *sig = json_object_get(x, "signal");

	if (json_is_integer(code))
		snprintf(out, SHOW_CAP, "exit %lld",
			 (long long)json_integer_value(code));
	else if (json_is_integer(sig))
		snprintf(out, SHOW_CAP, "signal %lld",
			 (long long)json_integer_value(sig));
	else
		snprintf(out, SHOW_CAP, "%s", show_str(p, "state"));
}

/* The words as they are, cut where the line gets long. */
static void command_text(const json_t *p, char out[COMMAND_CAP])
{
	size_t i, at = 0;
	json_t *w;

	*out = '\0';
	json_array_foreach (json_object_get(p, "argv"), i, w) {
		const char *s = json_string_value(w);
		int n = snprintf(out + at, COMMAND_CAP - at, "%s%s",
				 i ? " " : "", s ? s : "");

		at += n > 0 ? (size_t)n : 0;
		if (at >= COMMAND_CAP)
			return;
	}
}

static const char *const titles[] = { "NUMBER", "PID", "USER", "TTY",
				      "STATE",  "AGE", "TAG",  "COMMAND" };

static void add_row(struct table *t, const json_t *p)
{
	char number[SHOW_CAP], pid[SHOW_CAP], state[SHOW_CAP], age[SHOW_CAP],
		command[COMMAND_CAP];
	const char *tag = show_str(p, "tag");
	const char *cells[] = {
		number,
		pid,
		show_str(p, "user"),
		json_is_true(json_object_get(p, "tty")) ? "yes" : "-",
		state,
		age,
		/* One that a client made up for itself tells nobody anything.
		 */
		*tag && !id_valid(tag) ? tag : "-",
		command,
	};

	static_assert(ARRAY_LEN(cells) == ARRAY_LEN(titles), "columns");
	show_number(p, "number", number);
	show_number(p, "pid", pid);
	state_text(p, state);
	show_age(p, "started_at", age);
	command_text(p, command);
	table_row(t, cells);
}

int verb_ps(struct cli *cli, int argc, char **argv)
{
	bool all = false, json = false;
	const struct opt table[] = {
		{ "all", 'a', OPT_FLAG, &all, NULL,
		  "also those that have ended and are still remembered" },
		{ "json", 0, OPT_FLAG, &json, NULL, "as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	json_t *j, *list, *p, *shown = json_array();
	struct table t;
	size_t i;

	if (cli_operands(cli, table, argc, argv) != 1)
		cli_usage_error(cli, "which sandbox? (an id or a name)");
	j = list_processes(cli, argv[1]);
	list = json_object_get(j, "processes");
	table_init(&t, titles, ARRAY_LEN(titles));
	json_array_foreach (list, i, p) {
		if (!all && !is_running(p))
			continue;
		json_array_append(shown, p);
		add_row(&t, p);
	}
	if (json)
		print_json(shown);
	else
		table_print(&t);
	table_done(&t);
	json_decref(shown);
	json_decref(j);
	return 0;
}

static bool is_it(const json_t *p, const struct attach *at)
{
	if (at->number == 0)
		return strcmp(show_str(p, "tag"), at->tag) == 0;
	return json_integer_value(json_object_get(p, "number")) == at->number;
}

/* The one that was asked for; the last one that was started when none was. */
static const json_t *find_process(const json_t *j, const struct attach *at)
{
	const json_t *found = NULL, *p;
	json_int_t newest = 0;
	size_t i;

	json_array_foreach (json_object_get(j, "processes"), i, p) {
		json_int_t n = json_integer_value(json_object_get(p, "number"));

		if (at ? is_it(p, at) : n > newest) {
			found = p;
			newest = n;
		}
	}
	return found;
}

static uint64_t end_of(const json_t *p, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(p, key));

	return n > 0 ? (uint64_t)n : 0;
}

int verb_logs(struct cli *cli, int argc, char **argv)
{
	bool follow = false;
	const struct opt table[] = {
		{ "follow", 'f', OPT_FLAG, &follow, NULL,
		  "go on with what it writes, until it ends" },
		OPT_HELP(cli),
		{ 0 },
	};
	struct stream_opts o = { .cli = cli, .aside = true, .look = true };
	int n = cli_operands(cli, table, argc, argv);
	char target[EXEC_TARGET_CAP];
	struct attach asked;
	const json_t *p;
	json_t *j;

	if (n < 1 || n > 2)
		cli_usage_error(cli, "which sandbox, and which process? (see "
				     "ps)");
	if (n == 2)
		process_ref(cli, argv[2], &asked);
	j = list_processes(cli, argv[1]);
	p = find_process(j, n == 2 ? &asked : NULL);
	if (!p && n == 2)
		fail(cli, "no process %s in %s, or it is forgotten", argv[2],
		     argv[1]);
	if (!p)
		fail(cli, "nothing was started in %s", argv[1]);
	o.at.number = (uint32_t)end_of(p, "number");
	o.bounded = is_running(p) && !follow;
	o.until[0] = end_of(p, "stdout_end");
	o.until[1] = end_of(p, "stderr_end");
	process_target(cli, argv[1], target);
	o.target = target;
	json_decref(j);
	return stream_run(&o);
}
