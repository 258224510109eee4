/* carrel create: a sandbox that lives until it is removed or its time is up. */
#include <string.h>

#include "base/auto.h"
#include "cli/server.h"
#include "cli/spec_opts.h"

/* One more member at the end of an object. */
static void add_word(struct buf *body, const char *key, const char *value)
{
	AUTO(buf_done) struct buf old = *body;
	size_t n = buf_len(&old) - 1;

	*body = (struct buf){ 0 };
	buf_add(body, buf_data(&old), n);
	buf_puts(body, n > 1 ? "," : "");
	json_put_str(body, key, strlen(key));
	buf_puts(body, ":");
	json_put_str(body, value, strlen(value));
	buf_puts(body, "}");
}

int verb_create(struct cli *cli, int argc, char **argv)
{
	static struct spec_opts s;
	static struct opt_list env;
	const char *snapshot = NULL;
	bool json = false;
	const struct opt more[] = {
		{ "snapshot", 0, OPT_TEXT, &snapshot, "SNAPSHOT",
		  "start from a snapshot, with the spec of its sandbox" },
		{ "env", 'e', OPT_LIST, &env, "K[=V]",
		  "set a variable for every command inside" },
		{ "json", 0, OPT_FLAG, &json, NULL,
		  "print the whole sandbox, not only its id" },
		OPT_HELP(cli),
		{ 0 },
	};
	struct opt table[SPEC_OPTS_MAX + ARRAY_LEN(more)];
	struct buf body = { 0 };
	char id[64];
	json_t *j;

	memcpy(table + spec_opts_rows(&s, table, ROWS_CREATE), more,
	       sizeof(more));
	if (cli_operands(cli, table, argc, argv) > 0)
		cli_usage_error(cli, "takes no operands (a name: --name NAME, "
				     "an image: --image IMAGE)");
	env_complete(cli, &env);
	spec_opts_body(cli, &s, &env, &body);
	if (snapshot)
		add_word(&body, "snapshot", snapshot);
	j = server_get(cli, "POST", "/v1/sandboxes", &body);
	buf_done(&body);
	if (json) {
		print_json(j);
	} else {
		const char *v = json_string_value(json_object_get(j, "id"));

		clean_text(id, sizeof(id), v ? v : "");
		puts(id);
	}
	json_decref(j);
	return 0;
}
