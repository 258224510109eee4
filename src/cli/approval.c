/* carrel approvals, approve, deny: requests of sandboxes that wait for us. */
#include <string.h>

#include "base/auto.h"
#include "cli/listing.h"
#include "cli/server.h"
#include "cli/show.h"

/* The reason, the budget or the rule that asks for this approval. */
static void put_why(const json_t *p, char *out, size_t cap)
{
	if (json_object_get(p, "reason"))
		snprintf(out, cap, "asked: %.180s", show_str(p, "reason"));
	else if (strcmp(show_str(p, "about"), "budget") == 0)
		snprintf(out, cap, "%.240s", show_str(p, "rule"));
	else
		snprintf(out, cap, "%s, line %d", show_str(p, "part"),
			 (int)json_integer_value(json_object_get(p, "line")));
}

static void row(struct table *t, const json_t *p)
{
	char number[SHOW_CAP], id[SHOW_CAP], age[SHOW_CAP], left[SHOW_CAP],
		rule[SHOW_CAP * 4];
	const char *name = show_str(p, "name"), *method = show_str(p, "method");
	bool whole = strcmp(show_str(p, "about"), "connection") == 0;
	const char *cells[] = { number,
				*name ? name : id,
				whole     ? "a whole connection"
				: *method ? method
					  : "-",
				show_str(p, "url"),
				rule,
				age,
				left };

	show_number(p, "number", number);
	show_id(p, "sandbox", id);
	show_age(p, "asked_at", age);
	show_until(p, "expires_at", left);
	put_why(p, rule, sizeof(rule));
	table_row(t, cells);
}

int verb_approvals(struct cli *cli, int argc, char **argv)
{
	static const char *const titles[] = { "NUMBER", "SANDBOX", "METHOD",
					      "URL",    "RULE",    "AGE",
					      "ENDS" };
	static const struct listing list = {
		.target = "/v1/approvals",
		.key = "approvals",
		.titles = titles,
		.n_titles = ARRAY_LEN(titles),
		.row = row,
		.numbered = true,
	};

	return listing_verb(cli, argc, argv, &list);
}

/* One decision; false when it was refused, and why has been said. */
static bool decide(struct cli *cli, const char *number, const struct buf *body)
{
	struct http_call call = { .method = "POST",
				  .body = buf_data(body),
				  .body_n = buf_len(body) };
	char target[TARGET_CAP], message[MESSAGE_CAP];
	struct http_client c;
	json_t *j = NULL;
	int status;

	server_target(cli, target, "/v1/approvals/", number);
	call.target = target;
	server_open(cli, &c);
	status = server_call(cli, &c, &call, &j);
	http_client_done(&c);
	if (status / 100 != 2) {
		server_message(status, j, message);
		complain("%s", message);
	}
	json_decref(j);
	return status / 100 == 2;
}

static int decide_each(struct cli *cli, const struct buf *body, int n,
		       char **numbers)
{
	int i, code = 0;

	if (n == 0)
		cli_usage_error(cli, "which request? (see 'approvals')");
	for (i = 0; i < n; i++)
		if (!decide(cli, numbers[i], body))
			code = EXIT_FAILED;
	return code;
}

int verb_approve(struct cli *cli, int argc, char **argv)
{
	const char *time = NULL;
	bool always = false;
	const struct opt table[] = {
		{ "for", 0, OPT_TEXT, &time, "TIME",
		  "and all others to this host, for so long: 1h" },
		{ "always", 0, OPT_FLAG, &always, NULL,
		  "the same for as long as the sandbox lives" },
		OPT_HELP(cli),
		{ 0 },
	};
	AUTO(buf_done) struct buf body = { 0 };
	int n = cli_operands(cli, table, argc, argv);

	if (time && always)
		cli_usage_error(cli, "--for and --always exclude each other");
	if (always)
		time = "always";
	buf_puts(&body, "{\"allow\":true");
	if (time) {
		buf_puts(&body, ",\"for\":");
		json_put_str(&body, time, strlen(time));
	}
	buf_puts(&body, "}");
	return decide_each(cli, &body, n, argv + 1);
}

int verb_deny(struct cli *cli, int argc, char **argv)
{
	const struct opt table[] = { OPT_HELP(cli), { 0 } };
	AUTO(buf_done) struct buf body = { 0 };
	int n = cli_operands(cli, table, argc, argv);

	buf_puts(&body, "{\"allow\":false}");
	return decide_each(cli, &body, n, argv + 1);
}
