#include "policy/target.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"

static const char *const methods[] = { "GET",   "HEAD",   "POST",   "PUT",
				       "PATCH", "DELETE", "OPTIONS" };

static const struct {
	const char *prefix;
	unsigned schemes;
} schemes[] = {
	{ "http://", SCHEME_HTTP },
	{ "https://", SCHEME_HTTPS },
	{ "", SCHEME_WEB },
};

const char *method_name(unsigned n)
{
	return n < ARRAY_LEN(methods) ? methods[n] : NULL;
}

unsigned method_bit(const char *s, size_t n)
{
	unsigned i;

	for (i = 0; i < ARRAY_LEN(methods); i++)
		if (strlen(methods[i]) == n && memcmp(methods[i], s, n) == 0)
			return 1U << i;
	return 0;
}

int methods_read(struct rule *r, const char *s, size_t n, struct err *e)
{
	size_t len;

	r->methods = 0;
	r->schemes = SCHEME_WEB;
	if (n == 1 && s[0] == '*')
		return 0;
	if (n == 3 && memcmp(s, "tcp", 3) == 0) {
		r->schemes = SCHEME_TCP;
		return 0;
	}
	for (;; s += len + 1, n -= len + 1) {
		const char *comma = memchr(s, ',', n);
		unsigned bit;

		len = comma ? (size_t)(comma - s) : n;
		bit = method_bit(s, len);
		if (bit == 0)
			return err_set(e, EINVAL,
				       "'%.*s' is no method: GET, HEAD, POST, "
				       "PUT, PATCH, DELETE, OPTIONS, several "
				       "with commas, '*' for any, or 'tcp'",
				       (int)(len < 32 ? len : 32), s);
		r->methods |= bit;
		if (!comma)
			return 0;
	}
}

void methods_print(const struct rule *r, struct buf *out)
{
	const char *sep = "";
	unsigned i;

	if (r->schemes == SCHEME_TCP)
		buf_puts(out, "tcp");
	else if (r->methods == 0)
		buf_puts(out, "*");
	for (i = 0; i < ARRAY_LEN(methods); i++)
		if (r->methods & 1U << i) {
			buf_printf(out, "%s%s", sep, methods[i]);
			sep = ",";
		}
}

static int read_port(struct rule *r, const char *s, size_t n, struct err *e)
{
	char text[8];
	uint64_t port;

	if (n == 1 && s[0] == '*') {
		r->port = PORT_ANY;
		return 0;
	}
	snprintf(text, sizeof(text), "%.*s", (int)(n < 7 ? n : 7), s);
	if (parse_u64(text, 65535, &port) < 0 || port == 0)
		return err_set(e, EINVAL,
			       "'%s' is no port: 1 to 65535, or '*' for any",
			       text);
	r->port = (uint32_t)port;
	return 0;
}

const char *host_prefix(enum host_kind kind)
{
	if (kind == HOST_BELOW)
		return "*.";
	return kind == HOST_TREE ? "." : "";
}

/* In its one spelling. */
static int read_network(char out[POLICY_HOST_CAP], const char *s, size_t n,
			struct err *e)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct network x;

	if (network_read(&x, s, n, e) < 0)
		return -e->code;
	network_print(&x, true, &text);
	return str_copy(out, POLICY_HOST_CAP, buf_str(&text));
}

int host_kind_read(enum host_kind *kind, char out[POLICY_HOST_CAP],
		   const char *s, size_t n, struct err *e)
{
	bool address = false;
	int shown = (int)(n < 100 ? n : 100);

	if (n > 2 && s[0] == '[' && s[n - 1] == ']' && memchr(s, '/', n)) {
		*kind = HOST_NETWORK;
		return read_network(out, s + 1, n - 2, e);
	}
	if (n == 1 && s[0] == '*') {
		*kind = HOST_ANY;
		out[0] = '\0';
		return 0;
	}
	*kind = HOST_NAME;
	if (n > 2 && s[0] == '*' && s[1] == '.') {
		*kind = HOST_BELOW;
		s += 2;
		n -= 2;
	} else if (n > 1 && s[0] == '.') {
		*kind = HOST_TREE;
		s++;
		n--;
	}
	if (host_read(s, n, out, &address) < 0 ||
	    (address && *kind != HOST_NAME))
		return err_set(e, EINVAL,
			       "'%.*s' is no host: a name, '*.' or '.' and a "
			       "name, '*', an address, or [NETWORK/BITS]",
			       shown, s);
	if (address)
		*kind = HOST_ADDRESS;
	return 0;
}

