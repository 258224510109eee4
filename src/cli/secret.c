/*
 * carrel secret: credentials that requests of sandboxes get on their way out.
 * The value is sealed here, to the door of the project: nobody in between can
 * read it. It is read from standard input, never from the command line.
 */
#include "cli/secret.h"

#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/base64.h"
#include "base/product.h"
#include "cli/listing.h"
#include "cli/server.h"
#include "cli/show.h"
#include "vault/seal.h"
#include "vault/secret_json.h"

/* --- the value --- */

enum {
	CTRL_C = 3,
	SHORT = 8, /* what is shorter could be anything (gate/scan.h) */
};

/*
 * A line of the terminal that is not shown. Ctrl-C is a byte meanwhile, one
 * that ends the line: a signal would leave the terminal as it is.
 */
static void echo(bool on)
{
	static struct termios old;
	struct termios t;

	if (on) {
		tcsetattr(STDIN_FILENO, TCSAFLUSH, &old);
		fputc('\n', stderr);
		return;
	}
	if (tcgetattr(STDIN_FILENO, &old) < 0)
		return;
	t = old;
	t.c_lflag &= ~(tcflag_t)(ECHO | ISIG);
	t.c_cc[VEOL] = CTRL_C;
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &t);
}

static size_t read_all(struct cli *cli, char *p, size_t max)
{
	bool terminal = isatty(STDIN_FILENO);
	size_t n = 0;
	ssize_t r;

	do {
		r = read(STDIN_FILENO, p + n, max - n);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			fail(cli, "standard input: %s", strerror(errno));
		n += (size_t)r;
		if (terminal && n > 0 &&
		    (p[n - 1] == '\n' || p[n - 1] == CTRL_C))
			break;
	} while (r != 0 && n < max);
	return n;
}

void secret_read_value(struct cli *cli, const char *name, char *p, size_t *n)
{
	bool terminal = isatty(STDIN_FILENO);

	if (terminal) {
		fprintf(stderr, "value of %s: ", name);
		echo(false);
	}
	*n = read_all(cli, p, SECRET_VALUE_MAX + 1);
	if (terminal)
		echo(true);
	if (terminal && memchr(p, CTRL_C, *n))
		exit(EXIT_SIGNAL + SIGINT);
	/* The end of line is the terminal's, or echo's. */
	if (*n > 0 && p[*n - 1] == '\n')
		--*n;
	if (*n > 0 && p[*n - 1] == '\r')
		--*n;
	if (*n == 0)
		fail(cli, "the value is empty: give it on standard input");
	if (*n > SECRET_VALUE_MAX)
		fail(cli, "the value has more than %d bytes", SECRET_VALUE_MAX);
}

char *secret_memory(struct cli *cli)
{
	char *p = NULL;

	if (sodium_init() >= 0)
		p = sodium_malloc(SECRET_VALUE_MAX + 1);
	if (!p)
		fail(cli, "no memory for the value");
	return p;
}

/* --- set --- */

static void add_project(struct cli *cli, char out[TARGET_CAP],
			const char *project)
{
	char more[TARGET_CAP];

	if (!project)
		return;
	server_target(cli, more, "?project=", project);
	if (strlen(out) + strlen(more) >= TARGET_CAP)
		fail(cli, "the names are too long");
	memcpy(out + strlen(out), more, strlen(more) + 1);
}

void secret_target(struct cli *cli, char *out, const char *name,
		   const char *suffix, const char *project)
{
	server_target(cli, out, "/v1/secrets/", name);
	if (strlen(out) + strlen(suffix) >= TARGET_CAP)
		fail(cli, "the name is too long");
	memcpy(out + strlen(out), suffix, strlen(suffix) + 1);
	add_project(cli, out, project);
}

static void get_key(struct cli *cli, const char *project,
		    unsigned char key[SEAL_KEY])
{
	AUTO(buf_done) struct buf raw = { 0 };
	char target[TARGET_CAP];
	const char *text;
	json_t *j;

	snprintf(target, sizeof(target), "/v1/vault/key");
	add_project(cli, target, project);
	j = server_get(cli, "GET", target, NULL);
	text = show_str(j, "public_key");
	if (base64_get(&raw, text, strlen(text)) < 0 ||
	    buf_len(&raw) != SEAL_KEY)
		fail(cli, "the daemon has no key for this project");
	memcpy(key, buf_data(&raw), SEAL_KEY);
	json_decref(j);
}

