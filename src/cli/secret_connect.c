/*
 * carrel secret connect: a person's consent becomes a secret (OAuth 2,
 * authorization code with PKCE, RFC 7636, over a loopback address, RFC 8252).
 * The code is sealed like any value; the door exchanges it for tokens, which
 * this program never sees.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/product.h"
#include "cli/secret.h"
#include "cli/server.h"
#include "cli/show.h"
#include "http/target.h"
#include "vault/seal.h"
#include "vault/secret_json.h"

enum {
	FILE_MAX = 16 * 1024,
	WAIT_MS = 10 * 60 * 1000,
	ONE_MS = 5000, /* for a browser's request */
	RANDOM_BYTES = 32,
	WORD_CAP = 64, /* of so many, in base64 */
};

/* --- providers --- */

struct provider {
	char authorize_url[SECRET_TEXT_CAP], token_url[SECRET_TEXT_CAP];
	char client_id[SECRET_TEXT_CAP], scope[SECRET_TEXT_CAP];
	char hosts[SECRET_TEXT_CAP], more[SECRET_TEXT_CAP];
};

static const struct {
	const char *key;
	size_t at;
} keys[] = {
	{ "authorize_url", offsetof(struct provider, authorize_url) },
	{ "token_url", offsetof(struct provider, token_url) },
	{ "client_id", offsetof(struct provider, client_id) },
	{ "scope", offsetof(struct provider, scope) },
	{ "hosts", offsetof(struct provider, hosts) },
	{ "parameters", offsetof(struct provider, more) },
};

static void take_line(struct cli *cli, struct provider *p, char *line,
		      const char *path, unsigned number)
{
	char *value = strchr(line, '='), *end;
	size_t i, n;

	line += strspn(line, " \t");
	if (*line == '\0' || *line == '#')
		return;
	if (!value)
		fail(cli, "%s: line %u: not KEY = VALUE", path, number);
	n = (size_t)(value - line);
	while (n > 0 && strchr(" \t", line[n - 1]))
		n--;
	value++;
	value += strspn(value, " \t");
	for (end = value + strlen(value); end > value; *--end = '\0')
		if (!strchr(" \t\r", end[-1]))
			break;
	for (i = 0; i < ARRAY_LEN(keys); i++)
		if (strlen(keys[i].key) == n &&
		    memcmp(keys[i].key, line, n) == 0)
			break;
	if (i == ARRAY_LEN(keys) ||
	    str_copy((char *)p + keys[i].at, SECRET_TEXT_CAP, value) < 0)
		fail(cli, "%s: line %u: no such key, or too long", path,
		     number);
}

static void read_provider(struct cli *cli, struct provider *p, const char *path)
{
	AUTO(buf_done) struct buf text = { 0 };
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	unsigned number = 0;
	char *line, *next;
	ssize_t n;

	if (fd < 0)
		fail(cli, "%s: %s", path, strerror(errno));
	do {
		n = buf_read(&text, fd, FILE_MAX);
		if (n < 0 || buf_len(&text) > FILE_MAX)
			fail(cli, "%s: %s", path,
			     n < 0 ? strerror((int)-n) : "too long");
	} while (n > 0);
	for (line = buf_str(&text); line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		take_line(cli, p, line, path, ++number);
	}
	if (!str_starts(p->authorize_url, "https://") || !*p->token_url ||
	    !*p->hosts)
		fail(cli, "%s: needs authorize_url (https), token_url, hosts",
		     path);
}

/* Providers that came with us are beside the presets. */
static void provider_path(struct cli *cli, const char *name, char *out,
			  size_t cap)
{
	struct conf c;
	char *end;

	if (!name_valid(name))
		fail(cli, "'%.64s' is not the name of a provider", name);
	cli_conf(cli, &c);
	end = strrchr(c.presets_dir, '/');
	if (end)
		*end = '\0';
	snprintf(out, cap, "%s/providers/%s.conf", c.presets_dir, name);
	if (access(out, R_OK) < 0)
		fail(cli,
		     "no provider '%s' (%s): describe it in a file, and "
		     "say --file FILE",
		     name, out);
}

/* --- consent --- */

struct consent {
	char state[WORD_CAP], verifier[WORD_CAP], challenge[WORD_CAP];
	char redirect[64];
	int listen_fd;
};

