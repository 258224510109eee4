/* carrel rm: ends sandboxes; with --all it is the kill switch. */
#include <string.h>
#include <unistd.h>

#include "cli/server.h"

static bool confirmed(struct cli *cli)
{
	json_t *all = server_list(cli, "/v1/sandboxes", "sandboxes");
	size_t n = json_array_size(all);
	char line[16];

	json_decref(all);
	fprintf(stderr, "End all %zu sandboxes of this host? [y/N] ", n);
	return fgets(line, sizeof(line), stdin) &&
	       (line[0] == 'y' || line[0] == 'Y');
}

static int remove_all(struct cli *cli, bool force)
{
	json_int_t n;
	json_t *j;

	if (!force && !isatty(STDIN_FILENO))
		fail(cli, "rm --all ends every sandbox of this host; say --all "
			  "--force if that is meant");
	if (!force && !confirmed(cli))
		fail(cli, "nothing was removed");
	j = server_get(cli, "DELETE", "/v1/sandboxes?all=true", NULL);
	n = json_integer_value(json_object_get(j, "removed"));
	printf("%lld %s removed\n", (long long)n,
	       n == 1 ? "sandbox" : "sandboxes");
	json_decref(j);
	return 0;
}

int verb_rm(struct cli *cli, int argc, char **argv)
{
	bool all = false, force = false, snapshots = false;
	const struct opt table[] = {
		{ "all", 'a', OPT_FLAG, &all, NULL, "every sandbox there is" },
		{ "force", 'f', OPT_FLAG, &force, NULL,
		  "with --all: do not ask" },
		{ "snapshots", 0, OPT_FLAG, &snapshots, NULL,
		  "also their named snapshots" },
		OPT_HELP(cli),
		{ 0 },
	};
	int n = cli_operands(cli, table, argc, argv);

	if (all && snapshots)
		cli_usage_error(cli, "--snapshots is for named sandboxes; see "
				     "`prune`");
	if (all && n > 0)
		cli_usage_error(cli, "either --all or names, not both");
	if (all)
		return remove_all(cli, force);
	if (n == 0)
		cli_usage_error(cli, "which sandbox? (ids or names, or --all "
				     "--force)");
	return remove_each_with(cli, "/v1/sandboxes/",
				snapshots ? "?snapshots=true" : "", n,
				argv + 1);
}