json_t *secret_put(struct cli *cli, const struct secret *s, const char *project,
		   const char *value, size_t n)
{
	struct buf sealed = { 0 }, text = { 0 }, body = { 0 };
	unsigned char key[SEAL_KEY];
	json_t *j = secret_to_json(s), *answer;
	char target[TARGET_CAP], *dump;
	struct err e = { 0 };

	get_key(cli, project, key);
	if (secret_seal(s, key, value, n, &sealed, &e) < 0)
		fail(cli, "%s", e.msg);
	base64_add(&text, buf_data(&sealed), buf_len(&sealed));
	json_object_set_new(j, "sealed", json_string(buf_str(&text)));
	dump = json_dumps(j, JSON_COMPACT);
	buf_puts(&body, dump ? dump : "");
	free(dump);
	json_decref(j);
	secret_target(cli, target, s->name, "", project);
	answer = server_get(cli, "PUT", target, &body);
	buf_done(&sealed);
	buf_done(&text);
	buf_done(&body);
	return answer;
}

/* What the options say; each kind has one that means it. */
struct set_options {
	struct opt_list hosts;
	const char *header, *basic, *query, *aws, *region, *service;
	const char *token_url, *client_id, *scope;
	const char *methods, *path, *env, *project;
	const char *fill;
	bool oauth2, totp, text, json;
};

static void put_text(struct cli *cli, char *out, size_t cap, const char *what,
		     const char *s)
{
	if (s && str_copy(out, cap, s) < 0)
		fail(cli, "%s is too long", what);
}

static void put_methods(struct cli *cli, struct secret *s, const char *list)
{
	while (list && *list) {
		size_t n = strcspn(list, ",");
		unsigned bit = method_bit(list, n);

		if (!bit)
			fail(cli,
			     "--method: '%.*s' is not a method that rules "
			     "know",
			     (int)n, list);
		s->methods |= bit;
		list += n + (list[n] == ',');
	}
}

static void put_kind(struct cli *cli, struct secret *s,
		     const struct set_options *o)
{
	struct err e = { 0 };
	int kinds = !!o->header + !!o->basic + !!o->query + !!o->aws +
		    !!o->fill + o->oauth2 + o->totp + o->text;

	if (kinds > 1)
		cli_usage_error(cli, "takes one of --header, --basic, --query, "
				     "--aws, --oauth2, --totp, --text, --fill");
	if (o->basic) {
		s->kind = SECRET_BASIC;
		put_text(cli, s->user, sizeof(s->user), "--basic", o->basic);
	} else if (o->query) {
		s->kind = SECRET_QUERY;
		put_text(cli, s->field, sizeof(s->field), "--query", o->query);
	} else if (o->aws) {
		s->kind = SECRET_SIGV4;
		put_text(cli, s->user, sizeof(s->user), "--aws", o->aws);
	} else if (o->oauth2) {
		s->kind = SECRET_OAUTH2;
		put_text(cli, s->user, sizeof(s->user), "--client-id",
			 o->client_id);
	} else if (o->totp) {
		s->kind = SECRET_TOTP;
	} else if (o->text) {
		s->kind = SECRET_TEXT;
	} else {
		s->kind = o->fill ? SECRET_FILL : SECRET_HEADER;
		if (secret_set_header(s,
				      o->fill     ? o->fill
				      : o->header ? o->header
						  : "Authorization: Bearer {}",
				      &e) < 0)
			fail(cli, "%s", e.msg);
	}
}

static void make_secret(struct cli *cli, struct secret *s, const char *name,
			const struct set_options *o)
{
	struct err e = { 0 };
	size_t i;

	put_text(cli, s->name, sizeof(s->name), "the name", name);
	list_init(&s->node);
	put_kind(cli, s, o);
	for (i = 0; i < o->hosts.n; i++)
		if (secret_add_host(s, o->hosts.v[i], &e) < 0)
			fail(cli, "%s", e.msg);
	put_methods(cli, s, o->methods);
	put_text(cli, s->path, sizeof(s->path), "--path", o->path);
	put_text(cli, s->env, sizeof(s->env), "--env", o->env);
	put_text(cli, s->region, sizeof(s->region), "--region", o->region);
	put_text(cli, s->service, sizeof(s->service), "--service", o->service);
	put_text(cli, s->url, sizeof(s->url), "--token-url", o->token_url);
	put_text(cli, s->scope, sizeof(s->scope), "--scope", o->scope);
	if (secret_check(s, &e) < 0)
		fail(cli, "%s", e.msg);
}

