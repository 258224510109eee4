/* carrel policy: policies that the daemon keeps, by name. */
#include <string.h>

#include "base/auto.h"
#include "base/product.h"
#include "cli/listing.h"
#include "cli/policy_text.h"
#include "cli/server.h"
#include "cli/show.h"
#include "http/target.h"

void policy_target(struct cli *cli, const char *name, const char *project,
		   struct buf *out)
{
	char target[TARGET_CAP];

	server_target(cli, target, "/v1/policies/", name);
	buf_puts(out, target);
	if (project) {
		buf_puts(out, "?project=");
		http_encode(out, project);
	}
}

/* Text that others wrote, line by line. */
static void print_text(const char *text)
{
	while (*text) {
		size_t n = strcspn(text, "\n");
		AUTO_FREE char *line = xcalloc(1, n + 1);
		AUTO_FREE char *clean = xcalloc(1, n + 1);

		memcpy(line, text, n);
		/* A tab is no danger, and alignment is for people. */
		for (char *p = line; *p; p++)
			*p = *p == '\t' ? ' ' : *p;
		clean_text(clean, n + 1, line);
		puts(clean);
		text += n + (text[n] == '\n');
	}
}

int policy_set(struct cli *cli, int argc, char **argv)
{
	AUTO(buf_done) struct buf target = { 0 }, text = { 0 };
	const char *project = NULL;
	bool json = false;
	const struct opt table[] = {
		{ "project", 0, OPT_TEXT, &project, "PROJECT",
		  "whose (default: default)" },
		{ "json", 0, OPT_FLAG, &json, NULL, "print it as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	json_t *j;

	if (cli_operands(cli, table, argc, argv) != 2)
		cli_usage_error(cli, "takes a name and a file");
	policy_text(cli, argv[2], &text);
	policy_target(cli, argv[1], project, &target);
	j = server_get(cli, "PUT", buf_str(&target), &text);
	if (json)
		print_json(j);
	json_decref(j);
	return 0;
}

static void saved_row(struct table *t, const json_t *v)
{
	char age[SHOW_CAP], users[SHOW_CAP];
	const char *cells[] = { show_str(v, "name"), show_str(v, "project"),
				users, age };

	snprintf(users, sizeof(users), "%zu",
		 json_array_size(json_object_get(v, "sandboxes")));
	show_age(v, "updated_at", age);
	table_row(t, cells);
}

int policy_ls(struct cli *cli, int argc, char **argv)
{
	static const char *const titles[] = { "NAME", "PROJECT", "SANDBOXES",
					      "CHANGED" };
	const struct listing l = { "/v1/policies",    "policies", titles,
				   ARRAY_LEN(titles), saved_row,  false };

	return listing_verb(cli, argc, argv, &l);
}

int policy_show(struct cli *cli, int argc, char **argv)
{
	AUTO(buf_done) struct buf target = { 0 };
	const char *project = NULL;
	bool json = false;
	const struct opt table[] = {
		{ "project", 0, OPT_TEXT, &project, "PROJECT",
		  "whose (default: default)" },
		{ "json", 0, OPT_FLAG, &json, NULL, "all about it, as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	json_t *j;

	if (cli_operands(cli, table, argc, argv) != 1)
		cli_usage_error(cli, "which policy?");
	policy_target(cli, argv[1], project, &target);
	j = server_get(cli, "GET", buf_str(&target), NULL);
	if (json)
		print_json(j);
	else
		print_text(show_str(j, "text"));
	json_decref(j);
	return 0;
}

int policy_rm(struct cli *cli, int argc, char **argv)
{
	const char *project = NULL;
	const struct opt table[] = {
		{ "project", 0, OPT_TEXT, &project, "PROJECT",
		  "whose (default: default)" },
		OPT_HELP(cli),
		{ 0 },
	};
	int n = cli_operands(cli, table, argc, argv), i, code = 0;

	if (n == 0)
		cli_usage_error(cli, "which policy?");
	for (i = 1; i <= n; i++) {
		AUTO(buf_done) struct buf target = { 0 };
		struct http_client c;
		struct http_call call = { .method = "DELETE" };
		char message[MESSAGE_CAP];
		json_t *j = NULL;
		int status;

		policy_target(cli, argv[i], project, &target);
		call.target = buf_str(&target);
		server_open(cli, &c);
		status = server_call(cli, &c, &call, &j);
		http_client_done(&c);
		if (status != 204) {
			server_message(status, j, message);
			complain("%s", message);
			code = EXIT_FAILED;
		}
		json_decref(j);
	}
	return code;
}

int policy_presets(struct cli *cli, int argc, char **argv)
{
	bool json = false;
	const struct opt table[] = {
		{ "json", 0, OPT_FLAG, &json, NULL, "as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	int n = cli_operands(cli, table, argc, argv);
	json_t *j, *v;
	bool found = n == 0;
	size_t i;

	if (n > 1)
		cli_usage_error(cli, "takes at most one name");
	j = server_get(cli, "GET", "/v1/presets", NULL);
	if (json && n == 0)
		print_json(json_object_get(j, "presets"));
	json_array_foreach (json_object_get(j, "presets"), i, v) {
		const char *name = show_str(v, "name");
		char clean[SHOW_CAP];

		if (n == 1 && strcmp(argv[1], name) != 0)
			continue;
		found = true;
		clean_text(clean, sizeof(clean), name);
		if (json && n == 1)
			print_json(v);
		else if (!json && n == 0)
			puts(clean);
		else if (!json)
			print_text(show_str(v, "text"));
	}
	if (!found)
		fail(cli, "no preset '%s'", argv[1]);
	json_decref(j);
	return 0;
}
