/* carrel merge: takes over into one sandbox what was changed in another. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "cli/server.h"
#include "cli/show.h"

enum { NAME_BYTES = 4 * 4096 };

struct options {
	bool ours, theirs, dry_run, json;
	struct opt_list paths;
};

static char mark_of(const json_t *change)
{
	const char *word = show_str(change, "action");
	bool clash = json_is_true(json_object_get(change, "conflict"));

	if (strcmp(word, "put") == 0)
		return json_is_null(json_object_get(change, "ours")) ? 'A'
								     : 'M';
	if (strcmp(word, "remove") == 0)
		return 'D';
	return clash ? 'C' : '=';
}

static void print_changes(const json_t *list)
{
	char name[NAME_BYTES];
	json_t *v;
	size_t i;

	json_array_foreach (list, i, v) {
		clean_text(name, sizeof(name), show_str(v, "path"));
		printf("%c %s\n", mark_of(v), name);
	}
}

static void print_counts(const struct options *o, const json_t *j)
{
	const char *does = o->dry_run ? "would be " : "";

	printf("%lld %staken over, %lld %sremoved",
	       json_integer_value(json_object_get(j, "put")), does,
	       json_integer_value(json_object_get(j, "removed")), does);
	if (json_integer_value(json_object_get(j, "same")) > 0)
		printf(", %lld the same on both sides",
		       json_integer_value(json_object_get(j, "same")));
	if (json_integer_value(json_object_get(j, "conflicts")) > 0)
		printf(", %lld conflicts",
		       json_integer_value(json_object_get(j, "conflicts")));
	if (!o->dry_run)
		printf("; it stood still for %lld ms",
		       json_integer_value(json_object_get(j, "pause_ms")));
	putchar('\n');
}

static void print_notes(const json_t *list)
{
	char text[NAME_BYTES];
	json_t *v;
	size_t i;

	json_array_foreach (list, i, v) {
		clean_text(text, sizeof(text), json_string_value(v));
		complain("%s", text);
	}
}

static int show(const struct options *o, int status, const json_t *j)
{
	bool left = status == 200 && !o->ours && !o->theirs &&
		    json_integer_value(json_object_get(j, "conflicts")) > 0;
	char message[MESSAGE_CAP];

	if (status / 100 != 2) {
		if (o->json && j)
			print_json(j);
		else
			print_changes(json_object_get(j, "conflicts"));
		server_message(status, j, message);
		complain("%s", message);
		return EXIT_FAILED;
	}
	if (o->json) {
		print_json(j);
	} else {
		print_changes(json_object_get(j, "changes"));
		if (json_is_true(json_object_get(j, "truncated")))
			puts("...");
		print_notes(json_object_get(j, "notes"));
		print_counts(o, j);
	}
	return left ? EXIT_FAILED : 0;
}

static char *make_body(const struct options *o, const char *from)
{
	json_t *paths = json_array(), *body;
	char *text;
	size_t i;

	for (i = 0; i < o->paths.n; i++)
		json_array_append_new(paths, json_string(o->paths.v[i]));
	body = json_pack("{s:s, s:o, s:b}", "from", from, "paths", paths,
			 "dry_run", o->dry_run);
	if (o->ours || o->theirs)
		json_object_set_new(body, "prefer",
				    json_string(o->ours ? "ours" : "theirs"));
	text = json_dumps(body, JSON_COMPACT);
	json_decref(body);
	return text;
}

int verb_merge(struct cli *cli, int argc, char **argv)
{
	struct options o = { 0 };
	const struct opt table[] = {
		{ "path", 'p', OPT_LIST, &o.paths, "PATH",
		  "only this and what is below; may be repeated" },
		{ "ours", 0, OPT_FLAG, &o.ours, NULL,
		  "where both sides changed something, INTO stays as it is" },
		{ "theirs", 0, OPT_FLAG, &o.theirs, NULL,
		  "... FROM is taken over" },
		{ "dry-run", 'n', OPT_FLAG, &o.dry_run, NULL,
		  "only say what would be done" },
		{ "json", 0, OPT_FLAG, &o.json, NULL, "as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	int n = cli_operands(cli, table, argc, argv), status;
	AUTO(buf_done) struct buf path = { 0 };
	struct http_call call = { .method = "POST" };
	char target[TARGET_CAP];
	AUTO_FREE char *body = NULL;
	struct http_client c;
	json_t *j = NULL;

	if (n != 2)
		cli_usage_error(cli, "from which sandbox or snapshot, into "
				     "which sandbox?");
	if (o.ours && o.theirs)
		cli_usage_error(cli, "--ours or --theirs, not both");
	body = make_body(&o, argv[1]);
	if (!body)
		cli_usage_error(cli, "a path or name is not UTF-8");
	server_target(cli, target, "/v1/sandboxes/", argv[2]);
	buf_printf(&path, "%s/merge", target);
	call.target = buf_str(&path);
	call.body = body;
	call.body_n = strlen(body);
	server_open(cli, &c);
	status = server_call(cli, &c, &call, &j);
	http_client_done(&c);
	n = show(&o, status, j);
	json_decref(j);
	return n;
}
