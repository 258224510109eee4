/* carrel ls: the living sandboxes. */
#include "base/auto.h"
#include "cli/server.h"
#include "cli/show.h"

static const char *const titles[] = { "ID",    "NAME", "IMAGE",
				      "STATE", "CPUS", "MEMORY",
				      "DISK",  "AGE",  "EXPIRES" };

static void add_row(struct table *t, const json_t *b)
{
	const json_t *spec = json_object_get(b, "spec");
	char id[SHOW_CAP], cpus[SHOW_CAP], memory[SHOW_CAP], disk[SHOW_CAP],
		age[SHOW_CAP], until[SHOW_CAP];
	const char *name = show_str(b, "name"), *image = show_str(b, "image");
	const char *cells[ARRAY_LEN(titles)] = { id,
						 *name ? name : "-",
						 *image ? image : "-",
						 show_str(b, "state"),
						 cpus,
						 memory,
						 disk,
						 age,
						 until };

	show_id(b, "id", id);
	show_number(spec, "cpus", cpus);
	show_size(spec, "memory", memory);
	show_size(spec, "disk", disk);
	show_age(b, "created_at", age);
	show_until(b, "expires_at", until);
	table_row(t, cells);
}

int verb_ls(struct cli *cli, int argc, char **argv)
{
	bool quiet = false, json = false;
	const struct opt table[] = {
		{ "quiet", 'q', OPT_FLAG, &quiet, NULL, "only whole ids" },
		{ "json", 0, OPT_FLAG, &json, NULL, "as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	struct table t;
	json_t *j, *b;
	size_t i;

	if (cli_operands(cli, table, argc, argv) > 0)
		cli_usage_error(cli, "takes no operands");
	j = server_get(cli, "GET", "/v1/sandboxes", NULL);
	if (json) {
		print_json(json_object_get(j, "sandboxes"));
		json_decref(j);
		return 0;
	}
	table_init(&t, titles, ARRAY_LEN(titles));
	json_array_foreach (json_object_get(j, "sandboxes"), i, b) {
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
	json_decref(j);
	return 0;
}
