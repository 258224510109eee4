/*
 * carrel doctor: what this host offers, what is missing, what to do about it.
 *
 * The checks are rows of tables (doctor_host.c, doctor_hardening.c) and need
 * no daemon; what the daemon itself found out follows when it runs. A failed
 * requirement makes the exit code 1, because without it every create is
 * refused; warnings are advice.
 */
#include "cli/doctor.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/server.h"
#include "cli/show.h"

static const struct {
	const char *word, *shown, *colour;
} levels[] = {
	[LEVEL_OK] = { "ok", "ok", "\033[32m" },
	[LEVEL_WARNING] = { "warning", "warning", "\033[33m" },
	[LEVEL_FAIL] = { "fail", "FAIL", "\033[31m" },
};
static_assert(ARRAY_LEN(levels) == LEVELS, "a word for each level");

struct doctor {
	bool json, colours;
	json_t *list;
	size_t count[LEVELS];
	bool no_daemon;
	const char *group; /* of the last line */
};

static void print_finding(struct doctor *d, const struct check *k,
			  const struct finding *f)
{
	bool c = d->colours;
	char is[sizeof(f->is)];

	if (!d->group || strcmp(d->group, k->group) != 0)
		printf("%s%s%s%s\n", d->group ? "\n" : "", c ? "\033[1m" : "",
		       k->group, c ? "\033[0m" : "");
	d->group = k->group;
	clean_text(is, sizeof(is), f->is);
	printf("  %s%-8s%s %-18s %s\n", c ? levels[f->level].colour : "",
	       levels[f->level].shown, c ? "\033[0m" : "", k->name, is);
	if (f->level == LEVEL_OK)
		return;
	printf("  %27s why: %s\n", "", k->means);
	if (*f->remedy)
		printf("  %27s do:  %s\n", "", f->remedy);
}

static void report(struct doctor *d, const struct check *k,
		   const struct finding *f)
{
	d->count[f->level]++;
	if (!d->json) {
		print_finding(d, k, f);
		return;
	}
	json_array_append_new(d->list,
			      json_pack("{s:s, s:s, s:s, s:s, s:s, s:s?}",
					"group", k->group, "name", k->name,
					"level", levels[f->level].word, "found",
					f->is, "means", k->means, "remedy",
					*f->remedy ? f->remedy : NULL));
}

static void run_checks(struct doctor *d, const struct check *table,
		       const struct conf *c)
{
	for (; table->name; table++) {
		struct finding f = { 0 };

		table->fn(c, &f);
		report(d, table, &f);
	}
}

/* GET /v1/host: the answer, or NULL and a finding that says why not. */
static json_t *ask_daemon(struct cli *cli, struct finding *f)
{
	struct http_call call = { .method = "GET", .target = "/v1/host" };
	struct http_client c;
	char why[MESSAGE_CAP], *remedy;
	json_t *host = NULL;
	int status;

	if (!server_try(cli, &c, why)) {
		remedy = strstr(why, "; start it with: ");
		if (remedy)
			*remedy = '\0';
		lacks(f, LEVEL_WARNING, remedy ? remedy + 2 : "", "%.300s",
		      why);
		return NULL;
	}
	status = server_call(cli, &c, &call, &host);
	http_client_done(&c);
	if (status == 200)
		return host;
	server_message(status, host, why);
	lacks(f, LEVEL_FAIL, "look at its log", "%.300s", why);
	json_decref(host);
	return NULL;
}

static json_t *check_daemon(struct cli *cli, struct doctor *d)
{
	const struct daemon_check *k = daemon_checks;
	struct finding f = { 0 };
	json_t *host = ask_daemon(cli, &f);

	d->no_daemon = !host;
	if (!host)
		report(d, &k->row, &f);
	for (; host && k->fn; k++) {
		f = (struct finding){ 0 };
		k->fn(host, &f);
		report(d, &k->row, &f);
	}
	return host;
}

static void print_summary(const struct doctor *d)
{
	printf("\n%zu ok, %zu warnings, %zu failed\n", d->count[LEVEL_OK],
	       d->count[LEVEL_WARNING], d->count[LEVEL_FAIL]);
	if (d->count[LEVEL_FAIL] > 0)
		puts("this host cannot run sandboxes until every FAIL is "
		     "fixed");
	else if (d->no_daemon)
		puts("this host can run sandboxes once the daemon runs");
	else
		puts("this host can run sandboxes");
}

/* Another instance's socket: its roles leave their errors beside it. */
static void use_socket_dir(const struct cli *cli, struct conf *c)
{
	const char *slash = cli->socket ? strrchr(cli->socket, '/') : NULL;

	if (slash)
		snprintf(c->run_dir, sizeof(c->run_dir), "%.*s",
			 (int)(slash - cli->socket), cli->socket);
}

int verb_doctor(struct cli *cli, int argc, char **argv)
{
	struct doctor d = { .colours = colours_on(STDOUT_FILENO) };
	const struct opt table[] = {
		{ "json", 0, OPT_FLAG, &d.json, NULL, "as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	struct conf c;
	json_t *host, *all;
	bool well;

	if (cli_operands(cli, table, argc, argv) > 0)
		cli_usage_error(cli, "takes no operands");
	cli_conf(cli, &c);
	d.list = json_array();
	run_checks(&d, host_checks, &c);
	run_checks(&d, hardening_checks, &c);
	use_socket_dir(cli, &c);
	run_checks(&d, role_checks, &c);
	host = check_daemon(cli, &d);
	well = d.count[LEVEL_FAIL] == 0;
	if (d.json) {
		all = json_pack("{s:b, s:O, s:O?}", "ok", well, "checks",
				d.list, "host", host);
		print_json(all);
		json_decref(all);
	} else {
		print_summary(&d);
	}
	json_decref(host);
	json_decref(d.list);
	return well ? 0 : EXIT_FAILED;
}
