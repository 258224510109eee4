/* carrel prune: removes what nothing uses. */
#include <string.h>

#include "base/auto.h"
#include "base/product.h"
#include "cli/server.h"
#include "cli/show.h"

static void print_pruned(const json_t *j)
{
	const char *did = json_is_true(json_object_get(j, "dry_run"))
				  ? "would remove"
				  : "removed";
	const json_t *s;
	size_t i;

	json_array_foreach (json_object_get(j, "removed"), i, s) {
		printf("%s %s:%s%s%s\n", did, show_str(s, "kind"),
		       show_str(s, "id"), *show_str(s, "name") ? " " : "",
		       show_str(s, "name"));
	}
	json_array_foreach (json_object_get(j, "kept"), i, s) {
		fprintf(stderr, PRODUCT ": kept %s:%s: %s\n",
			show_str(s, "kind"), show_str(s, "id"),
			show_str(s, "error"));
	}
}

int verb_prune(struct cli *cli, int argc, char **argv)
{
	bool dry = false, snapshots = false, images = false, strays = false;
	bool json = false;
	const char *older = NULL;
	const struct opt table[] = {
		{ "dry-run", 'n', OPT_FLAG, &dry, NULL,
		  "only print what would be removed" },
		{ "snapshots", 0, OPT_FLAG, &snapshots, NULL,
		  "also named snapshots of removed sandboxes, by age" },
		{ "images", 0, OPT_FLAG, &images, NULL,
		  "also images that nothing uses, except the default one" },
		{ "strays", 0, OPT_FLAG, &strays, NULL,
		  "also strays, as `" PRODUCT " adopt` lists them" },
		{ "older-than", 0, OPT_TEXT, &older, "TIME",
		  "only objects older than this, such as 12h or 30d" },
		{ "json", 0, OPT_FLAG, &json, NULL, "print JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	struct buf body = { 0 };
	uint64_t ms = 0;
	json_t *j;

	if (cli_operands(cli, table, argc, argv) != 0)
		cli_usage_error(cli, "takes only options");
	if (older && parse_duration(older, &ms) < 0)
		cli_usage_error(cli, "--older-than is a time such as 12h or "
				     "30d");
	buf_printf(&body,
		   "{\"dry_run\":%s,\"snapshots\":%s,\"images\":%s,"
		   "\"strays\":%s",
		   dry ? "true" : "false", snapshots ? "true" : "false",
		   images ? "true" : "false", strays ? "true" : "false");
	if (older)
		buf_printf(&body, ",\"older_than\":%llu",
			   (unsigned long long)ms / 1000);
	buf_puts(&body, "}");
	j = server_get(cli, "POST", "/v1/prune", &body);
	buf_done(&body);
	if (json)
		print_json(j);
	else
		print_pruned(j);
	json_decref(j);
	return 0;
}
