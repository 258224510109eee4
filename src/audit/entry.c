#include "audit/entry.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"

/* Where the reading is. `why` is set by the first failure. */
struct cursor {
	const char *p, *end;
	const char *why;
};

static bool fail(struct cursor *c, const char *why)
{
	if (!c->why)
		c->why = why;
	return false;
}

static bool peek(const struct cursor *c, char ch)
{
	return c->p < c->end && *c->p == ch;
}

static bool take(struct cursor *c, const char *text)
{
	size_t n = strlen(text);

	if ((size_t)(c->end - c->p) < n || memcmp(c->p, text, n) != 0)
		return false;
	c->p += n;
	return true;
}

static bool must(struct cursor *c, const char *text)
{
	return take(c, text) || fail(c, "a member is missing or out of order");
}

static bool is_digit(char ch)
{
	return ch >= '0' && ch <= '9';
}

static bool is_hex(char ch)
{
	return is_digit(ch) || (ch >= 'a' && ch <= 'f');
}

/* --- JSON of any content, without white space --- */

static bool digits(struct cursor *c)
{
	const char *from = c->p;

	while (c->p < c->end && is_digit(*c->p))
		c->p++;
	return c->p > from;
}

static bool json_number(struct cursor *c)
{
	take(c, "-");
	if (!take(c, "0") && !digits(c))
		return false;
	if (take(c, ".") && !digits(c))
		return false;
	if (take(c, "e") || take(c, "E")) {
		if (!take(c, "+"))
			take(c, "-");
		return digits(c);
	}
	return true;
}

static bool json_escape(struct cursor *c)
{
	int i;

	if (c->p == c->end)
		return false;
	if (*c->p++ != 'u')
		return strchr("\"\\/bfnrt", c->p[-1]) && c->p[-1] != '\0';
	for (i = 0; i < 4; i++, c->p++)
		if (c->p == c->end ||
		    (!is_hex(*c->p) && !(*c->p >= 'A' && *c->p <= 'F')))
			return false;
	return true;
}

/* UTF-8 was checked for the whole. */
static bool json_string(struct cursor *c)
{
	if (!take(c, "\""))
		return false;
	while (c->p < c->end) {
		char ch = *c->p++;

		if (ch == '"')
			return true;
		if ((unsigned char)ch < 0x20 || (ch == '\\' && !json_escape(c)))
			return false;
	}
	return false;
}

static bool json_scalar(struct cursor *c)
{
	if (peek(c, '"'))
		return json_string(c);
	return take(c, "null") || take(c, "true") || take(c, "false") ||
	       json_number(c);
}

/*
 * A value with all that is in it, without recursion: `open` has the bracket of
 * each level.
 */
static bool json_value(struct cursor *c)
{
	char open[ENTRY_DEPTH_MAX];
	unsigned depth = 0;

	for (;;) {
		/* In front of a value, behind the name of a member. */
		if (peek(c, '{') || peek(c, '[')) {
			bool object = *c->p++ == '{';

			if (depth == ENTRY_DEPTH_MAX)
				return fail(c, "nested too deeply");
			open[depth++] = object ? '}' : ']';
			if (!peek(c, open[depth - 1])) {
				if (object &&
				    (!json_string(c) || !take(c, ":")))
					return false;
				continue;
			}
		} else if (!json_scalar(c)) {
			return false;
		}
		/* Behind a value: close what ends here, go on with the next. */
		while (depth > 0 && peek(c, open[depth - 1])) {
			c->p++;
			depth--;
		}
		if (depth == 0)
			return true;
		if (!take(c, ","))
			return false;
		if (open[depth - 1] == '}' &&
		    (!json_string(c) || !take(c, ":")))
			return false;
	}
}

/* --- the members of an entry --- */

/* Visible ASCII without quotes and backslashes: needs no escapes. */
static bool word(struct cursor *c, struct span *out, size_t max)
{
	if (!take(c, "\""))
		return fail(c, "a text is missing");
	out->p = c->p;
	while (c->p < c->end && *c->p > ' ' && *c->p < 0x7f && *c->p != '"' &&
	       *c->p != '\\')
		c->p++;
	out->n = (size_t)(c->p - out->p);
	if (out->n == 0 || out->n > max || !take(c, "\""))
		return fail(c, "a text has bytes that it must not have");
	return true;
}

static bool word_or_null(struct cursor *c, struct span *out)
{
	*out = (struct span){ 0 };
	return take(c, "null") || word(c, out, ENTRY_WORD_MAX);
}

static bool number(struct cursor *c, uint64_t *out)
{
	const char *from = c->p;

	*out = 0;
	while (c->p < c->end && is_digit(*c->p) && c->p - from < 17)
		*out = *out * 10 + (uint64_t)(*c->p++ - '0');
	if (c->p == from || (*from == '0' && c->p - from > 1) ||
	    *out > 1ULL << 53)
		return fail(c, "a number is missing or too large");
	return true;
}

static bool hex(struct cursor *c, struct span *out, size_t n)
{
	size_t i;

	if (!word(c, out, n) || out->n != n)
		return fail(c, "a hash or signature is too short");
	for (i = 0; i < n; i++)
		if (!is_hex(out->p[i]))
			return fail(c,
				    "a hash or signature is not hexadecimal");
	return true;
}