/* What a decoded path can be: no control bytes, nothing that leads upwards. */
static int read_path(struct rule *r, const char *s, size_t n, struct err *e)
{
	size_t i;

	if (n >= sizeof(r->path))
		return err_set(e, ENAMETOOLONG, "the path is over %zu bytes",
			       sizeof(r->path) - 1);
	for (i = 0; i < n; i++)
		if (iscntrl((unsigned char)s[i]) || strchr("?#%\\", s[i]))
			return err_set(e, EINVAL,
				       "a path is written decoded, without "
				       "query: no '?', '#', '%%', '\\'");
	memcpy(r->path, s, n);
	r->path[n] = '\0';
	if (!str_is_utf8(r->path, n))
		return err_set(e, EINVAL, "the path is not UTF-8");
	/* All of them: the same as no path. */
	if (strcmp(r->path, "/*") == 0)
		r->path[0] = '\0';
	return 0;
}

/* Where the host ends: at the port or the path, behind the brackets. */
static size_t host_length(const char *s, size_t n)
{
	const char *close = n && s[0] == '[' ? memchr(s, ']', n) : NULL;
	size_t i = close ? (size_t)(close - s) : 0;

	while (i < n && s[i] != ':' && s[i] != '/')
		i++;
	return i;
}

/* "10.0.0.0/8": a path of one server, by our rules, and never meant so. */
static bool looks_like_network(const struct rule *r, const char *s, size_t n)
{
	size_t i;

	if (r->kind != HOST_ADDRESS || r->schemes == SCHEME_HTTP ||
	    r->schemes == SCHEME_HTTPS || n < 2 || n > 4 || s[0] != '/')
		return false;
	for (i = 1; i < n; i++)
		if (!isdigit((unsigned char)s[i]))
			return false;
	return true;
}

static int read_place(struct rule *r, const char *s, size_t n, struct err *e)
{
	size_t len = host_length(s, n);
	const char *slash;

	if (host_kind_read(&r->kind, r->host, s, len, e) < 0)
		return -e->code;
	r->host_n = strlen(r->host);
	if ((r->kind == HOST_ADDRESS || r->kind == HOST_NETWORK) &&
	    network_read(&r->network, r->host, r->host_n, e) < 0)
		return -e->code;
	if (looks_like_network(r, s + len, n - len))
		return err_set(e, EINVAL,
			       "'%.*s' is a network only in brackets: [%.*s]",
			       (int)n, s, (int)n, s);
	s += len;
	n -= len;
	if (n && s[0] == ':') {
		slash = memchr(s, '/', n);
		len = slash ? (size_t)(slash - s) : n;
		if (read_port(r, s + 1, len - 1, e) < 0)
			return -e->code;
		s += len;
		n -= len;
	}
	return n ? read_path(r, s, n, e) : 0;
}

int target_read(struct rule *r, const char *s, size_t n, struct err *e)
{
	bool tcp = r->schemes == SCHEME_TCP;
	size_t i = 0, len;

	r->port = PORT_USUAL;
	r->path[0] = r->host[0] = '\0';
	if (n == 1 && s[0] == '*' && !tcp) {
		/* Everything; with methods, everything that has one. */
		r->kind = HOST_ANY;
		r->port = PORT_ANY;
		r->schemes = r->methods ? SCHEME_WEB : SCHEME_ALL;
		return 0;
	}
	len = strlen(schemes[i].prefix);
	while (n < len || memcmp(s, schemes[i].prefix, len) != 0)
		len = strlen(schemes[++i].prefix);
	if (tcp && len)
		return err_set(e, EINVAL, "'tcp' takes HOST:PORT");
	if (!tcp)
		r->schemes = schemes[i].schemes;
	if (read_place(r, s + len, n - len, e) < 0)
		return -e->code;
	if (tcp && (r->port == PORT_USUAL || r->path[0]))
		return err_set(e, EINVAL, "'tcp' takes HOST:PORT");
	return 0;
}

static bool is_everything(const struct rule *r)
{
	return r->kind == HOST_ANY && r->port == PORT_ANY && !r->path[0] &&
	       (r->methods ? r->schemes == SCHEME_WEB
			   : r->schemes == SCHEME_ALL);
}

void target_print(const struct rule *r, struct buf *out)
{
	bool brackets = r->kind == HOST_NETWORK ||
			(r->kind == HOST_ADDRESS && strchr(r->host, ':'));

	if (is_everything(r)) {
		buf_puts(out, "*");
		return;
	}
	if (r->schemes == SCHEME_HTTP)
		buf_puts(out, "http://");
	if (r->schemes == SCHEME_HTTPS)
		buf_puts(out, "https://");
	if (r->kind == HOST_ANY)
		buf_puts(out, "*");
	else
		buf_printf(out, brackets ? "%s[%s]" : "%s%s",
			   host_prefix(r->kind), r->host);
	if (r->port == PORT_ANY)
		buf_puts(out, ":*");
	else if (r->port != PORT_USUAL)
		buf_printf(out, ":%u", r->port);
	buf_puts(out, r->path);
}