static void word(const unsigned char *p, char out[WORD_CAP])
{
	sodium_bin2base64(out, WORD_CAP, p, RANDOM_BYTES,
			  sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

static void random_word(char out[WORD_CAP])
{
	unsigned char raw[RANDOM_BYTES];

	randombytes_buf(raw, sizeof(raw));
	word(raw, out);
	sodium_memzero(raw, sizeof(raw));
}

static void consent_init(struct cli *cli, struct consent *c, uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t n = sizeof(a);
	unsigned char hash[crypto_hash_sha256_BYTES];

	if (sodium_init() < 0)
		fail(cli, "no cryptography on this host");
	random_word(c->state);
	random_word(c->verifier);
	crypto_hash_sha256(hash, (unsigned char *)c->verifier,
			   strlen(c->verifier));
	word(hash, c->challenge);
	c->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->listen_fd < 0 ||
	    bind(c->listen_fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    listen(c->listen_fd, 8) < 0 ||
	    getsockname(c->listen_fd, (struct sockaddr *)&a, &n) < 0)
		fail(cli, "listen on 127.0.0.1: %s", strerror(errno));
	snprintf(c->redirect, sizeof(c->redirect),
		 "http://127.0.0.1:%u/callback", ntohs(a.sin_port));
}

static void put(struct buf *b, const char *name, const char *value)
{
	if (*value == '\0')
		return;
	buf_printf(b, "&%s=", name);
	http_encode(b, value);
}

static void say_address(const struct provider *p, const struct consent *c)
{
	AUTO(buf_done) struct buf b = { 0 };

	buf_printf(&b, "%s%sresponse_type=code", p->authorize_url,
		   strchr(p->authorize_url, '?') ? "&" : "?");
	put(&b, "client_id", p->client_id);
	put(&b, "redirect_uri", c->redirect);
	put(&b, "scope", p->scope);
	put(&b, "state", c->state);
	put(&b, "code_challenge", c->challenge);
	buf_puts(&b, "&code_challenge_method=S256");
	if (*p->more)
		buf_printf(&b, "&%s", p->more);
	fprintf(stderr,
		"Open this address in a browser on this machine:\n\n"
		"%s\n\n",
		buf_str(&b));
}

/* A head, in a few seconds; 0 when there is none. */
static int read_head(int fd, struct http_head *h)
{
	AUTO(buf_done) struct buf in = { 0 };
	struct http_scan scan = { 0 };
	struct pollfd p = { .fd = fd, .events = POLLIN };
	const char *why;
	int n = 0;

	while (n == 0 && poll(&p, 1, ONE_MS) > 0 &&
	       buf_read(&in, fd, HTTP_HEAD_MAX) > 0)
		n = http_scan_head(&scan, buf_data(&in), buf_len(&in), &why);
	return n > 0 &&
	       http_parse_request(h, buf_data(&in), (size_t)n, &why) == 0;
}

static void answer(int fd, int status, const char *text)
{
	AUTO(buf_done) struct buf b = { 0 };

	buf_printf(&b,
		   "HTTP/1.1 %d Answer\r\nContent-Type: text/plain\r\n"
		   "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
		   status, strlen(text), text);
	(void)send(fd, buf_data(&b), buf_len(&b), MSG_NOSIGNAL);
}

/* True: it is over; `why` is "" when there is a code. */
static bool take_callback(const struct http_head *h, const struct consent *c,
			  char *code, size_t cap, char why[SHOW_CAP])
{
	char state[WORD_CAP + 1] = "", error[SHOW_CAP] = "";

	if (strcmp(h->method, "GET") != 0 || strcmp(h->path, "/callback") != 0)
		return false;
	/* What did not come from our own question is not looked at. */
	if (http_query(h, "state", state, sizeof(state)) != 1 ||
	    strlen(state) != strlen(c->state) ||
	    sodium_memcmp(state, c->state, strlen(state)) != 0)
		return false;
	if (http_query(h, "error", error, sizeof(error)) != 0)
		clean_text(why, SHOW_CAP, *error ? error : "an error");
	else if (http_query(h, "code", code, cap) != 1 || !*code)
		snprintf(why, SHOW_CAP, "it gave no code");
	else
		*why = '\0';
	return true;
}

static void wait_for_code(struct cli *cli, const struct consent *c, char *code,
			  size_t cap)
{
	struct pollfd p = { .fd = c->listen_fd, .events = POLLIN };
	uint64_t end = clock_boot_ms() + WAIT_MS, now;
	char why[SHOW_CAP];

	while ((now = clock_boot_ms()) < end) {
		struct http_head h = { 0 };
		AUTO_CLOSE int fd = -1;
		bool over;

		if (poll(&p, 1, (int)(end - now)) <= 0)
			continue;
		fd = accept4(c->listen_fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0 || !read_head(fd, &h))
			continue;
		over = take_callback(&h, c, code, cap, why);
		http_head_done(&h);
		if (!over) {
			answer(fd, 404, "Nothing here.\n");
			continue;
		}
		answer(fd, *why ? 400 : 200,
		       *why ? "It was refused.\n"
			    : "You can close this window.\n");
		if (*why)
			fail(cli, "the provider says: %s", why);
		return;
	}
	fail(cli, "nobody gave consent within 10 minutes");
}

/* --- the verb --- */

static void make_secret(struct cli *cli, struct secret *s, const char *name,
			const struct provider *p, const char *env)
{
	AUTO_FREE char *hosts = xstrdup(p->hosts);
	struct err e = { 0 };
	char *host, *at = hosts;

	list_init(&s->node);
	s->kind = SECRET_OAUTH2;
	if (str_copy(s->name, sizeof(s->name), name) < 0 ||
	    (env && str_copy(s->env, sizeof(s->env), env) < 0))
		fail(cli, "a name is too long");
	memcpy(s->url, p->token_url, sizeof(s->url));
	memcpy(s->user, p->client_id, sizeof(s->user));
	memcpy(s->scope, p->scope, sizeof(s->scope));
	while ((host = strsep(&at, ", ")))
		if (*host && secret_add_host(s, host, &e) < 0)
			fail(cli, "%s", e.msg);
	if (secret_check(s, &e) < 0)
		fail(cli, "%s", e.msg);
}

/* The lines of gate/oauth.h: no refresh token yet, but what it is for. */
static size_t make_value(struct cli *cli, char *value, size_t n,
			 const struct consent *c, const char *code)
{
	int more = snprintf(value + n, SECRET_VALUE_MAX - n, "\n\n%s\n%s\n%s",
			    code, c->verifier, c->redirect);

	if (more < 0 || (size_t)more >= SECRET_VALUE_MAX - n)
		fail(cli, "the code is too long");
	return n + (size_t)more;
}

static void check_connected(struct cli *cli, const struct secret *s,
			    const char *project)
{
	char target[TARGET_CAP];

	secret_target(cli, target, s->name, "/code", project);
	json_decref(server_get(cli, "POST", target, NULL));
	printf("%s is connected\n", s->name);
}

int secret_connect(struct cli *cli, int argc, char **argv)
{
	const char *file = NULL, *name = NULL, *id = NULL, *scope = NULL;
	const char *env = NULL, *project = NULL;
	uint64_t port = 0;
	bool with_secret = false;
	const struct opt table[] = {
		{ "file", 0, OPT_TEXT, &file, "FILE",
		  "that describes the provider" },
		{ "name", 0, OPT_TEXT, &name, "NAME",
		  "of the secret (the provider's)" },
		{ "client-id", 0, OPT_TEXT, &id, "ID",
		  "of the application that asks for consent" },
		{ "client-secret", 0, OPT_FLAG, &with_secret, NULL,
		  "it has a secret, which is read from standard input" },
		{ "scope", 0, OPT_TEXT, &scope, "WORDS",
		  "what consent is asked for" },
		{ "port", 0, OPT_NUMBER, &port, "PORT",
		  "of 127.0.0.1 that the browser comes back to (any)" },
		{ "env", 0, OPT_TEXT, &env, "VARIABLE",
		  "that has the placeholder in sandboxes" },
		{ "project", 0, OPT_TEXT, &project, "PROJECT",
		  "whose it is (default: default)" },
		OPT_HELP(cli),
		{ 0 },
	};
	struct provider p = { 0 };
	struct consent c = { 0 };
	struct secret s = { 0 };
	char path[CONF_PATH + NAME_CAP + 32], code[2048];
	size_t n = 0;
	char *value;

	if (cli_operands(cli, table, argc, argv) != 1)
		cli_usage_error(cli, "to which provider?");
	if (!file)
		provider_path(cli, argv[1], path, sizeof(path));
	read_provider(cli, &p, file ? file : path);
	if ((id && str_copy(p.client_id, sizeof(p.client_id), id) < 0) ||
	    (scope && str_copy(p.scope, sizeof(p.scope), scope) < 0) ||
	    port > UINT16_MAX)
		cli_usage_error(cli, "an option is too long or too large");
	make_secret(cli, &s, name ? name : argv[1], &p, env);
	value = secret_memory(cli);
	if (with_secret)
		secret_read_value(cli, "the client's secret", value, &n);
	consent_init(cli, &c, (uint16_t)port);
	say_address(&p, &c);
	wait_for_code(cli, &c, code, sizeof(code));
	close(c.listen_fd);
	n = make_value(cli, value, n, &c, code);
	json_decref(secret_put(cli, &s, project, value, n));
	sodium_free(value);
	sodium_memzero(&c, sizeof(c));
	check_connected(cli, &s, project);
	secret_done(&s);
	return 0;
}
