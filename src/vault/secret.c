/* What a secret may be, where it may go, and how it travels to the door. */
#include "vault/secret.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/guards.h"
#include "wire/gate.h"
#include "wire/pack.h"

#define PLAIN "http://"

static const char *const kinds[] = { "header", "basic", "query", "aws",
				     "oauth2", "totp",  "text",  "fill" };
static_assert(ARRAY_LEN(kinds) == SECRET_KINDS, "a name each");

const char *secret_kind_name(enum secret_kind k)
{
	return k < SECRET_KINDS ? kinds[k] : "?";
}

#define TEXT(n, member, text)                       \
	{ n, text, offsetof(struct secret, member), \
	  sizeof(((struct secret *)0)->member) }
const struct secret_text secret_texts[] = {
	TEXT("path", path, "only requests whose path is like this"),
	TEXT("field", field, "the field of the head, or the parameter"),
	TEXT("template", template, "the field's value, with {} for the secret"),
	TEXT("user", user, "user, access key id, client id; words of a text"),
	TEXT("region", region, "of AWS"),
	TEXT("service", service, "of AWS"),
	TEXT("token_url", url, "where tokens of OAuth 2 come from"),
	TEXT("scope", scope, "of these tokens"),
	TEXT("env", env, "the variable inside that has the placeholder"),
	{ 0 },
};

void secret_done(struct secret *s)
{
	if (s->close && s->open)
		s->close(s->open);
	free(s->sealed);
	memset(s, 0, sizeof(*s));
}

/* --- places --- */

/* A host of a secret, taken apart. */
struct place {
	bool plain, below;
	const char *host;
	size_t n;
	uint64_t port; /* 0: the scheme's own */
};

static int split_place(const char *s, struct place *p)
{
	const char *end;

	*p = (struct place){ .plain = str_starts(s, PLAIN) };
	if (p->plain)
		s += strlen(PLAIN);
	p->below = str_starts(s, "*.");
	if (p->below)
		s += 2;
	p->host = s;
	end = *s == '[' ? strchr(s, ']') : s + strcspn(s, ":");
	if (!end)
		return -EINVAL;
	if (*s == '[')
		end++;
	p->n = (size_t)(end - s);
	if (*end == '\0')
		return 0;
	if (*end != ':' || parse_u64(end + 1, UINT16_MAX, &p->port) < 0 ||
	    p->port == 0)
		return -EINVAL;
	return 0;
}

/* As it is kept: the host as host_read() has it, an IPv6 one in brackets. */
static int place_text(const char *s, char out[POLICY_HOST_CAP])
{
	char host[POLICY_HOST_CAP], port[8] = "";
	const char *open = "", *close = "";
	bool address;
	struct place p;
	int n;

	if (split_place(s, &p) < 0 ||
	    host_read(p.host, p.n, host, &address) < 0)
		return -EINVAL;
	if (address && p.below)
		return -EINVAL;
	if (strchr(host, ':')) {
		open = "[";
		close = "]";
	}
	if (p.port)
		snprintf(port, sizeof(port), ":%u", (unsigned)p.port);
	n = snprintf(out, POLICY_HOST_CAP, "%s%s%s%s%s%s", p.plain ? PLAIN : "",
		     p.below ? "*." : "", open, host, close, port);
	return n < POLICY_HOST_CAP ? 0 : -EINVAL;
}

int secret_add_host(struct secret *s, const char *text, struct err *e)
{
	if (s->n_hosts == SECRET_HOSTS_MAX)
		return err_set(e, EINVAL, "hosts: more than %d",
			       SECRET_HOSTS_MAX);
	if (str_starts(text, "https://"))
		text += strlen("https://");
	if (place_text(text, s->hosts[s->n_hosts]) < 0)
		return err_set(e, EINVAL,
			       "hosts: '%.100s' is not HOST, *.HOST or "
			       "HOST:PORT",
			       text);
	s->n_hosts++;
	return 0;
}

static bool place_matches(const char *s, const struct request *r)
{
	struct place p;
	const char *host = r->host;
	size_t n = strlen(host);
	uint64_t usual = r->scheme == SCHEME_HTTPS ? 443 : 80;

	if (split_place(s, &p) < 0)
		return false;
	if (r->scheme != (p.plain ? SCHEME_HTTP : SCHEME_HTTPS) ||
	    r->port != (p.port ? p.port : usual))
		return false;
	if (*p.host == '[') {
		p.host++;
		p.n -= 2;
	}
	if (p.below) {
		if (n <= p.n + 1 || host[n - p.n - 1] != '.')
			return false;
		host += n - p.n;
		n = p.n;
	}
	return n == p.n && memcmp(host, p.host, n) == 0;
}

