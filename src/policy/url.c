/* URLs of those who ask: read once, in one way, or refused. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "policy/policy.h"

static const struct {
	const char *prefix;
	enum scheme scheme;
	uint16_t port; /* 0: it must be given */
} forms[] = {
	{ "http://", SCHEME_HTTP, 80 }, { "https://", SCHEME_HTTPS, 443 },
	{ "ws://", SCHEME_HTTP, 80 },   { "wss://", SCHEME_HTTPS, 443 },
	{ "tcp://", SCHEME_TCP, 0 },
};

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The next byte of a path, decoded, or -1: bad, or readable in two ways. */
static int next_byte(const char **s, const char *end)
{
	int hi, lo, c = (unsigned char)*(*s)++;

	if (c == '%') {
		if (end - *s < 2)
			return -1;
		hi = hex((*s)[0]);
		lo = hex((*s)[1]);
		*s += 2;
		c = hi < 0 || lo < 0 ? -1 : hi * 16 + lo;
		if (c == '/')
			return -1;
	}
	return c < 0x20 || c == 0x7f || c == '\\' ? -1 : c;
}

static bool has_dots(const char *path)
{
	const char *p = path;

	while ((p = strchr(p, '/')) != NULL) {
		size_t n = strcspn(++p, "/");

		if ((n == 1 && p[0] == '.') ||
		    (n == 2 && p[0] == '.' && p[1] == '.'))
			return true;
	}
	return false;
}

static int read_path(struct url *u, const char *s, const char *end)
{
	size_t n = 0;

	if (s == end) {
		memcpy(u->path, "/", 2);
		return 0;
	}
	while (s < end) {
		int c = next_byte(&s, end);

		if (c < 0 || n + 1 >= sizeof(u->path))
			return -EINVAL;
		u->path[n++] = (char)c;
	}
	u->path[n] = '\0';
	return has_dots(u->path) || !str_is_utf8(u->path, n) ? -EINVAL : 0;
}

/* HOST[:PORT] */
static int read_place(struct url *u, const char *s, size_t n)
{
	const char *close = n && s[0] == '[' ? memchr(s, ']', n) : NULL;
	const char *from = close ? close : s;
	const char *colon = memchr(from, ':', n - (size_t)(from - s));
	char text[8];
	uint64_t port;
	bool address;

	if (colon) {
		size_t len = n - (size_t)(colon + 1 - s);

		if (len == 0 || len >= sizeof(text))
			return -EINVAL;
		memcpy(text, colon + 1, len);
		text[len] = '\0';
		if (parse_u64(text, 65535, &port) < 0 || port == 0)
			return -EINVAL;
		u->port = (uint16_t)port;
		n = (size_t)(colon - s);
	}
	return u->port == 0 ? -EINVAL : host_read(s, n, u->host, &address);
}

int url_read(struct url *u, const char *s, struct err *e)
{
	size_t i, len, n;

	*u = (struct url){ 0 };
	for (i = 0; i < ARRAY_LEN(forms); i++)
		if (strncasecmp(s, forms[i].prefix, strlen(forms[i].prefix)) ==
		    0)
			break;
	if (i == ARRAY_LEN(forms))
		return err_set(e, EINVAL,
			       "'%.100s' is no URL: http://, https://, ws://, "
			       "wss:// or tcp://HOST:PORT",
			       s);
	u->scheme = forms[i].scheme;
	u->port = forms[i].port;
	s += strlen(forms[i].prefix);
	n = strcspn(s, "/?#");
	if (memchr(s, '@', n))
		return err_set(e, EINVAL, "a URL with a user is not taken");
	len = strcspn(s + n, "?#");
	if (read_place(u, s, n) < 0)
		return err_set(e, EINVAL, "'%.*s' is no host, or a bad port",
			       (int)(n < 100 ? n : 100), s);
	if (read_path(u, s + n, s + n + len) < 0)
		return err_set(e, EINVAL,
			       "the path can be read in more than one way");
	return 0;
}
