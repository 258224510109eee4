/* Whom to ask, and names that need no asking: the files of libc, as far as a
 * door follows them. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gate/dial.h"
#include "gate/resolve.h"

enum { DNS_PORT = 53, HOSTS_MAX = 512, WORD_CAP = 256, LINE_CAP = 1024 };

/* The next word of a line, cut at `seps`; false at its end. A word that does
 * not fit is "". */
static bool next_word(const char **at, const char *seps, char out[WORD_CAP])
{
	size_t n;

	*at += strspn(*at, seps);
	n = strcspn(*at, seps);
	if (n == 0)
		return false;
	out[0] = '\0';
	if (n < WORD_CAP) {
		memcpy(out, *at, n);
		out[n] = '\0';
	}
	*at += n;
	return true;
}

/* The next line without its comment ("" when it is too long); false at the end
 * of the text. */
static bool next_line(const char **at, char out[LINE_CAP])
{
	size_t n = strcspn(*at, "\n");

	if (**at == '\0')
		return false;
	out[0] = '\0';
	if (n < LINE_CAP) {
		memcpy(out, *at, n);
		out[n] = '\0';
	}
	out[strcspn(out, "#;\r")] = '\0';
	*at += n;
	if (**at == '\n')
		(*at)++;
	return true;
}

static void add_server(struct resolve_conf *c, const struct server *s)
{
	if (c->n_servers < RESOLVE_SERVERS)
		c->servers[c->n_servers++] = *s;
}

/* "192.0.2.1", "192.0.2.1:5353", "2001:db8::1", "[2001:db8::1]:53" */
static int read_server(struct server *s, char *word)
{
	char *colon = strrchr(word, ':'), *end;
	uint64_t port = DNS_PORT;

	if (word[0] == '[') {
		end = strchr(word, ']');
		if (!end || (end[1] != '\0' && end[1] != ':'))
			return -EINVAL;
		colon = end[1] ? end + 1 : NULL;
		*end = '\0';
		word++;
	} else if (colon && strchr(word, ':') != colon) {
		colon = NULL; /* more than one: an address of its own */
	}
	if (colon) {
		*colon = '\0';
		if (parse_u64(colon + 1, UINT16_MAX, &port) < 0 || port == 0)
			return -EINVAL;
	}
	s->port = (uint16_t)port;
	return address_read(&s->address, word);
}

static int read_setting(struct resolve_conf *c, const char *setting,
			struct err *e)
{
	char word[WORD_CAP], kept[WORD_CAP];
	struct server s;

	while (next_word(&setting, ", ", word)) {
		memcpy(kept, word, sizeof(kept));
		if (read_server(&s, word) < 0)
			return err_set(e, EINVAL,
				       "resolver: %s is not ADDRESS[:PORT]",
				       kept);
		add_server(c, &s);
	}
	return 0;
}

static void read_resolv(struct resolve_conf *c, const char *text)
{
	struct server s = { .port = DNS_PORT };
	char line[LINE_CAP], word[WORD_CAP];

	while (next_line(&text, line)) {
		const char *at = line;

		if (next_word(&at, " \t", word) &&
		    strcmp(word, "nameserver") == 0 &&
		    next_word(&at, " \t", word) &&
		    address_read(&s.address, word) == 0)
			add_server(c, &s);
	}
}

static void add_host(struct resolve_conf *c, const struct in6_addr *a,
		     const char *name)
{
	char host[POLICY_HOST_CAP];
	bool address;

	if (c->n_hosts >= HOSTS_MAX ||
	    host_read(name, strlen(name), host, &address) < 0 || address)
		return;
	c->hosts = xrealloc(c->hosts, (c->n_hosts + 1) * sizeof(*c->hosts));
	c->hosts[c->n_hosts++] =
		(struct host_line){ .address = *a, .host = xstrdup(host) };
}

static void read_hosts(struct resolve_conf *c, const char *text)
{
	char line[LINE_CAP], word[WORD_CAP];
	struct in6_addr a;

	while (next_line(&text, line)) {
		const char *at = line;

		if (!next_word(&at, " \t", word) || address_read(&a, word) < 0)
			continue;
		while (next_word(&at, " \t", word))
			add_host(c, &a, word);
	}
}

int resolve_conf_read(struct resolve_conf *c, const char *setting,
		      const char *resolv, const char *hosts, struct err *e)
{
	*c = (struct resolve_conf){ 0 };
	if (read_setting(c, setting, e) < 0) {
		resolve_conf_done(c);
		return -e->code;
	}
	if (c->n_servers == 0 && resolv)
		read_resolv(c, resolv);
	if (c->n_servers == 0) { /* resolv.conf(5): then it is this host */
		struct server s = { .port = DNS_PORT };

		address_map(&s.address, (unsigned char[]){ 127, 0, 0, 1 });
		add_server(c, &s);
	}
	if (hosts)
		read_hosts(c, hosts);
	return 0;
}

void resolve_conf_done(struct resolve_conf *c)
{
	while (c->n_hosts > 0)
		free(c->hosts[--c->n_hosts].host);
	free(c->hosts);
	*c = (struct resolve_conf){ 0 };
}