bool secret_binds(const struct secret *s, const struct request *r)
{
	unsigned i;

	/* A code is fetched, a text is carried by others. */
	if (s->kind == SECRET_TOTP || s->kind == SECRET_TEXT)
		return false;
	if (s->methods && r->method &&
	    !(s->methods & method_bit(r->method, strlen(r->method))))
		return false;
	if (s->path[0] && r->path && !path_matches(s->path, r->path))
		return false;
	for (i = 0; i < s->n_hosts; i++)
		if (!GUARD(BINDING) || place_matches(s->hosts[i], r))
			return true;
	return false;
}

void secret_places(const struct secret *s, struct buf *out)
{
	unsigned i;

	buf_puts(out, s->name);
	for (i = 0; i < s->n_hosts; i++)
		buf_printf(out, " %s", s->hosts[i]);
	if (s->url[0])
		buf_printf(out, " %s", s->url);
}

/* --- checks --- */

/* A field name or a method: RFC 9110's token. */
static bool is_token(const char *s)
{
	if (*s == '\0')
		return false;
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) &&
		    !strchr("!#$%&'*+-.^_`|~", *s))
			return false;
	return true;
}

/* Visible ASCII and spaces. */
static bool is_plain(const char *s)
{
	for (; *s; s++)
		if (*s < ' ' || *s > '~')
			return false;
	return true;
}

/* Letters, digits and few others: safe in every place they go to. */
static bool is_word(const char *s)
{
	if (*s == '\0')
		return false;
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && !strchr("-._~", *s))
			return false;
	return true;
}

/* Fields that say where a message goes and where it ends. */
static bool is_framing(const char *field)
{
	static const char *const names[] = {
		"host",       "content-length", "transfer-encoding",
		"connection", "upgrade",        "te",
		"trailer",    "keep-alive",     "expect",
		"via",        "forwarded",      "proxy-authorization",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(names); i++)
		if (strcasecmp(field, names[i]) == 0)
			return true;
	return false;
}

static int check_header(const struct secret *s, struct err *e)
{
	const char *at = strstr(s->template, "{}");

	if (!is_token(s->field) || is_framing(s->field))
		return err_set(e, EINVAL,
			       "field: '%.64s' is no field that can carry a "
			       "secret",
			       s->field);
	if (!at || strstr(at + 2, "{}") || !is_plain(s->template))
		return err_set(e, EINVAL,
			       "template: must have {} once, for the value");
	return 0;
}

static int check_basic(const struct secret *s, struct err *e)
{
	if (!is_plain(s->user) || strchr(s->user, ':'))
		return err_set(e, EINVAL, "user: plain text without a colon");
	return 0;
}

static int check_query(const struct secret *s, struct err *e)
{
	if (!is_word(s->field))
		return err_set(e, EINVAL,
			       "field: a parameter is letters, digits, - . _ "
			       "and ~");
	return 0;
}

static int check_sigv4(const struct secret *s, struct err *e)
{
	if (!is_word(s->user))
		return err_set(e, EINVAL, "user: the access key id is missing");
	if (!is_word(s->region) || !is_word(s->service))
		return err_set(e, EINVAL,
			       "region, service: one word each, as in "
			       "us-east-1 and s3");
	return 0;
}

static int check_oauth2(const struct secret *s, struct err *e)
{
	struct err why = { 0 };
	struct url u;

	if (!str_starts(s->url, "https://") || strpbrk(s->url, " ?#") ||
	    url_read(&u, s->url, &why) < 0)
		return err_set(e, EINVAL,
			       "token_url: not an https:// address without a "
			       "query");
	if (s->user[0] == '\0' || !is_plain(s->user) || !is_plain(s->scope))
		return err_set(e, EINVAL,
			       "user, scope: the client id is missing, or not "
			       "plain text");
	return 0;
}

static int check_totp(const struct secret *s, struct err *e)
{
	if (s->n_hosts > 0)
		return err_set(e, EINVAL,
			       "hosts: a one-time code is fetched, not added "
			       "to requests");
	return 0;
}

static int check_text(const struct secret *s, struct err *e)
{
	if (s->n_hosts > 0)
		return err_set(e, EINVAL,
			       "hosts: a text goes where those that carry it "
			       "go");
	if (!is_plain(s->user))
		return err_set(e, EINVAL, "user: plain text");
	return 0;
}

static int (*const kind_checks[])(const struct secret *s, struct err *e) = {
	[SECRET_HEADER] = check_header, [SECRET_BASIC] = check_basic,
	[SECRET_QUERY] = check_query,   [SECRET_SIGV4] = check_sigv4,
	[SECRET_OAUTH2] = check_oauth2, [SECRET_TOTP] = check_totp,
	[SECRET_TEXT] = check_text,     [SECRET_FILL] = check_header,
};
static_assert(ARRAY_LEN(kind_checks) == SECRET_KINDS, "a check each");