static bool stamp_ok(struct span s)
{
	static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ";
	size_t i;

	if (s.n != sizeof(form) - 1)
		return false;
	for (i = 0; i < s.n; i++)
		if (form[i] == 'd' ? !is_digit(s.p[i]) : s.p[i] != form[i])
			return false;
	return true;
}

static bool type_ok(struct span s)
{
	size_t i;

	for (i = 0; i < s.n; i++)
		if (!(s.p[i] >= 'a' && s.p[i] <= 'z') && !is_digit(s.p[i]) &&
		    s.p[i] != '_' && s.p[i] != '.')
			return false;
	return s.n <= ENTRY_TYPE_MAX && memchr(s.p, '.', s.n) != NULL &&
	       s.p[0] != '.' && s.p[s.n - 1] != '.';
}

/* "time" to "data", without the braces around. */
static bool members(struct cursor *c, struct entry *e)
{
	if (!must(c, "\"time\":") || !word(c, &e->time, ENTRY_WORD_MAX) ||
	    !must(c, ",\"type\":") || !word(c, &e->type, ENTRY_TYPE_MAX) ||
	    !must(c, ",\"sandbox\":") || !word_or_null(c, &e->sandbox) ||
	    !must(c, ",\"project\":") || !word_or_null(c, &e->project) ||
	    !must(c, ",\"who\":") || !word_or_null(c, &e->who) ||
	    !must(c, ",\"request\":") || !word_or_null(c, &e->request) ||
	    !must(c, ",\"data\":"))
		return false;
	if (!stamp_ok(e->time))
		return fail(c, "the time is not a time");
	if (!type_ok(e->type))
		return fail(c, "the type is not a type");
	e->data.p = c->p;
	if (!peek(c, '{') || !json_value(c))
		return fail(c, "the data is not a JSON object");
	e->data.n = (size_t)(c->p - e->data.p);
	return true;
}

static int verdict(const struct cursor *c, bool ok, const char **why)
{
	if (!ok)
		*why = c->why ? c->why : "not JSON";
	return ok ? 0 : -EINVAL;
}

int entry_read_body(const char *p, size_t n, struct entry *out,
		    const char **why)
{
	struct cursor c = { .p = p, .end = p + n };
	bool ok;

	*out = (struct entry){ 0 };
	if (n > ENTRY_BODY_MAX)
		ok = fail(&c, "too large");
	else if (!str_is_utf8(p, n))
		ok = fail(&c, "not UTF-8");
	else
		ok = must(&c, "{") && members(&c, out) && must(&c, "}");
	if (ok && c.p != c.end)
		ok = fail(&c, "bytes behind its end");
	if (ok && span_starts(out->type, ENTRY_OWN_TYPES))
		ok = fail(&c, "a type of the log's own");
	return verdict(&c, ok, why);
}

static bool whole(struct cursor *c, const char *line, struct entry *e)
{
	if (!must(c, "{\"seq\":") || !number(c, &e->seq) || !must(c, ",") ||
	    !members(c, e) ||
	    (take(c, ",\"source\":") && !word(c, &e->source, ENTRY_WORD_MAX)) ||
	    !must(c, ",\"spool\":") || !number(c, &e->spool) ||
	    !must(c, ",\"prev\":") || !hex(c, &e->prev, HASH_HEX))
		return false;
	e->signed_n = (size_t)(c->p - line);
	if (take(c, ",\"signature\":") && !hex(c, &e->signature, SIGNATURE_HEX))
		return false;
	e->hashed_n = (size_t)(c->p - line);
	return must(c, ",\"hash\":") && hex(c, &e->hash, HASH_HEX) &&
	       must(c, "}");
}

int entry_parse(const char *line, size_t n, struct entry *out, const char **why)
{
	struct cursor c = { .p = line, .end = line + n };
	bool ok;

	*out = (struct entry){ 0 };
	if (n >= ENTRY_LINE_MAX)
		ok = fail(&c, "too long");
	else if (!str_is_utf8(line, n))
		ok = fail(&c, "not UTF-8");
	else
		ok = whole(&c, line, out);
	if (ok && c.p != c.end)
		ok = fail(&c, "bytes behind its end");
	if (ok && out->seq == 0)
		ok = fail(&c, "numbers start at 1");
	return verdict(&c, ok, why);
}

bool span_is(struct span s, const char *text)
{
	return s.p && s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

bool span_starts(struct span s, const char *prefix)
{
	size_t n = strlen(prefix);

	return s.p && s.n >= n && memcmp(s.p, prefix, n) == 0;
}

void entry_begin(struct buf *out, uint64_t seq, const struct entry_from *from,
		 const char *prev)
{
	buf_printf(out, "{\"seq\":%llu,", (unsigned long long)seq);
	buf_add(out, from->body + 1, from->n - 2); /* without its braces */
	if (from->source)
		buf_printf(out, ",\"source\":\"%s\"", from->source);
	buf_printf(out, ",\"spool\":%llu,\"prev\":\"%s\"",
		   (unsigned long long)from->spool, prev);
}