static int secret_set(struct cli *cli, int argc, char **argv)
{
	struct set_options o = { 0 };
	const struct opt table[] = {
		{ "host", 0, OPT_LIST, &o.hosts, "HOST",
		  "where it may go: [http://]NAME[:PORT] or *.NAME; else "
		  "https" },
		{ "header", 0, OPT_TEXT, &o.header, "LINE",
		  "the field it fills ('Authorization: Bearer {}')" },
		{ "basic", 0, OPT_TEXT, &o.basic, "USER",
		  "the value is this user's password" },
		{ "query", 0, OPT_TEXT, &o.query, "PARAMETER",
		  "the value is a parameter of the address" },
		{ "aws", 0, OPT_TEXT, &o.aws, "KEYID",
		  "it signs requests to AWS (a second line: a session token)" },
		{ "region", 0, OPT_TEXT, &o.region, "REGION", "of AWS" },
		{ "service", 0, OPT_TEXT, &o.service, "SERVICE",
		  "of AWS, as in s3" },
		{ "oauth2", 0, OPT_FLAG, &o.oauth2, NULL,
		  "tokens are fetched; the client's secret, then a refresh "
		  "token" },
		{ "token-url", 0, OPT_TEXT, &o.token_url, "URL",
		  "where tokens are fetched" },
		{ "client-id", 0, OPT_TEXT, &o.client_id, "ID",
		  "who fetches them" },
		{ "scope", 0, OPT_TEXT, &o.scope, "WORDS",
		  "what they are for" },
		{ "totp", 0, OPT_FLAG, &o.totp, NULL,
		  "the value is the seed of one-time codes" },
		{ "text", 0, OPT_FLAG, &o.text, NULL,
		  "it goes nowhere by itself: others carry it (--fill)" },
		{ "fill", 0, OPT_TEXT, &o.fill, "LINE",
		  "as --header; the value is the name of one set with --text" },
		{ "method", 0, OPT_TEXT, &o.methods, "METHODS",
		  "only requests of these: GET,HEAD" },
		{ "path", 0, OPT_TEXT, &o.path, "PATTERN",
		  "only requests to these: /repos/acme/*" },
		{ "env", 0, OPT_TEXT, &o.env, "VARIABLE",
		  "that has the placeholder in sandboxes" },
		{ "project", 0, OPT_TEXT, &o.project, "PROJECT",
		  "whose it is (default: default)" },
		{ "json", 0, OPT_FLAG, &o.json, NULL, "print it as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	struct secret s = { 0 };
	char *value;
	size_t n;
	json_t *j;

	if (cli_operands(cli, table, argc, argv) != 1)
		cli_usage_error(cli, "what is it to be called? (the value is "
				     "read from standard input)");
	make_secret(cli, &s, argv[1], &o);
	value = secret_memory(cli);
	secret_read_value(cli, s.name, value, &n);
	if (n < SHORT && s.kind != SECRET_TOTP && s.kind != SECRET_FILL)
		complain("the value has less than %d bytes: answers that show "
			 "it cannot be masked",
			 SHORT);
	j = secret_put(cli, &s, o.project, value, n);
	sodium_free(value);
	secret_done(&s);
	if (o.json)
		print_json(j);
	json_decref(j);
	return 0;
}

/* --- look, remove, codes --- */

static void secret_row(struct table *t, const json_t *s)
{
	const json_t *hosts = json_object_get(s, "hosts");
	const char *first = json_string_value(json_array_get(hosts, 0));
	size_t n = json_array_size(hosts);
	char age[SHOW_CAP], host[SHOW_CAP];
	const char *env = show_str(s, "env");
	const char *cells[] = { show_str(s, "name"), show_str(s, "project"),
				show_str(s, "kind"), host,
				*env ? env : "-",    age };

	show_age(s, "updated_at", age);
	snprintf(host, sizeof(host), n > 1 ? "%.64s and others" : "%.80s",
		 first ? first : "-");
	table_row(t, cells);
}

static int secret_ls(struct cli *cli, int argc, char **argv)
{
	static const char *const titles[] = { "NAME",  "PROJECT",  "KIND",
					      "HOSTS", "VARIABLE", "AGE" };
	const struct listing l = { "/v1/secrets",     "secrets",  titles,
				   ARRAY_LEN(titles), secret_row, false };

	return listing_verb(cli, argc, argv, &l);
}

static const char *one_name(struct cli *cli, const struct opt *table, int argc,
			    char **argv)
{
	if (cli_operands(cli, table, argc, argv) != 1)
		cli_usage_error(cli, "which secret?");
	return argv[1];
}

static int secret_show(struct cli *cli, int argc, char **argv)
{
	const char *project = NULL, *name;
	bool json = false;
	const struct opt table[] = {
		{ "project", 0, OPT_TEXT, &project, "PROJECT", "whose it is" },
		{ "json", 0, OPT_FLAG, &json, NULL, "as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	char target[TARGET_CAP];
	json_t *j;

	name = one_name(cli, table, argc, argv);
	secret_target(cli, target, name, "", project);
	j = server_get(cli, "GET", target, NULL);
	if (json)
		print_json(j);
	else
		show_tree(j, 0);
	json_decref(j);
	return 0;
}

static int secret_rm(struct cli *cli, int argc, char **argv)
{
	const char *project = NULL;
	const struct opt table[] = {
		{ "project", 0, OPT_TEXT, &project, "PROJECT",
		  "whose they are" },
		OPT_HELP(cli),
		{ 0 },
	};
	int n = cli_operands(cli, table, argc, argv), i;
	char target[TARGET_CAP];

	if (n == 0)
		cli_usage_error(cli, "which secret?");
	for (i = 1; i <= n; i++) {
		secret_target(cli, target, argv[i], "", project);
		json_decref(server_get(cli, "DELETE", target, NULL));
	}
	return 0;
}

static int secret_code(struct cli *cli, int argc, char **argv)
{
	const char *project = NULL, *name;
	const struct opt table[] = {
		{ "project", 0, OPT_TEXT, &project, "PROJECT", "whose it is" },
		OPT_HELP(cli),
		{ 0 },
	};
	char target[TARGET_CAP], code[SHOW_CAP];
	json_t *j;

	name = one_name(cli, table, argc, argv);
	secret_target(cli, target, name, "/code", project);
	j = server_get(cli, "POST", target, NULL);
	clean_text(code, sizeof(code), show_str(j, "code"));
	puts(code);
	json_decref(j);
	return 0;
}

const struct verb secret_verbs[] = {
	{ .name = "set",
	  .fn = secret_set,
	  .args = "[OPTIONS] NAME",
	  .help = "set a secret; its value is read from standard input",
	  .notes = "A sandbox with `--secret NAME` has a placeholder; the gate "
		   "puts the value into its\n"
		   "requests to these hosts, and nowhere else. The value is "
		   "sealed before it leaves\n"
		   "this program, and nobody is shown it again.",
	  .examples = PRODUCT
	  " secret set github --host api.example.com --env GITHUB_TOKEN "
	  "< token\n" PRODUCT " run --secret github --policy research -- curl "
	  "https://api.example.com/user\n" },
	{ .name = "connect",
	  .fn = secret_connect,
	  .args = "[OPTIONS] PROVIDER",
	  .help = "make a secret of a person's consent in a browser (OAuth 2)",
	  .notes = "A file with authorize_url, token_url, hosts and, if need "
		   "be, client_id, scope and\n"
		   "parameters (KEY = VALUE) describes a provider. The door "
		   "fetches and renews the\n"
		   "tokens.",
	  .examples = PRODUCT " secret connect example --file example.conf "
			      "--client-id 4711 --env EXAMPLE_TOKEN\n" },
	{ .name = "ls",
	  .fn = secret_ls,
	  .args = "[OPTIONS]",
	  .help = "list the secrets, without their values" },
	{ .name = "show",
	  .fn = secret_show,
	  .args = "[OPTIONS] NAME",
	  .help = "show all about a secret but its value" },
	{ .name = "rm",
	  .fn = secret_rm,
	  .args = "[OPTIONS] NAME...",
	  .help = "remove secrets: from then on they leave no more" },
	{ .name = "code",
	  .fn = secret_code,
	  .args = "[OPTIONS] NAME",
	  .help = "print a one-time code of a secret that was set with "
		  "--totp" },
	{ 0 },
};
