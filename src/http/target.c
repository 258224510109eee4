/* Percent-decoding of targets; see the header for what is refused. */
#include "http/target.h"

#include <errno.h>
#include <string.h>

#include "base/guards.h"

static bool is_alnum(unsigned char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z');
}

static bool is_path_char(unsigned char c)
{
	return is_alnum(c) || (c && strchr("-._~!$&'()*+,;=:@/", c));
}

/* More than RFC 3986 allows: browsers leave []{}|^` as they are. */
static bool is_query_char(unsigned char c)
{
	return c > 0x20 && c < 0x7f && !strchr("\"#<>\\", c);
}

static bool is_control(unsigned char c)
{
	return c < 0x20 || c == 0x7f;
}

int http_hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* The byte of "%41" at `p` (NUL-terminated), or -1. */
static int decode_byte(const char *p)
{
	int high = http_hex_value(p[1]);
	int low = high < 0 ? -1 : http_hex_value(p[2]);

	return low < 0 ? -1 : high << 4 | low;
}

/* No empty, "." or ".." segment; only the last may be empty. */
static bool segments_ok(const char *path)
{
	const char *s = path;

	while (*s == '/') {
		size_t n = strcspn(s + 1, "/");

		if (n == 0 && s[1] == '/')
			return false;
		if ((n == 1 && s[1] == '.') ||
		    (n == 2 && s[1] == '.' && s[2] == '.'))
			return false;
		s += n + 1;
	}
	return true;
}

static int check_query(const char *q)
{
	for (; *q; q++) {
		if (!is_query_char((unsigned char)*q))
			return -EINVAL;
		if (*q == '%' && decode_byte(q) < 0)
			return -EINVAL;
	}
	return 0;
}

int http_target_split(const char *target, char *path, const char **query)
{
	const char *s = target;
	size_t n = 0;

	if (*s != '/')
		return -EINVAL;
	for (; *s && *s != '?'; s++) {
		int c = (unsigned char)*s;

		if (c == '%') {
			c = decode_byte(s);
			if (c < 0 || is_control((unsigned char)c) || c == '/' ||
			    c == '\\')
				return -EINVAL;
			s += 2;
		} else if (!is_path_char((unsigned char)c)) {
			return -EINVAL;
		}
		path[n++] = (char)c;
	}
	path[n] = '\0';
	if ((GUARD(ROUTES) && !segments_ok(path)) || !http_is_utf8(path, n))
		return -EINVAL;
	*query = *s ? s + 1 : s;
	return check_query(*query);
}

static void put_encoded(char *out, int c)
{
	static const char hex[] = "0123456789ABCDEF";

	out[0] = '%';
	out[1] = hex[c >> 4];
	out[2] = hex[c & 15];
}

/* No second reading of a decoded path: see the header. */
static bool reads_once(const char *path)
{
	const char *s;

	for (s = strchr(path, '%'); s; s = strchr(s + 1, '%'))
		if (decode_byte(s) >= 0)
			return false;
	for (s = strstr(path, "/."); s; s = strstr(s + 1, "/.")) {
		const char *end = s + 2 + (s[2] == '.');

		if (*end == ';')
			return false;
	}
	return true;
}

int http_target_proxy(const char *target, char *path, char *sent,
		      const char **query, bool *slashes)
{
	const char *s = target;
	size_t n = 0, len = 0;

	*slashes = false;
	if (*s != '/')
		return -EINVAL;
	for (; *s && *s != '?'; s++) {
		bool coded = *s == '%';
		int c = coded ? decode_byte(s) : (unsigned char)*s;

		if (c < 0 || is_control((unsigned char)c) || c == '\\' ||
		    (!coded && !is_path_char((unsigned char)c)))
			return -EINVAL;
		*slashes |= coded && c == '/';
		path[n++] = (char)c;
		/* What is encoded without need has two spellings. */
		if (coded && !is_alnum((unsigned char)c) &&
		    !strchr("-._~", c)) {
			put_encoded(sent + len, c);
			len += 3;
		} else {
			sent[len++] = (char)c;
		}
		s += coded ? 2 : 0;
	}
	path[n] = sent[len] = '\0';
	if ((GUARD(PATHS) && (!segments_ok(path) || !reads_once(path))) ||
	    !http_is_utf8(path, n))
		return -EINVAL;
	*query = *s ? s + 1 : s;
	return check_query(*query);
}

void http_path_kept(const char *sent, char *out)
{
	for (; *sent; sent++) {
		int c = *sent == '%' ? decode_byte(sent) : '/';

		if (c == '/') {
			*out++ = *sent;
			continue;
		}
		*out++ = (char)c;
		sent += 2;
	}
	*out = '\0';
}

/* Decodes `n` bytes of a query that was checked: the length, or -errno. */
static int decode_form(const char *p, size_t n, char *out, size_t cap)
{
	size_t i, len = 0;

	for (i = 0; i < n; i++) {
		int c = p[i] == '+' ? ' ' : (unsigned char)p[i];

		if (c == '%') {
			c = decode_byte(p + i);
			i += 2;
		}
		if (c < 0 || is_control((unsigned char)c))
			return -EINVAL;
		if (len + 1 >= cap)
			return -ENAMETOOLONG;
		out[len++] = (char)c;
	}
	out[len] = '\0';
	return http_is_utf8(out, len) ? (int)len : -EINVAL;
}

/* Is this the name of the parameter, however it is written? */
static bool is_key(const char *p, size_t n, const char *name)
{
	char key[64];

	return decode_form(p, n, key, sizeof(key)) >= 0 &&
	       strcmp(key, name) == 0;
}

int http_query_next(const char **at, const char *name, char *out, size_t cap)
{
	while (**at) {
		const char *q = *at;
		size_t n = strcspn(q, "&");
		const char *eq = memchr(q, '=', n);
		size_t key_n = eq ? (size_t)(eq - q) : n;
		size_t skip = eq ? key_n + 1 : n;

		*at += n + (q[n] == '&');
		if (is_key(q, key_n, name)) {
			int r = decode_form(q + skip, n - skip, out, cap);

			return r < 0 ? r : 1;
		}
	}
	return 0;
}

int http_query(const struct http_head *h, const char *name, char *out,
	       size_t cap)
{
	const char *at = h->query;
	int r = http_query_next(&at, name, out, cap), again;
	char rest[1];

	if (r <= 0)
		return r;
	/* A second one is an error, whatever it is. */
	again = http_query_next(&at, name, rest, sizeof(rest));
	return again ? -EINVAL : 1;
}

void http_query_without(struct buf *out, const char *query, const char *name)
{
	bool first = true;

	while (*query) {
		size_t n = strcspn(query, "&");
		const char *eq = memchr(query, '=', n);

		if (!is_key(query, eq ? (size_t)(eq - query) : n, name)) {
			buf_puts(out, first ? "" : "&");
			buf_add(out, query, n);
			first = false;
		}
		query += n + (query[n] == '&');
	}
}

void http_encode(struct buf *b, const char *s)
{
	static const char hex[] = "0123456789ABCDEF";

	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		char esc[3] = { '%', hex[c >> 4], hex[c & 15] };

		if (is_alnum(c) || strchr("-._~", c))
			buf_add(b, s, 1);
		else
			buf_add(b, esc, sizeof(esc));
	}
}
