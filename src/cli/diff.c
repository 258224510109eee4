/*
 * carrel diff: how one state of a disk differs from another, as names or as
 * differences of texts. The daemon says what differs; the texts are compared
 * here. Exits as diff(1) does.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/base64.h"
#include "cli/lines.h"
#include "cli/server.h"
#include "cli/show.h"
#include "http/target.h"

enum {
	EXIT_DIFFERENT = 1,
	EXIT_TROUBLE = 2,
	LINE_BYTES_MAX = 32 * 1024 * 1024, /* of an answer's line */
	NAME_BYTES = 4 * 4096,
};

struct diff {
	struct cli *cli;
	bool json, content;
	bool tty, colours;
	bool different, done;
	struct buf rest;
};

/* --- differences of texts --- */

/* One line that a sandbox wrote. */
static void put_line(const struct diff *d, char *line)
{
	const char *colour = *line == '+' ? "32" : *line == '-' ? "31" : "36";
	bool coloured = d->colours && *line != ' ' && *line != '\\';
	size_t cap = strlen(line) + 1;
	AUTO_FREE char *clean = NULL;
	char *tab;

	if (!d->tty) {
		puts(line);
		return;
	}
	for (tab = line; (tab = strchr(tab, '\t'));)
		*tab = ' ';
	clean = xcalloc(1, cap);
	clean_text(clean, cap, line);
	if (coloured)
		printf("\033[%sm%s\033[0m\n", colour, clean);
	else
		puts(clean);
}

static void put_lines(const struct diff *d, char *text)
{
	while (*text) {
		char *nl = strchr(text, '\n');

		if (nl)
			*nl = '\0';
		put_line(d, text);
		text = nl ? nl + 1 : text + strlen(text);
	}
}

/* Text of one side; "" when it has none. False: there is some, not shown. */
static bool side_text(const json_t *side, const char **p, size_t *n)
{
	const json_t *content = json_object_get(side, "content");

	*p = "";
	*n = 0;
	if (!json_is_object(side) ||
	    strcmp(show_str(side, "type"), "file") != 0)
		return true;
	if (!json_is_string(content))
		return false;
	*p = json_string_value(content);
	*n = json_string_length(content);
	return memchr(*p, '\0', *n) == NULL;
}

static bool is_file(const json_t *side)
{
	return strcmp(show_str(side, "type"), "file") == 0;
}

/* False: there is nothing but the name to show. */
static bool put_content(const struct diff *d, const json_t *j, const char *name)
{
	const json_t *before = json_object_get(j, "before");
	const json_t *after = json_object_get(j, "after");
	AUTO(buf_done) struct buf hunks = { 0 };
	const char *a, *b;
	size_t a_n, b_n;

	if (!is_file(before) && !is_file(after))
		return false;
	if (!side_text(before, &a, &a_n) || !side_text(after, &b, &b_n))
		return false;
	lines_diff(&hunks, a, a_n, b, b_n);
	if (buf_len(&hunks) == 0)
		return false;
	printf("--- %s%s\n+++ %s%s\n", is_file(before) ? "a" : "/dev/null",
	       is_file(before) ? name : "", is_file(after) ? "b" : "/dev/null",
	       is_file(after) ? name : "");
	put_lines(d, buf_str(&hunks));
	return true;
}

/* --- what the daemon says --- */

static bool has_word(const json_t *list, const char *word)
{
	json_t *v;
	size_t i;

	json_array_foreach (list, i, v)
		if (json_is_string(v) &&
		    strcmp(json_string_value(v), word) == 0)
			return true;
	return false;
}

/* " (mode 0644 -> 0755)" and the like, when that is all. */
static void put_facts(const json_t *j)
{
	const json_t *what = json_object_get(j, "what");
	const json_t *before = json_object_get(j, "before");
	const json_t *after = json_object_get(j, "after");
	char a[SHOW_CAP], b[SHOW_CAP];

	if (has_word(what, "type") || has_word(what, "content"))
		return;
	if (has_word(what, "mode")) {
		clean_text(a, sizeof(a), show_str(before, "mode"));
		clean_text(b, sizeof(b), show_str(after, "mode"));
		printf("  (mode %s -> %s)", a, b);
	}
	if (has_word(what, "owner"))
		printf("  (owner %lld:%lld -> %lld:%lld)",
		       json_integer_value(json_object_get(before, "uid")),
		       json_integer_value(json_object_get(before, "gid")),
		       json_integer_value(json_object_get(after, "uid")),
		       json_integer_value(json_object_get(after, "gid")));
	if (has_word(what, "attributes"))
		printf("  (attributes)");
}