static int check_hosts(const struct secret *s, struct err *e)
{
	char text[POLICY_HOST_CAP];
	unsigned i;

	if (s->n_hosts == 0 && s->kind != SECRET_TOTP && s->kind != SECRET_TEXT)
		return err_set(e, EINVAL, "hosts: where may it go?");
	for (i = 0; i < s->n_hosts; i++)
		if (place_text(s->hosts[i], text) < 0 ||
		    strcmp(text, s->hosts[i]) != 0)
			return err_set(e, EINVAL, "hosts: '%.100s' is no host",
				       s->hosts[i]);
	return 0;
}

static int check_env(const char *s, struct err *e)
{
	const char *at;

	for (at = s; *at; at++)
		if (!isalnum((unsigned char)*at) && *at != '_')
			return err_set(e, EINVAL,
				       "env: '%.64s' is not the name of a "
				       "variable",
				       s);
	if (isdigit((unsigned char)*s))
		return err_set(e, EINVAL, "env: starts with a digit");
	return 0;
}

int secret_check(const struct secret *s, struct err *e)
{
	int r;

	if (!name_valid(s->name))
		return err_set(e, EINVAL,
			       "name: not 1 to 63 of a-z, 0-9 and -");
	if (s->kind >= SECRET_KINDS)
		return err_set(e, EINVAL, "kind: not one that there is");
	if (s->path[0] && (s->path[0] != '/' && s->path[0] != '*'))
		return err_set(e, EINVAL, "path: does not start with /");
	if (!is_plain(s->path))
		return err_set(e, EINVAL, "path: not plain text");
	r = check_hosts(s, e);
	if (r == 0)
		r = check_env(s->env, e);
	if (r == 0)
		r = kind_checks[s->kind](s, e);
	return r;
}

int secret_set_header(struct secret *s, const char *line, struct err *e)
{
	size_t n = strcspn(line, ":");
	const char *value = line + n;

	if (*value == '\0' || n >= sizeof(s->field))
		return err_set(e, EINVAL,
			       "header: not as in 'Authorization: Bearer {}'");
	memcpy(s->field, line, n);
	s->field[n] = '\0';
	value++;
	value += strspn(value, " \t");
	if (str_copy(s->template, sizeof(s->template), value) < 0)
		return err_set(e, EINVAL, "header: too long");
	return 0;
}

/* --- on the way to the door --- */

void secret_pack(struct buf *b, const struct secret *s)
{
	const struct secret_text *t;
	unsigned i;

	pack_str(b, s->name);
	pack_u8(b, (uint8_t)s->kind);
	pack_u32(b, s->methods);
	pack_u8(b, s->private_url);
	for (t = secret_texts; t->name; t++)
		pack_str(b, (const char *)s + t->at);
	pack_u8(b, (uint8_t)s->n_hosts);
	for (i = 0; i < s->n_hosts; i++)
		pack_str(b, s->hosts[i]);
	buf_add(b, s->sealed, s->sealed_n);
}

static void take_text(struct unpack *u, char *out, size_t cap)
{
	if (str_copy(out, cap, unpack_str(u)) < 0)
		u->bad = true;
}

/* One form of each: what is packed again is the same. */
static bool take_yes_no(struct unpack *u)
{
	unsigned v = unpack_u8(u);

	if (v > 1)
		u->bad = true;
	return v == 1;
}

static void take_sealed(struct unpack *u, struct secret *s)
{
	size_t n;
	const void *p = unpack_rest(u, &n);

	if (u->bad || n > GATE_SEALED_MAX) {
		u->bad = true;
		return;
	}
	s->sealed = xcalloc(1, n + 1);
	memcpy(s->sealed, p, n);
	s->sealed_n = n;
}

int secret_unpack(struct secret *s, const void *p, size_t n)
{
	struct unpack u = unpack_init(p, n);
	const struct secret_text *t;
	struct err e = { 0 };
	unsigned i;

	memset(s, 0, sizeof(*s));
	list_init(&s->node);
	take_text(&u, s->name, sizeof(s->name));
	s->kind = unpack_u8(&u);
	s->methods = unpack_u32(&u);
	s->private_url = take_yes_no(&u);
	for (t = secret_texts; t->name; t++)
		take_text(&u, (char *)s + t->at, t->cap);
	s->n_hosts = unpack_u8(&u);
	if (u.bad || s->n_hosts > SECRET_HOSTS_MAX) {
		secret_done(s);
		return -EBADMSG;
	}
	for (i = 0; i < s->n_hosts; i++)
		take_text(&u, s->hosts[i], sizeof(s->hosts[i]));
	take_sealed(&u, s);
	if (unpack_ok(&u) && secret_check(s, &e) == 0)
		return 0;
	secret_done(s);
	return -EBADMSG;
}
