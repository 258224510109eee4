/* carrel volume: disks that outlive the sandboxes which have them. */
#include <string.h>

#include "base/auto.h"
#include "base/product.h"
#include "cli/listing.h"
#include "cli/server.h"
#include "cli/show.h"

static void put_word(struct buf *b, const char *key, const char *value)
{
	if (!value)
		return;
	buf_puts(b, buf_len(b) > 1 ? "," : "");
	json_put_str(b, key, strlen(key));
	buf_puts(b, ":");
	json_put_str(b, value, strlen(value));
}

static int volume_create(struct cli *cli, int argc, char **argv)
{
	const char *size = NULL, *project = NULL;
	bool json = false;
	const struct opt table[] = {
		{ "size", 0, OPT_TEXT, &size, "SIZE",
		  "what it may hold (default: the disk of a sandbox)" },
		{ "project", 0, OPT_TEXT, &project, "PROJECT",
		  "whose (default: default)" },
		{ "json", 0, OPT_FLAG, &json, NULL, "print it as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	struct buf body = { 0 };
	char id[SHOW_CAP];
	json_t *j;

	if (cli_operands(cli, table, argc, argv) != 1)
		cli_usage_error(cli, "what is it to be called?");
	buf_puts(&body, "{");
	put_word(&body, "name", argv[1]);
	put_word(&body, "size", size);
	put_word(&body, "project", project);
	buf_puts(&body, "}");
	j = server_get(cli, "POST", "/v1/volumes", &body);
	buf_done(&body);
	if (json) {
		print_json(j);
	} else {
		clean_text(id, sizeof(id), show_str(j, "id"));
		puts(id);
	}
	json_decref(j);
	return 0;
}

static void volume_row(struct table *t, const json_t *v)
{
	const json_t *users = json_object_get(v, "sandboxes");
	size_t n = json_array_size(users);
	char id[SHOW_CAP], size[SHOW_CAP], age[SHOW_CAP], user[SHOW_CAP];
	const char *cells[] = {
		show_str(v, "name"), id, show_str(v, "project"), size, age, user
	};

	show_id(v, "id", id);
	show_size(v, "size", size);
	show_age(v, "created_at", age);
	snprintf(user, sizeof(user), n > 1 ? "%.12s and others" : "%.12s",
		 n > 0 ? json_string_value(json_array_get(users, 0)) : "-");
	if (strcmp(show_str(v, "state"), "missing") == 0)
		snprintf(user, sizeof(user), "not in the pool");
	table_row(t, cells);
}

static int volume_ls(struct cli *cli, int argc, char **argv)
{
	static const char *const titles[] = { "NAME", "ID",  "PROJECT",
					      "SIZE", "AGE", "SANDBOX" };
	const struct listing l = { "/v1/volumes",     "volumes",  titles,
				   ARRAY_LEN(titles), volume_row, false };

	return listing_verb(cli, argc, argv, &l);
}

static int volume_rm(struct cli *cli, int argc, char **argv)
{
	const struct opt table[] = { OPT_HELP(cli), { 0 } };
	int n = cli_operands(cli, table, argc, argv);

	if (n == 0)
		cli_usage_error(cli, "which volume?");
	return remove_each(cli, "/v1/volumes/", n, argv + 1);
}

const struct verb volume_verbs[] = {
	{ .name = "create",
	  .fn = volume_create,
	  .args = "[OPTIONS] NAME",
	  .help = "make a volume and print its id",
	  .notes = "A sandbox gets it with `create --volume NAME:/path`, or "
		   "NAME:/path:ro only to read.\n"
		   "One that may write it has it alone, unless all say "
		   "NAME:/path:shared.",
	  .examples = PRODUCT " volume create data --size 10G\n" PRODUCT
			      " create --name work --volume data:/data\n" },
	{ .name = "ls",
	  .fn = volume_ls,
	  .args = "[OPTIONS]",
	  .help = "list the volumes, and who has them" },
	{ .name = "rm",
	  .fn = volume_rm,
	  .args = "NAME...",
	  .help = "remove volumes, with all that is in them" },
	{ 0 },
};
