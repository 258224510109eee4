/*
 * carrel policy learn: a policy of what a sandbox did. From the log, in which
 * each request that left is written: what rules allowed, and what passed only
 * because the sandbox was observed.
 */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "cli/entries.h"
#include "cli/policy_text.h"
#include "cli/server.h"
#include "cli/show.h"
#include "policy/policy.h"

enum { PLACES_MAX = 20000 };

/* Targets of rules, each with the methods that were used ("*": any). */
struct learned {
	struct cli *cli;
	bool any_path;
	json_t *targets; /* object: target to a list of methods */
};

static const struct {
	const char *kind, *scheme;
	int port; /* that is not said */
} kinds[] = {
	{ "http", "http://", 80 },
	{ "https", "https://", 443 },
	{ "tunnel", "https://", 443 },
	{ "tcp", "", -1 },
};

/* A path as a rule says it: what cannot be written there is any run. */
static void put_path(struct buf *out, const char *path)
{
	for (; *path; path++)
		if ((unsigned char)*path <= ' ' || *path == 0x7f ||
		    strchr("?#%\\*", *path))
			buf_puts(out, "*");
		else
			buf_add(out, path, 1);
}

static void put_target(const struct learned *l, size_t kind, const json_t *data,
		       struct buf *out)
{
	const char *host = show_str(data, "host");
	const char *path = show_str(data, "path");
	json_int_t port = json_integer_value(json_object_get(data, "port"));
	size_t n;

	buf_printf(out, strchr(host, ':') ? "%s[%s]" : "%s%s",
		   kinds[kind].scheme, host);
	if (port != kinds[kind].port)
		buf_printf(out, ":%d", (int)port);
	n = buf_len(out);
	if (!l->any_path && *path)
		put_path(out, path);
	/* A longer one no rule has: its beginning, and any end. */
	if (buf_len(out) - n >= POLICY_PATH_CAP) {
		out->len = out->off + n + POLICY_PATH_CAP / 2;
		while (((unsigned char)out->p[out->len] & 0xc0) == 0x80)
			out->len--;
		buf_puts(out, "*");
	}
}

static void add_method(json_t *methods, const char *method)
{
	json_t *v;
	size_t i;

	json_array_foreach (methods, i, v) {
		if (strcmp(json_string_value(v), method) == 0)
			return;
	}
	json_array_append_new(methods, json_string(method));
}

static void take_entry(void *arg, const json_t *entry)
{
	struct learned *l = arg;
	const json_t *data = json_object_get(entry, "data");
	const char *type = show_str(entry, "type");
	const char *method = show_str(data, "method");
	AUTO(buf_done) struct buf target = { 0 };
	json_t *methods;
	size_t i;

	if (strcmp(type, "egress.request") != 0 &&
	    strcmp(type, "egress.observed") != 0)
		return;
	for (i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i].kind, show_str(data, "kind")) == 0)
			break;
	if (i == ARRAY_LEN(kinds))
		return;
	put_target(l, i, data, &target);
	methods = json_object_get(l->targets, buf_str(&target));
	if (!methods) {
		if (json_object_size(l->targets) == PLACES_MAX)
			fail(l->cli, "more than %d places: try --any-path",
			     PLACES_MAX);
		methods = json_array();
		json_object_set_new(l->targets, buf_str(&target), methods);
	}
	if (kinds[i].port < 0)
		add_method(methods, "tcp");
	else
		add_method(methods,
			   method_bit(method, strlen(method)) ? method : "*");
}

static void put_methods(const json_t *methods, struct buf *out)
{
	const json_t *v;
	size_t i;

	json_array_foreach (methods, i, v) {
		if (strcmp(json_string_value(v), "*") == 0) {
			buf_puts(out, "*");
			return;
		}
	}
	json_array_foreach (methods, i, v) {
		buf_printf(out, "%s%s", i ? "," : "", json_string_value(v));
	}
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A line for each target, in the order of hosts. */
static void put_rules(const struct learned *l, struct buf *out)
{
	size_t n = json_object_size(l->targets), i = 0;
	const char **keys = xcalloc(n + 1, sizeof(*keys));
	const char *key;
	json_t *v;

	json_object_foreach (l->targets, key, v) {
		keys[i++] = key;
	}
	qsort((void *)keys, n, sizeof(*keys), by_text);
	for (i = 0; i < n; i++) {
		buf_puts(out, "allow ");
		put_methods(json_object_get(l->targets, keys[i]), out);
		buf_printf(out, " %s\n", keys[i]);
	}
	free((void *)keys);
}

static void read_log(struct learned *l, const char *ref)
{
	const struct entries_query q = { .type = "egress.", .has_after = true };
	struct entries e = { .cli = l->cli, .take = take_entry, .arg = l };
	AUTO(buf_done) struct buf target = { 0 };
	char path[TARGET_CAP + 8];

	server_target(l->cli, path, "/v1/sandboxes/", ref);
	memcpy(path + strlen(path), "/log", sizeof("/log"));
	entries_target(&target, path, &q);
	if (!entries_read(&e, buf_str(&target)))
		fail(l->cli, "the daemon went away before its answer ended");
	entries_done(&e);
}

int policy_learn(struct cli *cli, int argc, char **argv)
{
	AUTO(policy_done) struct policy p = { 0 };
	AUTO(buf_done) struct buf text = { 0 };
	struct learned l = { .cli = cli };
	bool json = false;
	const struct opt table[] = {
		{ "any-path", 0, OPT_FLAG, &l.any_path, NULL,
		  "hosts and methods alone: every path of them" },
		{ "json", 0, OPT_FLAG, &json, NULL, "print it as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	struct err e = { 0 };

	if (cli_operands(cli, table, argc, argv) != 1)
		cli_usage_error(cli, "which sandbox?");
	l.targets = json_object();
	read_log(&l, argv[1]);
	put_rules(&l, &text);
	if (policy_parse(&p, buf_data(&text), buf_len(&text), &e) < 0)
		fail(cli, "%s%s", e.msg,
		     l.any_path ? "" : ": try --any-path, which is shorter");
	if (json) {
		json_t *j = policy_to_json(&p);

		print_json(j);
		json_decref(j);
	} else {
		fputs(buf_str(&text), stdout);
	}
	json_decref(l.targets);
	return 0;
}