static void put_change(const struct diff *d, const json_t *j)
{
	const char *word = show_str(j, "change");
	char mark = strcmp(word, "added") == 0     ? 'A'
		    : strcmp(word, "removed") == 0 ? 'D'
						   : 'M';
	char name[NAME_BYTES];

	clean_text(name, sizeof(name), show_str(j, "path"));
	if (d->content && put_content(d, j, name))
		return;
	printf("%c %s", mark, name);
	put_facts(j);
	putchar('\n');
}

static void take_line(struct diff *d, const char *line)
{
	json_t *j = json_loads(line, JSON_ALLOW_NUL, NULL);
	const char *type = show_str(j, "type");

	if (strcmp(type, "change") == 0) {
		d->different = true;
		if (!d->json)
			put_change(d, j);
	} else if (strcmp(type, "error") == 0) {
		fail(d->cli, "%s", show_str(j, "message"));
	} else if (strcmp(type, "done") == 0) {
		d->done = true;
	}
	if (d->json && strcmp(type, "ping") != 0)
		puts(line);
	json_decref(j);
}

static int on_piece(const char *p, size_t n, void *ctx, struct err *e)
{
	struct diff *d = ctx;
	char *nl;

	buf_add(&d->rest, p, n);
	while ((nl = memchr(buf_data(&d->rest), '\n', buf_len(&d->rest)))) {
		char *line = buf_data(&d->rest);

		*nl = '\0';
		take_line(d, line);
		buf_eat(&d->rest, (size_t)(nl - line) + 1);
	}
	if (buf_len(&d->rest) > LINE_BYTES_MAX)
		return err_set(e, EBADMSG, "the daemon sent too long a line");
	if (ferror(stdout))
		return err_set(e, EIO, "standard output cannot be written to");
	return 0;
}

static int ask(struct diff *d, const char *target)
{
	const struct http_call call = { .method = "GET", .target = target };
	char message[MESSAGE_CAP];
	struct http_client c;
	struct err e = { 0 };
	json_t *j = NULL;
	int r;

	server_open(d->cli, &c);
	if (http_send(&c, &call, &e) < 0 || http_recv_head(&c, &e) < 0)
		fail(d->cli, "%s", e.msg);
	if (c.head.status != 200) {
		int status = server_answer(d->cli, &c, &j);

		server_message(status, j, message);
		fail(d->cli, "%s", message);
	}
	r = http_recv_stream(&c, on_piece, d, &e);
	http_client_done(&c);
	buf_done(&d->rest);
	if (r < 0)
		fail(d->cli, "%s", e.msg);
	if (!d->done)
		fail(d->cli, "the answer was cut off");
	return d->different ? EXIT_DIFFERENT : 0;
}

static void add_query(struct buf *target, const char *name, const char *value)
{
	buf_printf(target, "%c%s=", strchr(buf_str(target), '?') ? '&' : '?',
		   name);
	http_encode(target, value);
}

int verb_diff(struct cli *cli, int argc, char **argv)
{
	struct diff d = { .cli = cli };
	const struct opt table[] = {
		{ "content", 'c', OPT_FLAG, &d.content, NULL,
		  "show what changed in texts of up to 1 MiB" },
		{ "json", 0, OPT_FLAG, &d.json, NULL,
		  "one JSON object per line" },
		OPT_HELP(cli),
		{ 0 },
	};
	AUTO(buf_done) struct buf target = { 0 };
	int n = cli_operands(cli, table, argc, argv), i, refs;

	cli->fail_code = EXIT_TROUBLE;
	if (n == 0 || argv[1][0] == '/')
		cli_usage_error(cli, "which sandbox, snapshot or image?");
	refs = n > 1 && argv[2][0] != '/' ? 2 : 1;
	d.tty = isatty(STDOUT_FILENO);
	d.colours = colours_on(STDOUT_FILENO);
	buf_puts(&target, "/v1/diff");
	if (refs == 2)
		add_query(&target, "from", argv[1]);
	add_query(&target, "to", argv[refs]);
	if (d.content)
		add_query(&target, "content", "true");
	for (i = refs + 1; i <= n; i++)
		add_query(&target, "path", argv[i]);
	return ask(&d, buf_str(&target));
}
