/* carrel fork: sandboxes that start where another one is. */
#include <string.h>

#include "base/auto.h"
#include "cli/server.h"
#include "cli/show.h"
#include "cli/spec_opts.h"

/* Labels are added to those of the original; the rest of a spec replaces. */
static json_t *request(struct cli *cli, const struct spec_opts *s,
		       const char *name, uint64_t count, bool own)
{
	AUTO(buf_done) struct buf text = { 0 };
	json_t *spec, *labels, *j;

	spec_opts_body(cli, s, NULL, &text);
	spec = json_loads(buf_str(&text), 0, NULL);
	labels = json_incref(json_object_get(spec, "labels"));
	json_object_del(spec, "labels");
	j = json_pack("{s:I, s:o}", "count", (json_int_t)count, "spec", spec);
	if (labels)
		json_object_set_new(j, "labels", labels);
	if (own)
		json_object_set_new(j, "own_budget", json_true());
	if (name)
		json_object_set_new(j, "name", json_string(name));
	return j;
}

static json_t *ask(struct cli *cli, const char *ref, json_t *j)
{
	AUTO(buf_done) struct buf body = { 0 }, path = { 0 };
	AUTO_FREE char *text = json_dumps(j, JSON_COMPACT);
	char target[TARGET_CAP];

	server_target(cli, target, "/v1/sandboxes/", ref);
	buf_printf(&path, "%s/fork", target);
	buf_puts(&body, text ? text : "{}");
	json_decref(j);
	return server_get(cli, "POST", buf_str(&path), &body);
}

int verb_fork(struct cli *cli, int argc, char **argv)
{
	static struct spec_opts s;
	const char *name = NULL;
	uint64_t count = 1;
	bool json = false, own = false;
	const struct opt more[] = {
		{ "count", 0, OPT_NUMBER, &count, "N", "how many: 1 to 100" },
		{ "name", 0, OPT_TEXT, &name, "NAME",
		  "its name; of several NAME-1, NAME-2..." },
		{ "own-budget", 0, OPT_FLAG, &own, NULL,
		  "give the fork its own budgets and time instead of its "
		  "family's" },
		{ "json", 0, OPT_FLAG, &json, NULL,
		  "print the sandboxes, not only their ids" },
		OPT_HELP(cli),
		{ 0 },
	};
	struct opt table[SPEC_OPTS_MAX + ARRAY_LEN(more)];
	json_t *j, *list, *one;
	char id[SHOW_CAP];
	size_t i;

	memcpy(table + spec_opts_rows(&s, table, ROWS_PATCH), more,
	       sizeof(more));
	if (cli_operands(cli, table, argc, argv) != 1)
		cli_usage_error(cli, "which sandbox or snapshot? (one)");
	j = ask(cli, argv[1], request(cli, &s, name, count, own));
	list = json_object_get(j, "sandboxes");
	if (json)
		print_json(list);
	json_array_foreach (list, i, one) {
		clean_text(id, sizeof(id), show_str(one, "id"));
		if (!json)
			puts(id);
	}
	json_decref(j);
	return 0;
}
