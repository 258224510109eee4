/* carrel adopt: lists strays, and gives them rows again. */
#include <string.h>

#include "base/auto.h"
#include "base/product.h"
#include "cli/server.h"
#include "cli/show.h"

static const char *const titles[] = { "KIND:ID", "SIZE", "FOUND", "SANDBOX" };

static void stray_row(struct table *t, const json_t *s)
{
	char id[SHOW_CAP * 2], size[SHOW_CAP], age[SHOW_CAP], box[SHOW_CAP];
	const char *cells[] = { id, size, age, box };

	snprintf(id, sizeof(id), "%.10s:%.150s", show_str(s, "kind"),
		 show_str(s, "id"));
	show_size(s, "bytes", size);
	show_age(s, "since", age);
	show_id(s, "sandbox", box);
	table_row(t, cells);
}

static int print_strays(struct cli *cli, bool json)
{
	json_t *j = server_get(cli, "GET", "/v1/strays", NULL), *s;
	const char *held = show_str(json_object_get(j, "state"), "held");
	struct table t;
	size_t i;

	if (json) {
		print_json(j);
	} else {
		table_init(&t, titles, ARRAY_LEN(titles));
		json_array_foreach (json_object_get(j, "strays"), i, s) {
			stray_row(&t, s);
		}
		table_print(&t);
		table_done(&t);
		if (*held)
			printf("held: %s\n", held);
	}
	json_decref(j);
	return 0;
}

static void put_word(struct buf *b, const char *key, const char *value)
{
	if (!value)
		return;
	buf_printf(b, ",\"%s\":", key);
	json_put_str(b, value, strlen(value));
}

/* Prints failures to stderr; the exit code is 1 if there are any. */
static int print_adopted(const json_t *j)
{
	const json_t *failed = json_object_get(j, "failed"), *s;
	size_t i;

	json_array_foreach (json_object_get(j, "adopted"), i, s) {
		printf("%s:%s is %s\n", show_str(s, "kind"), show_str(s, "id"),
		       show_str(s, "name"));
	}
	json_array_foreach (failed, i, s) {
		fprintf(stderr, PRODUCT ": %s\n", show_str(s, "error"));
	}
	return json_array_size(failed) > 0;
}

static int adopt(struct cli *cli, struct buf *body, bool json)
{
	json_t *j = server_get(cli, "POST", "/v1/strays/adopt", body);
	int r = json_array_size(json_object_get(j, "failed")) > 0;

	if (json)
		print_json(j);
	else
		r = print_adopted(j);
	json_decref(j);
	buf_done(body);
	return r;
}

int verb_adopt(struct cli *cli, int argc, char **argv)
{
	bool all = false, pool = false, json = false;
	const char *project = NULL, *image = NULL;
	const struct opt table[] = {
		{ "all", 'a', OPT_FLAG, &all, NULL, "adopt every stray" },
		{ "pool", 0, OPT_FLAG, &pool, NULL,
		  "accept a pool that does not fit; its contents become "
		  "strays" },
		{ "project", 0, OPT_TEXT, &project, "PROJECT",
		  "project that gets the strays (default: default)" },
		{ "image", 0, OPT_TEXT, &image, "IMAGE",
		  "image of a snapshot, where the pool does not know it" },
		{ "json", 0, OPT_FLAG, &json, NULL, "print JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	int n = cli_operands(cli, table, argc, argv);
	struct buf body = { 0 };
	char *colon = n > 0 ? strchr(argv[1], ':') : NULL;

	if (n > 2 || (n > 0 && (all || pool)) || (all && pool))
		cli_usage_error(cli, "use KIND:ID [NAME], --all or --pool");
	if (n > 0 && !colon)
		cli_usage_error(cli, "name a stray as KIND:ID, as `" PRODUCT
				     " adopt` lists them");
	if (n == 0 && !all && !pool)
		return print_strays(cli, json);
	buf_printf(&body, "{\"all\":%s", all ? "true" : "false");
	if (colon) {
		*colon = '\0';
		put_word(&body, "kind", argv[1]);
		put_word(&body, "id", colon + 1);
		put_word(&body, "name", n == 2 ? argv[2] : NULL);
	}
	put_word(&body, "project", project);
	put_word(&body, "image", image);
	buf_puts(&body, "}");
	return adopt(cli, &body, json);
}
