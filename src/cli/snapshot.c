/* carrel snapshot: disks as they were at a time. */
#include <string.h>

#include "base/auto.h"
#include "base/product.h"
#include "cli/server.h"
#include "cli/show.h"
#include "http/target.h"

static int snapshot_create(struct cli *cli, int argc, char **argv)
{
	bool json = false;
	const struct opt table[] = {
		{ "json", 0, OPT_FLAG, &json, NULL, "all about it, as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	int n = cli_operands(cli, table, argc, argv);
	AUTO(buf_done) struct buf body = { 0 }, path = { 0 };
	char target[TARGET_CAP], id[SHOW_CAP];
	json_t *j;

	if (n < 1 || n > 2)
		cli_usage_error(cli, "of which sandbox? (and, if it is to have "
				     "one, a name)");
	server_target(cli, target, "/v1/sandboxes/", argv[1]);
	buf_printf(&path, "%s/snapshots", target);
	buf_puts(&body, "{");
	if (n == 2) {
		buf_puts(&body, "\"name\":");
		json_put_str(&body, argv[2], strlen(argv[2]));
	}
	buf_puts(&body, "}");
	j = server_get(cli, "POST", buf_str(&path), &body);
	if (json) {
		print_json(j);
	} else {
		clean_text(id, sizeof(id), show_str(j, "id"));
		puts(id);
	}
	json_decref(j);
	return 0;
}

/* The last two only when they were measured. */
static const char *const titles[] = { "ID",    "NAME", "SANDBOX",
				      "KIND",  "SIZE", "AGE",
				      "EVENT", "USED", "SHARED" };
enum { MEASURED_TITLES = 2 };

static void add_row(struct table *t, const json_t *s)
{
	char id[SHOW_CAP], box[SHOW_CAP], size[SHOW_CAP], age[SHOW_CAP],
		event[SHOW_CAP], used[SHOW_CAP], shared[SHOW_CAP];
	const json_t *space = json_object_get(s, "space");
	const char *name = show_str(s, "name");
	const char *cells[ARRAY_LEN(titles)] = { id,    *name ? name : "-",
						 box,   show_str(s, "kind"),
						 size,  age,
						 event, used,
						 shared };

	show_id(s, "id", id);
	show_id(s, "sandbox", box);
	show_size(s, "bytes", size);
	show_age(s, "created_at", age);
	show_number(s, "event", event);
	show_size(space, "bytes", used);
	show_size(space, "shared", shared);
	table_row(t, cells);
}

/* Each of them with its space; one that was removed meanwhile stays without. */
static void measure(struct cli *cli, json_t *list)
{
	struct http_client c;
	json_t *s, *measured;
	size_t i;

	server_open(cli, &c);
	json_array_foreach (list, i, s) {
		AUTO(buf_done) struct buf path = { 0 };
		struct http_call call = { .method = "GET" };
		char target[TARGET_CAP];

		server_target(cli, target, "/v1/snapshots/", show_str(s, "id"));
		buf_printf(&path, "%s?space=true", target);
		call.target = buf_str(&path);
		if (server_call(cli, &c, &call, &measured) == 200)
			json_array_set_new(list, i, measured);
		else
			json_decref(measured);
	}
	http_client_done(&c);
}

static void print_list(const json_t *list, bool quiet, bool space)
{
	char id[SHOW_CAP];
	struct table t;
	const json_t *s;
	size_t i;

	table_init(&t, titles,
		   ARRAY_LEN(titles) - (space ? 0 : MEASURED_TITLES));
	json_array_foreach (list, i, s) {
		add_row(&t, s);
		clean_text(id, sizeof(id), show_str(s, "id"));
		if (quiet)
			puts(id);
	}
	if (!quiet)
		table_print(&t);
	table_done(&t);
}

static int snapshot_ls(struct cli *cli, int argc, char **argv)
{
	bool json = false, quiet = false, space = false;
	const char *project = NULL;
	const struct opt table[] = {
		{ "quiet", 'q', OPT_FLAG, &quiet, NULL, "only ids" },
		{ "project", 0, OPT_TEXT, &project, "PROJECT", "only its own" },
		{ "space", 0, OPT_FLAG, &space, NULL,
		  "measure what each takes, and how much of it is shared" },
		{ "json", 0, OPT_FLAG, &json, NULL, "as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	int n = cli_operands(cli, table, argc, argv);
	AUTO(buf_done) struct buf path = { 0 };
	json_t *j, *list;

	if (n > 1)
		cli_usage_error(cli, "takes one sandbox, or none for all");
	buf_puts(&path, "/v1/snapshots?sandbox=");
	if (n == 1)
		http_encode(&path, argv[1]);
	buf_puts(&path, "&project=");
	if (project)
		http_encode(&path, project);
	j = server_get(cli, "GET", buf_str(&path), NULL);
	list = json_object_get(j, "snapshots");
	if (space)
		measure(cli, list);
	if (json)
		print_json(list);
	else
		print_list(list, quiet, space);
	json_decref(j);
	return 0;
}

static int snapshot_rm(struct cli *cli, int argc, char **argv)
{
	const struct opt table[] = { OPT_HELP(cli), { 0 } };
	int n = cli_operands(cli, table, argc, argv);

	if (n == 0)
		cli_usage_error(cli, "which snapshot? (ids or names)");
	return remove_each(cli, "/v1/snapshots/", n, argv + 1);
}

const struct verb snapshot_verbs[] = {
	{ .name = "create",
	  .fn = snapshot_create,
	  .args = "[OPTIONS] SANDBOX [NAME]",
	  .help = "take a snapshot of a sandbox's disk and print its id",
	  .notes = "The sandbox goes on running; it stands still for the "
		   "moment in which its disk is\n"
		   "copied. The snapshot counts in the sandbox's disk limit "
		   "and stays until it is\n"
		   "removed, also when the sandbox is. The word `create` may "
		   "be left out.",
	  .examples = PRODUCT " snapshot work before-refactor\n" PRODUCT
			      " rollback work before-refactor\n" },
	{ .name = "ls",
	  .fn = snapshot_ls,
	  .args = "[OPTIONS] [SANDBOX]",
	  .help = "list the snapshots, the oldest first" },
	{ .name = "rm",
	  .fn = snapshot_rm,
	  .args = "SNAPSHOT...",
	  .help = "remove snapshots; what started from them stays" },
	{ 0 },
};
