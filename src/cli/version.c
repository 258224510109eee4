/* carrel version: ours and the daemon's. */
#include "base/product.h"
#include "cli/server.h"
#include "cli/show.h"

int verb_version(struct cli *cli, int argc, char **argv)
{
	bool json = false;
	const struct opt table[] = {
		{ "json", 0, OPT_FLAG, &json, NULL, "as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	struct http_call call = { .method = "GET", .target = "/v1/host" };
	struct http_client c;
	char why[MESSAGE_CAP], daemon[SHOW_CAP] = "";
	json_t *host = NULL, *j;

	if (cli_operands(cli, table, argc, argv) > 0)
		cli_usage_error(cli, "takes no operands");
	if (server_try(cli, &c, why)) {
		server_call(cli, &c, &call, &host);
		clean_text(daemon, sizeof(daemon), show_str(host, "version"));
		json_decref(host);
		http_client_done(&c);
	}
	if (!json) {
		printf(PRODUCT " " PRODUCT_VERSION "\n");
		printf("daemon %s\n", *daemon ? daemon : "not reached");
		return 0;
	}
	j = json_pack("{s:s, s:s?}", "version", PRODUCT_VERSION, "daemon",
		      *daemon ? daemon : NULL);
	print_json(j);
	json_decref(j);
	return 0;
}
