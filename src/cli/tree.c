/* carrel tree: where a sandbox comes from, and what comes from it. */
#include <string.h>

#include "base/auto.h"
#include "cli/server.h"
#include "cli/show.h"

enum { DEPTH_MAX = 200 };

/* "try-1  sandbox, running, 5 min" */
static void print_node(const json_t *n, const char *asked)
{
	char name[SHOW_CAP], state[SHOW_CAP], age[SHOW_CAP];
	const char *type = show_str(n, "type");
	bool image = strcmp(type, "image") == 0;

	clean_text(name, sizeof(name), show_str(n, "name"));
	if (*name == '\0')
		show_id(n, "id", name);
	clean_text(state, sizeof(state), show_str(n, "state"));
	show_age(n, "created_at", age);
	printf("%s  %s%s%s, %s%s\n", name, image ? "image" : type,
	       *state ? ", " : "", state, age,
	       strcmp(show_str(n, "id"), asked) == 0 ? "  <--" : "");
}

static size_t count_children(const json_t *nodes, const char *parent)
{
	const json_t *n;
	size_t i, found = 0;

	json_array_foreach (nodes, i, n)
		found += strcmp(show_str(n, "parent"), parent) == 0;
	return found;
}

/* `front` is what stands in front of each line of these. */
static void print_children(const json_t *nodes, const char *parent,
			   struct buf *front, const char *asked)
{
	size_t i, left = count_children(nodes, parent);
	size_t at = buf_len(front);
	const json_t *n;

	if (at / 4 > DEPTH_MAX)
		return;
	json_array_foreach (nodes, i, n) {
		AUTO(buf_done) struct buf deeper = { 0 };

		if (strcmp(show_str(n, "parent"), parent) != 0)
			continue;
		left--;
		printf("%s%s", buf_str(front), left ? "|-- " : "`-- ");
		print_node(n, asked);
		buf_printf(&deeper, "%s%s", buf_str(front),
			   left ? "|   " : "    ");
		print_children(nodes, show_str(n, "id"), &deeper, asked);
	}
}

/* The whole id of what was asked for by a name or the start of one. */
static const char *find_asked(const json_t *nodes, const char *ref)
{
	const json_t *n;
	size_t i;

	json_array_foreach (nodes, i, n)
		if (strcmp(show_str(n, "name"), ref) == 0 ||
		    str_starts(show_str(n, "id"), ref))
			return show_str(n, "id");
	return "-";
}

int verb_tree(struct cli *cli, int argc, char **argv)
{
	bool json = false;
	const struct opt table[] = {
		{ "json", 0, OPT_FLAG, &json, NULL, "as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	AUTO(buf_done) struct buf path = { 0 }, front = { 0 };
	char target[TARGET_CAP];
	const json_t *root;
	json_t *j, *nodes;

	if (cli_operands(cli, table, argc, argv) != 1)
		cli_usage_error(cli, "of which sandbox or snapshot? (one)");
	server_target(cli, target, "/v1/sandboxes/", argv[1]);
	buf_printf(&path, "%s/tree", target);
	j = server_get(cli, "GET", buf_str(&path), NULL);
	nodes = json_object_get(j, "nodes");
	root = json_array_get(nodes, 0);
	if (json) {
		print_json(nodes);
	} else if (root) {
		const char *asked = find_asked(nodes, argv[1]);

		print_node(root, asked);
		print_children(nodes, show_str(root, "id"), &front, asked);
	}
	json_decref(j);
	return 0;
}
