/* carrel pause, carrel resume: sandboxes that stand still, and go on. */
#include <string.h>

#include "base/auto.h"
#include "cli/server.h"

/* One request; false when it was refused, and why has been said. */
static bool change_one(struct cli *cli, const char *ref, const char *verb,
		       const char *body, json_t *all)
{
	struct http_call call = { .method = "POST",
				  .body = body,
				  .body_n = strlen(body) };
	char target[TARGET_CAP], message[MESSAGE_CAP];
	AUTO(buf_done) struct buf path = { 0 };
	struct http_client c;
	json_t *j;
	int status;

	server_target(cli, target, "/v1/sandboxes/", ref);
	buf_printf(&path, "%s/%s", target, verb);
	call.target = buf_str(&path);
	server_open(cli, &c);
	status = server_call(cli, &c, &call, &j);
	http_client_done(&c);
	if (status / 100 == 2) {
		json_array_append_new(all, j);
		return true;
	}
	server_message(status, j, message);
	complain("%s", message);
	json_decref(j);
	return false;
}

static int change_each(struct cli *cli, const char *verb, const char *body,
		       bool json, int n, char **refs)
{
	json_t *all = json_array();
	int i, code = 0;

	if (n == 0)
		cli_usage_error(cli, "which sandbox? (ids or names)");
	for (i = 0; i < n; i++)
		if (!change_one(cli, refs[i], verb, body, all))
			code = EXIT_FAILED;
	if (json && n > 1)
		print_json(all);
	else if (json && code == 0)
		print_json(json_array_get(all, 0));
	json_decref(all);
	return code;
}

#define JSON_ROW                  \
	{ "json", 0,    OPT_FLAG, \
	  &json,  NULL, "print the sandbox; an array for several" }

int verb_pause(struct cli *cli, int argc, char **argv)
{
	bool json = false, disk_only = false;
	const struct opt table[] = {
		{ "disk-only", 0, OPT_FLAG, &disk_only, NULL,
		  "end its processes and keep the disk, also over a restart "
		  "of the host" },
		JSON_ROW,
		OPT_HELP(cli),
		{ 0 },
	};
	int n = cli_operands(cli, table, argc, argv);

	return change_each(cli, "pause",
			   disk_only ? "{\"disk_only\":true}" : "{}", json, n,
			   argv + 1);
}

int verb_resume(struct cli *cli, int argc, char **argv)
{
	bool json = false;
	const struct opt table[] = {
		JSON_ROW,
		OPT_HELP(cli),
		{ 0 },
	};
	int n = cli_operands(cli, table, argc, argv);

	return change_each(cli, "resume", "{}", json, n, argv + 1);
}
