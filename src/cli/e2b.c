/* carrel e2b: what the SDKs of E2B have to be told to use this daemon. */
#include <string.h>

#include "base/auto.h"
#include "base/product.h"
#include "cli/server.h"
#include "cli/show.h"

enum { URL_CAP = 256 };

/* Letters that no shell takes for anything else. */
static bool is_plain(const char *s)
{
	return s[strspn(s, "abcdefghijklmnopqrstuvwxyz"
			   "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:/_[]-")] ==
	       '\0';
}

/* ":7070" of an address. */
static const char *port_of(const char *address)
{
	const char *colon = strrchr(address, ':');

	return colon ? colon : "";
}

/* An address to listen on is one to connect to, unless it is all of them. */
static void own_url(struct cli *cli, const struct conf *conf, char out[URL_CAP])
{
	const char *scheme = *conf->tls_cert ? "https" : "http";

	if (!*conf->listen)
		fail(cli,
		     "the daemon does not listen on TCP: set 'listen = "
		     "127.0.0.1:7070' in %s and restart it, or say --url",
		     cli->conf_path ? cli->conf_path : DEFAULT_CONF);
	if (str_starts(conf->listen, "0.0.0.0:") ||
	    str_starts(conf->listen, "[::]:"))
		snprintf(out, URL_CAP, "%s://127.0.0.1%s", scheme,
			 port_of(conf->listen));
	else
		snprintf(out, URL_CAP, "%s://%s", scheme, conf->listen);
}

static void take_url(struct cli *cli, const struct conf *conf,
		     const char *given, char out[URL_CAP])
{
	if (!given) {
		own_url(cli, conf, out);
		return;
	}
	if ((!str_starts(given, "http://") && !str_starts(given, "https://")) ||
	    !is_plain(given) || strlen(given) >= URL_CAP)
		cli_usage_error(cli, "--url: not http://HOST or https://HOST");
	snprintf(out, URL_CAP, "%s", given);
	while (out[strlen(out) - 1] == '/')
		out[strlen(out) - 1] = '\0';
}

static json_t *make_key(struct cli *cli, const char *project)
{
	struct buf body = { 0 };
	json_t *j, *key;
	AUTO_FREE char *text = NULL;

	j = json_pack("{s:s, s:s, s:s*}", "name", "e2b", "scope", "use",
		      "project", project);
	text = json_dumps(j, JSON_COMPACT);
	json_decref(j);
	buf_puts(&body, text ? text : "{}");
	j = server_get(cli, "POST", "/v1/keys", &body);
	buf_done(&body);
	key = json_incref(json_object_get(j, "key"));
	json_decref(j);
	return key;
}

static json_t *variables(struct cli *cli, const char *given_url, bool no_key,
			 const char *project)
{
	struct conf conf;
	char url[URL_CAP], domain[URL_CAP];
	json_t *j = json_object();

	cli_conf(cli, &conf);
	take_url(cli, &conf, given_url, url);
	if (!no_key)
		json_object_set_new(j, "E2B_API_KEY", make_key(cli, project));
	json_object_set_new(j, "E2B_API_URL", json_string(url));
	json_object_set_new(j, "E2B_SANDBOX_URL", json_string(url));
	json_object_set_new(j, "E2B_VOLUME_API_URL", json_string(url));
	/* Never the service's own, which SDKs take when they are not told. */
	snprintf(domain, sizeof(domain), "%s%s",
		 *conf.domain ? conf.domain : "localhost",
		 given_url ? "" : port_of(conf.listen));
	json_object_set_new(j, "E2B_DOMAIN", json_string(domain));
	return j;
}

static int e2b_env(struct cli *cli, int argc, char **argv)
{
	const char *url = NULL, *project = NULL;
	bool json = false, no_key = false;
	const struct opt table[] = {
		{ "url", 0, OPT_TEXT, &url, "URL",
		  "where clients reach the daemon, if not where it listens" },
		{ "project", 0, OPT_TEXT, &project, "PROJECT",
		  "the project of the key (default: default)" },
		{ "no-key", 0, OPT_FLAG, &no_key, NULL,
		  "make no key: there is one" },
		{ "json", 0, OPT_FLAG, &json, NULL, "as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	const char *name;
	json_t *j, *v;

	if (cli_operands(cli, table, argc, argv) > 0)
		cli_usage_error(cli, "takes no operands");
	j = variables(cli, url, no_key, project);
	if (json)
		print_json(j);
	else
		json_object_foreach (j, name, v) {
			const char *text = json_string_value(v);

			if (!text || !is_plain(text))
				fail(cli, "%s: the answer is not one of ours",
				     name);
			printf("export %s=%s\n", name, text);
		}
	json_decref(j);
	return 0;
}

const struct verb e2b_verbs[] = {
	{ .name = "env",
	  .fn = e2b_env,
	  .args = "[OPTIONS]",
	  .help = "make a key, and print what the SDKs of E2B have to be told",
	  .notes = "The key may make sandboxes of its project, and is shown "
		   "this once: see 'key ls' and\n"
		   "'key rm'. docs/e2b.md says what is there of E2B.",
	  .examples = "eval \"$(" PRODUCT " e2b env)\"\n" PRODUCT
		      " e2b env --url https://boxes.example.com\n" },
	{ 0 },
};
