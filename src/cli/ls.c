/* carrel ls: the sandboxes that live, and those that ended lately. */
#include <string.h>

#include "base/auto.h"
#include "cli/server.h"
#include "cli/show.h"
#include "http/target.h"

static const char *const titles[] = { "ID",        "NAME",   "IMAGE",  "STATE",
				      "ISOLATION", "CPUS",   "MEMORY", "DISK",
				      "AGE",       "EXPIRES" };

struct ls_opts {
	bool quiet, json, all;
	const char *label, *project;
};

/* "running", or why it is not. */
static void state_text(const json_t *b, char out[SHOW_CAP])
{
	const char *why = show_str(json_object_get(b, "ended"), "reason");

	snprintf(out, SHOW_CAP, "%s%s%.64s", show_str(b, "state"),
		 *why ? ": " : "", why);
}

static void add_row(struct table *t, const json_t *b)
{
	const json_t *spec = json_object_get(b, "spec");
	char id[SHOW_CAP], cpus[SHOW_CAP], memory[SHOW_CAP], disk[SHOW_CAP],
		age[SHOW_CAP], until[SHOW_CAP], state[SHOW_CAP];
	const char *name = show_str(b, "name"), *image = show_str(b, "image");
	const char *wall = show_str(b, "isolation");
	const char *cells[ARRAY_LEN(titles)] = { id,
						 *name ? name : "-",
						 *image ? image : "-",
						 state,
						 *wall ? wall : "-",
						 cpus,
						 memory,
						 disk,
						 age,
						 until };

	show_id(b, "id", id);
	state_text(b, state);
	show_number(spec, "cpus", cpus);
	show_size(spec, "memory", memory);
	show_size(spec, "disk", disk);
	show_age(b, "created_at", age);
	show_until(b, "expires_at", until);
	table_row(t, cells);
}

static void put_query(struct buf *b, const char *name, const char *value)
{
	if (!value)
		return;
	buf_puts(b, strchr(buf_str(b), '?') ? "&" : "?");
	buf_printf(b, "%s=", name);
	http_encode(b, value);
}

static json_t *get_list(struct cli *cli, const struct ls_opts *o,
			const char *state)
{
	struct buf target = { 0 };
	json_t *list;

	buf_puts(&target, "/v1/sandboxes");
	put_query(&target, "label", o->label);
	put_query(&target, "project", o->project);
	put_query(&target, "state", state);
	list = server_list(cli, buf_str(&target), "sandboxes");
	buf_done(&target);
	return list;
}

static void print_list(const json_t *list, bool quiet)
{
	struct table t;
	json_t *b;
	size_t i;

	table_init(&t, titles, ARRAY_LEN(titles));
	json_array_foreach (list, i, b) {
		char id[SHOW_CAP];

		clean_text(id, sizeof(id), show_str(b, "id"));
		if (quiet)
			puts(id);
		else
			add_row(&t, b);
	}
	if (!quiet)
		table_print(&t);
	table_done(&t);
}

int verb_ls(struct cli *cli, int argc, char **argv)
{
	struct ls_opts o = { 0 };
	const struct opt table[] = {
		{ "all", 'a', OPT_FLAG, &o.all, NULL,
		  "also those that ended lately, and why" },
		{ "label", 'l', OPT_TEXT, &o.label, "K[=V]",
		  "only those with this label" },
		{ "project", 0, OPT_TEXT, &o.project, "PROJECT",
		  "only those of this project" },
		{ "quiet", 'q', OPT_FLAG, &o.quiet, NULL, "only whole ids" },
		{ "json", 0, OPT_FLAG, &o.json, NULL, "as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	json_t *list;

	if (cli_operands(cli, table, argc, argv) > 0)
		cli_usage_error(cli, "takes no operands");
	list = get_list(cli, &o, NULL);
	if (o.all) {
		json_t *ended = get_list(cli, &o, "ended");

		json_array_extend(list, ended);
		json_decref(ended);
	}
	if (o.json)
		print_json(list);
	else
		print_list(list, o.quiet);
	json_decref(list);
	return 0;
}
